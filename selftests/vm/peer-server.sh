#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The client mounts a crafted peer, which answers it as no good server does.
#
# `PEER='adv48 adv67'` in the environment runs only these cases.

. ./lib.sh
need_pair
need_peer

# The client leaves it to NFS to compare the count of a READ with what came, and takes it inline as well.
known=(adv75_result_inline_despite_its_chunk adv76_result_of_another_length)

read -r -a cases <<<"${PEER:-$("$peer" list client | xargs)}"

modprobe rpcrdma
plan $((${#cases[@]} + 1))
for name in "${cases[@]}"; do
	check_peer "$name"
	umount -f -l /mnt/peer 2>/dev/null
done
check "the module unloads" unload
finish
