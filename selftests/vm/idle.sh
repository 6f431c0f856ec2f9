#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A connection that nobody uses for five minutes ends, and is made anew when it is wanted. NFSv3, as NFSv4 renews its
# lease all the time.

. ./lib.sh
need_pair

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

plan 5
mount_nfs 3 || exit
random_file "$mnt/idle" 100000
sync
check "connected" connected
check "ends when it is idle" ends_when_idle
check "is made anew" same_file idle
check "was counted" test "$(counter connect_count)" = 2
check "unmounts" umount "$mnt"
finish
