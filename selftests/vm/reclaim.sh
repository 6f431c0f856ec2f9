#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A client writes more than it has memory, through the page cache. Memory comes free when WRITEs and COMMITs are done, and they need some
# themselves, down to the RDMA device: none of it may wait for the other. For a client with 512 MB whose server has more
# (MEM=512M PEER_MEM=2G).
#
# LONG_FORMS=yes writes more at a time, in more ways, and has the connection break meanwhile.

. ./lib.sh
need_pair

total=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
[ "$total" -lt 600 ] || cannot_run "this test needs a client with 512 MB of memory (MEM=512M PEER_MEM=2G); this one has $total"

# How much of the memory may be dirty before who writes has to wait: so who needs memory finds little that is clean.
echo 80 >/proc/sys/vm/dirty_ratio
echo 70 >/proc/sys/vm/dirty_background_ratio

# MiB for each of the four jobs.
each=160
! long_form || each=240
load=(--rw=write --bsrange=4k-1M --direct=0 --numjobs=4 "--size=${each}M" --fsync=200 --end_fsync=1)

# counted PATTERN: the sum of the lines of /proc/vmstat whose names match.
counted() { awk -v pattern="^($1)\$" '$1 ~ pattern { sum += $2 } END { print sum + 0 }' /proc/vmstat; }

# writes VERSION [OPTION...]: more than the memory, and reads it back. Who allocated memory had to look for some itself, and so had to wait
# for the server, or meet pages that do.
writes() {
	local begun=$SECONDS stalls pages written status
	stalls=$(counted 'allocstall_.*') pages=$(counted nr_written)
	mount_nfs "$1" || return
	verified_io "${load[@]}" "${@:2}"
	status=$?
	umount "$mnt" || return
	stalls=$(($(counted 'allocstall_.*') - stalls)) pages=$(($(counted nr_written) - pages))
	written=$((pages * $(getconf PAGESIZE) / 1048576))
	echo "# $written MiB written in $((SECONDS - begun)) s, with $stalls stalls of allocations" >/vm/reclaim
	cat /vm/reclaim
	[ "$written" -gt "$total" ] && [ "$stalls" -gt 0 ] && return $status
}

# The same while another program needs memory, again and again.
needs_memory() { for _ in {1..20}; do head -c 60M /dev/zero | tail -n 1 | wc -c && sleep 0.5 || return; done; }
breaks() { for _ in {1..5}; do sleep 3 && drop_connection || return; done; }
during() {
	local status
	mount_nfs 4.2 || return
	during_io "$@"
	status=$?
	umount "$mnt" && return $status
}

plan $((2 + $(long_form && echo 4 || echo 0)))
check "four jobs write $((4 * each)) MiB over NFSv4.2, and read them back" writes 4.2
if long_form; then
	check "the same over NFSv3" writes 3
	check "the same, in any order" writes 4.2 --rw=randwrite
	check "the same, to mapped files" writes 4.2 --ioengine=mmap --bsrange=4k-64k
	check "other programs need memory meanwhile" during needs_memory
	check "the connection breaks meanwhile" during breaks
fi
mount_nfs 4.2
random_file "$mnt/after" 300000
check "a file written after all that is the same on both machines" same_file after
finish
