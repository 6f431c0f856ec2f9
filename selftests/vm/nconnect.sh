#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# One mount over several connections, with few and many request slots, and with other inline thresholds.

. ./lib.sh
need_pair

connections() { grep -c . <(xprts dstaddr); }

several() {
	mount_nfs 4.2 "nconnect=$1" && verified_io --numjobs=8 --size=1M --bsrange=4k-128k && [ "$(connections)" -eq "$1" ] && umount "$mnt"
}

slots=/proc/sys/sunrpc/rdma_slot_table_entries

# The number of slots is read when a transport is made. A server without a Receive for a Call would end the connection. So does rxe if
# the machine is too slow for all packets that arrive at once; then the test tries again.
with_slots() {
	local left=2 status
	echo "$1" >"$slots" || return
	until over_one_connection "$1"; do
		status=$?
		[ $status -eq 2 ] && [ $((left--)) -gt 0 ] || return $status
	done
}

# The status is 2 if rxe ended the connection because packets were not acknowledged.
over_one_connection() {
	local before status=0
	before=$(retries_exceeded)
	mount_nfs 4.2 && verified_io --numjobs=32 --size=512k --bsrange=4k-64k || return
	xprts xprt_info
	echo "connections: $(counter connect_count)"
	dmesg | grep 'lost: '
	if [ "$(counter connect_count)" -ne 1 ]; then
		status=$(($(retries_exceeded) > before ? 2 : 1))
	fi
	grep -qx "max_num_slots=$1" <(xprts xprt_info) || status=1
	umount "$mnt" && return $status
}

# The inline thresholds are read at each connect; the other end may allow less.
with_inline() {
	echo "$1" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$1" >/proc/sys/sunrpc/rdma_max_inline_write &&
		mount_nfs 4.2 && verified_io --numjobs=4 --size=1M --bsrange=4k-256k && umount "$mnt"
}

modprobe rpcrdma
plan 10
for count in 1 2 16; do
	check "nconnect=$count" several "$count"
done
for count in 4 16 1024; do
	check "$count slots" with_slots "$count"
done
check "3 slots are refused" not eval "echo 3 >$slots"
check "16385 slots are refused" not eval "echo 16385 >$slots"
echo 128 >"$slots"
for bytes in 1024 65536; do
	check "inline up to $bytes bytes" with_inline "$bytes"
done
finish
