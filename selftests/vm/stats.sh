#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the transport reports is right: its counters in mountstats, and its addresses in sysfs.

. ./lib.sh
need_pair

# increases_by FROM TO NAME COMMAND...: the command increases a counter by FROM to TO.
increases_by() {
	local from=$1 to=$2 by
	shift 2
	by=$(counts "$@") || return
	echo "$1 increased by $by, not by $from to $to"
	[ "$by" -ge "$from" ] && [ "$by" -le "$to" ]
}

read_cold() { drop_file "$mnt/stats/$1" && cat "$mnt/stats/$1"; }
write_synced() { dd if=/dev/zero of="$mnt/stats/written" bs="$1" count="${2:-1}" oflag=direct status=none; }
stat_cold() { drop_caches && stat "$mnt/stats/small"; }

reconnect() {
	local before left=100
	before=$(counter connect_count)
	drop_connection
	while [ $((left--)) -gt 0 ] && stat_cold >/dev/null; do
		[ "$(counter connect_count)" -eq "$before" ] || return 0
		sleep 0.1
	done
	return 1
}

# A renewal of the lease at the same time may use another slot for the first time.
steady() {
	local try
	write_synced 4k 20 && read_cold small >/dev/null || return
	for try in 1 2 3; do
		increases_by 0 0 hardway_register write_synced 4k 200 && return
		echo "try $try"
	done
	return 1
}

parses() { mountstats --rpc "$mnt" >/tmp/mountstats && mountstats --xprt "$mnt" >/tmp/mountstats; }

# Prints a file of sysfs of the mount's transport; those of mounts before it may be there for a moment.
transport() {
	local info
	info=$(grep -lx "src_port=$(counter local_port)" /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/xprt_info) && cat "${info%/*}/$1"
}

plan 19
mount_nfs 4.2 || exit
mkdir -p "$mnt/stats"
random_file "$mnt/stats/small" 1000
random_file "$mnt/stats/large" 262144
write_synced 4k

# shellcheck disable=SC2153 # the VM sets it
check "srcaddr in sysfs is the client's address" test "$(transport srcaddr)" = "$CLIENT_ADDR"
check "src_port in sysfs is the local port of mountstats" grep -qx "src_port=$(counter local_port)" <(xprts xprt_info)
check "the local port is not zero" test "$(counter local_port)" -gt 0
check "sends increases with each RPC" increases_by 1 1000 sends stat_cold
check "recvs increases with each RPC" increases_by 1 1000 recvs stat_cold
check "pullup_copy counts what a WRITE of 4 KiB copies inline" increases_by 100 100000 pullup_copy write_synced 4k
check "fixup_copy counts the bytes of replies that come inline" increases_by 200 100000 fixup_copy read_cold small
check "total_rdma_reply counts a READ of 256 KiB" increases_by 262144 300000 total_rdma_reply read_cold large
check "total_rdma_request counts the memory offered for it" increases_by 262144 400000 total_rdma_request read_cold large
check "mrs_allocated tells the regions of the connection" test "$(counter mrs_allocated)" -gt 0
check "hardway_register counts the buffers of requests" test "$(counter hardway_register)" -gt 0
check "hardway_register does not change when they are reused" steady
check "a server that takes back its keys leaves nothing to invalidate" increases_by 0 0 local_inv_needed read_cold large
check "no Call was badly put together" test "$(counter failed_marshal)" = 0
check "no reply was bad" test "$(counter bad_reply)" = 0
check "connect_count counts a second connection" increases_by 1 1 connect_count reconnect
check "a third uses the regions of the second" increases_by 0 0 mrs_allocated reconnect
check "no region was broken at rest, none lost" test "$(counter mrs_recycled) $(counter mrs_orphaned)" = "0 0"
check "mountstats(8) reads the line" parses
finish
