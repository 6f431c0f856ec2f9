#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A file that is written and read in every way that programs have, at random, is as it should be, while connections break, and with
# lengths of READs, WRITEs and inline messages that are no multiple of a page.
#
# LONG_FORMS=yes takes a minute for each.

. ./lib.sh
need_pair

seconds=3
! long_form || seconds=60

# Two files at a time.
steps() {
	local one status
	./fsx.py "$mnt/fsx-1" $seconds >/vm/fsx.log 2>&1 &
	one=$!
	./fsx.py "$mnt/fsx-2" $seconds
	status=$?
	wait $one || { cat /vm/fsx.log; return 1; }
	return $status
}
breaks() {
	local end=$((SECONDS + seconds - 1))
	while [ $SECONDS -lt $end ]; do
		sleep 1
		drop_connection
	done
}
steps_and_breaks() {
	local breaking status before
	before=$(counter connect_count)
	breaks &
	breaking=$!
	steps
	status=$?
	wait $breaking
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" -gt "$before" ] && return $status
}
# mounted VERSION OPTIONS COMMAND...
mounted() {
	local status
	mount_nfs "$1" "$2" && "${@:3}"
	status=$?
	umount "$mnt" && return $status
}
# The same with inline messages of that length.
with_messages() {
	local status
	echo "$1" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$1" >/proc/sys/sunrpc/rdma_max_inline_write && mounted "${@:2}"
	status=$?
	echo "$usual" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$usual" >/proc/sys/sunrpc/rdma_max_inline_write && return $status
}

modprobe rpcrdma
usual=$(</proc/sys/sunrpc/rdma_max_inline_read)
plan 5
check "NFSv4.2" mounted 4.2 "" steps
check "NFSv4.2, connections break" mounted 4.2 "" steps_and_breaks
check "NFSv3, connections break" mounted 3 "" steps_and_breaks
check "READs of 1,024 octets, WRITEs of 12,288" mounted 4.2 rsize=1024,wsize=12288 steps
check "READs of 8,192 octets, of which messages have room for some" with_messages 8192 3 rsize=8192,wsize=8192 steps_and_breaks
finish
