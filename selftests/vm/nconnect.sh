#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# One mount over several connections, with few and many request slots, and with other inline thresholds; and what memory a connection
# takes.

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
	echo "connections: $(counter connect_count), given up by rxe: $before, then $(retries_exceeded)"
	dmesg | grep 'lost: '
	on_server "dmesg | grep 'lost: '"
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

# Prints KiB of the slab that Receives, Send buffers and the tables of memory regions come from, after it has been shrunk. Each CPU
# caches a few free objects, so the lowest of five readings counts.
slab() {
	for _ in 1 2 3 4 5; do
		echo 1 >/sys/kernel/slab/kmalloc-8k/shrink
		awk '/^kmalloc-8k / { print $2 * 8 }' /proc/slabinfo
		sleep 0.1
	done | sort -n | head -n 1
}

# Prints KiB of vmalloc memory, which the queues of rxe come from.
queues() { awk '/^VmallocUsed:/ { print $2 }' /proc/meminfo; }

queue_pairs() { rdma resource show qp | grep -c 'type RC'; }
none_is_left() { while [ "$(queue_pairs)" -gt 0 ]; do sleep 0.5; done; }

# A connection has 60 Receives, 64 Send buffers and 16 regions there, with a table and rxe's list of pages: 1,248 KiB. Its Send queue has
# 529 work requests, which rxe makes 1,024 of 512 octets: 512 KiB, and about 200 for the other queues.
idle_connections() {
	local before queues_before each queues
	none_is_left
	before=$(slab) queues_before=$(queues)
	mount_nfs 4.2 nconnect=16 || return
	# One RPC at a time, to each connection in turn.
	dd if=/dev/zero of="$mnt/turns" bs=4k count=128 oflag=direct status=none || return
	[ "$(queue_pairs)" = 16 ] || { echo "$(queue_pairs) connections"; return 1; }
	each=$((($(slab) - before) / 16)) queues=$((($(queues) - queues_before) / 16))
	echo "# $each KiB each, and $queues for the queues of the device" >&3
	umount "$mnt" && [ "$each" -gt 1100 ] && [ "$each" -lt 1500 ] && [ "$queues" -gt 512 ] && [ "$queues" -lt 1024 ]
}

# With 128 credits it has 176 Receives, 176 Send buffers and 128 regions: 3,616 KiB more.
busy_connection() {
	local before seldom often regions
	none_is_left
	mount_nfs 3 || return
	before=$(slab)
	verified_io --bsrange=4k-4k --size=1M || return
	seldom=$(slab) regions=$(counter mrs_allocated)
	# The server raises its grant, and the client what it has for that, step by step.
	for _ in {1..20}; do
		verified_io --bsrange=4k-4k --size=4M --ioengine=libaio --iodepth=128 || return
		[ "$(counter mrs_allocated)" -ne 128 ] || break
	done
	often=$(slab)
	echo "# $((seldom - before)) KiB more for one RPC at a time, $((often - seldom)) for many; $regions regions, then $(counter mrs_allocated)" >&3
	[ "$regions" -eq 16 ] && [ "$(counter mrs_allocated)" -eq 128 ] || return
	# A kernel that checks each access has something around each object.
	[[ $KERNEL = *debug ]] ||
		{ [ $((seldom - before)) -lt 200 ] && [ $((often - seldom)) -gt 3200 ] && [ $((often - seldom)) -lt 4400 ]; }
}

# What a connection had grown to is there when it is made again.
reconnected() {
	local connections
	connections=$(counter connect_count)
	drop_connection
	verified_io --bsrange=4k-4k --size=1M && [ "$(counter connect_count)" -gt "$connections" ] && [ "$(counter mrs_allocated)" -eq 128 ] &&
		umount "$mnt"
}

modprobe rpcrdma
exec 3>&1
plan 13
check "an idle connection takes little memory" idle_connections
check "a connection grows with use" busy_connection
check "a connection that is made again needs no new memory regions" reconnected
for count in 1 2 16; do
	check "nconnect=$count" several "$count"
done
for count in 4 16 1024; do
	# Shows S3.3-01, S3.3.1-13, S8.1.4-04.
	check "$count slots" with_slots "$count"
done
check "3 slots are refused" not eval "echo 3 >$slots"
check "16385 slots are refused" not eval "echo 16385 >$slots"
echo 128 >"$slots"
for bytes in 1024 65536; do
	# Shows S3.3.3-07, S6.3-03.
	check "inline up to $bytes bytes" with_inline "$bytes"
done
finish
