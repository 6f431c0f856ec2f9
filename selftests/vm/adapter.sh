#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mount over a device with the limits of the adapter that the kernel's command line names (rdma_rxe.profile=): that the device has them,
# and what the connections ask it for. What has no reliable connections or no registrations is refused. A pair, --rdma strict.

. ./lib.sh
. ./events.sh
need_pair
[ -n "$STRICT" ] || cannot_run "this test needs the strict device"
. ./strict-device.sh

parameter=/sys/module/rdma_rxe/parameters/profile
read -r profile <$parameter
[ "$profile" = "$(on_server cat $parameter)" ] || cannot_run "both sides have one profile"
echo "# profile $profile"

is_refused() {
	! mount_nfs 4.2 && dmesg | grep 'the RDMA device lacks what is needed'
}

# A server whose device is refused, though that of the client is not. The error is EOPNOTSUPP.
server_refuses() {
	rdma link del "$RDMA_DEVICE" && echo none >$parameter && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 || return
	! mount_nfs 4.2 && on_server "dmesg | grep 'rejected a connection from .*: Error(95)'"
}

# 128 calls at a time, of which each needs regions. The server raises its grant, and the client what it has for that, step by step.
has_all_credits() {
	mount_nfs 3 || return
	for _ in {1..20}; do
		verified_io --bsrange=64k-64k --size=16M --ioengine=libaio --iodepth=128 || return
		[ "$(counter mrs_allocated)" != 128 ] || break
	done
	echo "$(counter mrs_allocated) regions"
	[ "$(counter mrs_allocated)" = 128 ] && umount "$mnt"
}

# As many credits as the client may be told to ask for, which are more than any queue has room for. Both sides keep to what there is.
has_most_credits() {
	local before status=0
	cd /proc/sys/sunrpc && before=$(<rdma_slot_table_entries) && echo 16384 >rdma_slot_table_entries && cd - >/dev/null || return
	mount_nfs 3 && verified_io --bsrange=64k-64k --size=16M --ioengine=libaio --iodepth=256 && umount "$mnt" || status=1
	echo "$before" >/proc/sys/sunrpc/rdma_slot_table_entries
	return $status
}

# limit NAME: sets `has` to what the profile has of that, and `asked` to the most that was asked for on this machine.
limit() {
	read -r _ has asked < <(grep "^$1 " $debug/limits)
	echo "$1: $asked, of $has"
}
limit_there() {
	read -r _ has asked < <(on_server "grep '^$1 ' $debug/limits")
	echo "$1 on the server: $asked, of $has"
}
least() { printf '%s\n' "$@" | sort -n | head -n 1; }

# A payload of 1 MiB at any offset is 257 pages of 4 KiB, or 65 of 16 KiB, and the client wants to cover them with one region; where that takes
# gaps, with the head and the tail of a message, of up to two pages each.
registers_what_it_can() {
	local ends=4
	limit gap-regions
	[ "$has" != 0 ] || ends=0
	limit region-pages && [ "$asked" = "$(least "$has" $((1048576 / $(getconf PAGESIZE) + 1 + ends)))" ]
}

# one_mib COMMAND...: the command, with a mount of a server that takes 1 MiB, as one with little memory does not by itself: a READ of 1 MiB
# is one call.
one_mib() {
	local status=0
	on_server "cat /proc/fs/nfsd/max_block_size >/run/max_block_size; $scripts/vm/nfs-server stop
		echo 1048576 >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start; grep -x 1048576 /proc/fs/nfsd/max_block_size" || return
	mount_nfs 3 && "$@" || status=1
	umount "$mnt" || status=1
	on_server "$scripts/vm/nfs-server stop; cat /run/max_block_size >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start"
	return $status
}

# Direct I/O of 1 MiB, to memory that begins with a page. Each region but the last one has as many as the device registers.
has_full_regions() {
	local regions want pages
	limit region-pages
	pages=$asked want=$(((1048576 / $(getconf PAGESIZE) + asked - 1) / asked))
	random_file "$mnt/region" 1048576 && drop_file "$mnt/region" && record_events here xprtrdma_mr_fastreg || return
	dd if="$mnt/region" of=/dev/null bs=1M count=1 iflag=direct status=none && end_events here || return
	grep ' xprtrdma_mr_fastreg: ' /tmp/events
	regions=$(grep -c ' xprtrdma_mr_fastreg: ' /tmp/events)
	echo "$regions regions of up to $pages pages, $want wanted"
	[ "$regions" = "$want" ]
}

# The server reads, and keeps to what the client's device answers and its own sends.
reads_what_it_can() {
	local answers here
	limit answered-reads
	answers=$has here=$asked
	limit_there sent-reads
	[ "$here" = "$(least "$has" "$answers")" ] && [ "$asked" = "$here" ]
}

spreads_completions() {
	mount_nfs 3 nconnect=4 && umount "$mnt" || return
	limit vectors
	[ "$asked" = "$(least "$has" "$(nproc)")" ]
}

# The reply to READDIRPLUS goes to head, pages and tail of a buffer. One region covers them where the device takes gaps.
covers_gaps() {
	local regions status=0
	mount_nfs 3 && mkdir "$mnt/listed" && touch "$mnt/listed/file" || return
	{ drop_file "$mnt/listed" && record_events here xprtrdma_mr_fastreg && ls "$mnt/listed" && end_events here; } || status=1
	umount "$mnt" || status=1
	# The upper half of the address that the server sees is the XID.
	regions=$(sed -n 's/.* xprtrdma_mr_fastreg: .*@0x\(.\{8\}\).*/\1/p' /tmp/events | sort | uniq -c | sort -n | awk 'END { print $1 + 0 }')
	limit gap-regions
	echo "a call has up to $regions regions"
	case $has in
	0) [ "$asked" = 0 ] && [ "$regions" -ge 2 ] ;;
	*) [ "$asked" != 0 ] && [ "$regions" = 1 ] ;;
	esac && return $status
}

# What the module does without, on devices that have it and on others.
asks_for_none_of() {
	limit "$1" && [ "$asked" = 0 ] && limit_there "$1" && [ "$asked" = 0 ]
}

case $profile in
efa | mthca)
	plan 3
	check "such a device is refused, with the reason" is_refused
	check "the server refuses its own, with the reason" server_refuses
	;;
*)
	plan 9
	check "128 calls at a time have their regions" has_all_credits
	check "16384 calls at a time are as many as the device has room for" has_most_credits
	mount_nfs 4.2 || exit
	check "a region has as many pages as the device registers" registers_what_it_can
	check "as many RDMA Reads as both devices have" reads_what_it_can
	umount "$mnt"
	check "a READ of 1 MiB has as few regions as that allows" one_mib has_full_regions
	check "connections use each completion vector that the machine has a CPU for" spreads_completions
	check "no inline data" asks_for_none_of inline-bytes
	check "the memory for a reply has one region where the device takes gaps" covers_gaps
	;;
esac
check "no request was beyond a limit, and all memory was mapped" no_fault_counted
finish
