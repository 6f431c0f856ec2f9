#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A connection that is idle for five minutes ends, and the next RPC makes another one. NFSv3, because NFSv4 renews its lease all the
# time.

. ./lib.sh
need_pair

# The memory regions and protection domains of the module on this machine.
resources() { { rdma resource show mr; rdma resource show pd; } | grep rpcrdma; }

given_back() {
	local start=$SECONDS
	while resources; do
		[ $((SECONDS - start)) -lt 90 ] || return
		sleep 1
	done
	echo "after $((SECONDS - start)) seconds"
}

connected() { grep CONNECTED <(xprts xprt_state); }

ends_when_idle() {
	local start=$SECONDS
	while connected; do
		[ $((SECONDS - start)) -lt 400 ] || return
		sleep 1
	done
	echo "after $((SECONDS - start)) seconds"
	[ $((SECONDS - start)) -gt 240 ]
}

plan 7
mount_nfs 3 || exit
random_file "$mnt/idle" 100000
sync
check "the mount is connected" connected
check "the connection has memory regions" resources
check "the connection ends when it is idle" ends_when_idle
check "what it leaves is given back" given_back
check "the next access connects again" same_file idle
check "the second connection is counted" test "$(counter connect_count)" = 2
check "the file system unmounts" umount "$mnt"
finish
