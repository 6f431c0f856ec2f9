#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The client mounts a crafted server, which replies as no correct server does.
#
# `PEER='adv48 adv67'` in the environment runs only these cases.

. ./lib.sh
need_pair
need_peer
peer_cases client

# Whether the log says so, if a server granted nothing.
logged_once() { [[ " ${cases[*]} " != *" adv72_"* ]] || [ "$(dmesg | grep -c 'granted no credits')" -eq 1 ]; }

# Whether it says why a connection was given up, if a server did not answer.
silence_logged() { [[ " ${cases[*]} " != *" adv104_"* ]] || dmesg | grep 'lost: no reply in time'; }

# Whether it says why a call failed, if a server broke the protocol twice.
violation_logged() {
	[[ " ${cases[*]} " != *" repeated_violation_"* ]] || dmesg | grep 'failed, because the server sent a segment that was not offered'
}

modprobe rpcrdma
plan $((${#cases[@]} + 4))
for name in "${cases[@]}"; do
	check_peer "$name"
	umount -f -l /mnt/peer /mnt/peer2 2>/dev/null
done
check "a grant of nothing is logged, once" logged_once
check "silence is logged" silence_logged
check "a call that fails because of the server is logged" violation_logged
check "the module unloads" unload
finish
