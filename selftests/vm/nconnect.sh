#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# One mount over several connections, and with few or many request slots.

. ./lib.sh
need_pair

connections() { grep -c . <(xprts dstaddr); }

several() {
	mount_nfs 4.2 "nconnect=$1" && verified_io --numjobs=8 --size=4M && [ "$(connections)" -eq "$1" ] && umount "$mnt"
}

slots=/proc/sys/sunrpc/rdma_slot_table_entries

# The number is read when a transport is made. A server that had no Receive for a Call would end the connection.
with_slots() {
	echo "$1" >"$slots" && mount_nfs 4.2 && verified_io --numjobs=32 --size=1M --bsrange=4k-256k || return
	xprts xprt_info
	echo "connections: $(counter connect_count)"
	grep -qx "max_num_slots=$1" <(xprts xprt_info) && [ "$(counter connect_count)" -eq 1 ]
	leave $?
}

leave() { umount "$mnt" && return "$1"; }

# The longest Send and Receive are read at each connect; what the other end allows may be less.
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
