#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The client mounts a crafted server, which replies as no correct server does.
#
# `PEER='adv48 adv67'` in the environment runs only these cases.

. ./lib.sh
. ./events.sh
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

# The same, if it invalidated the memory of another call.
invalidation_logged() {
	[[ " ${cases[*]} " != *" repeated_invalidation_"* ]] || dmesg | grep "failed, because the server sent an invalidation of another call's memory"
}

# What the client records of the cases, if they are not chosen.
recorded() { [ -n "${PEER:-}" ] || event_came here "$@"; }

modprobe rpcrdma
plan $((${#cases[@]} + 11))
record_events here xprtrdma_err_{chunk,vers} xprtrdma_mr_localinv xprtrdma_reply_{short,vers,hdr}_err || exit
for name in "${cases[@]}"; do
	check_peer "$name"
	umount -f -l /mnt/peer /mnt/peer2 2>/dev/null
done
# Shows S3.3.1-05.
check "a grant of nothing is logged, once" logged_once
check "silence is logged" silence_logged
check "a call that fails because of the server is logged" violation_logged
check "so is one that fails because of an invalidation" invalidation_logged
end_events here
task='task:[0-9a-f]{8}@[0-9a-f]{8}'
server='peer=\[[0-9.]+\]:[0-9]+'
check "xprtrdma_err_chunk" recorded xprtrdma_err_chunk "$task xid=$hex$"
check "xprtrdma_err_vers" recorded xprtrdma_err_vers "$task xid=$hex versions=\\[[0-9]+, [0-9]+\\]$"
check "xprtrdma_mr_localinv" recorded xprtrdma_mr_localinv "$task mr.id=[0-9]+ nents=[1-9][0-9]* [0-9]+@0x[0-9a-f]{16}:$hex \\((TO|FROM)_DEVICE\\)"
check "xprtrdma_reply_short_err" recorded xprtrdma_reply_short_err "$server xid=$hex version=[0-9]+ proc=[0-9]+$"
check "xprtrdma_reply_vers_err" recorded xprtrdma_reply_vers_err "$server xid=$hex version=([02-9]|[1-9][0-9]+) proc=[0-9]+$"
check "xprtrdma_reply_hdr_err" recorded xprtrdma_reply_hdr_err "$server xid=$hex version=1 proc=[0-9]+$"
check "the module unloads" unload
finish
