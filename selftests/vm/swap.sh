#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Swap on a file over RDMA. A program uses more memory than there is, and the connection breaks meanwhile: it is made again although
# there may be no memory before something is swapped out over it.
#
# DISCONNECTS= says how often (3).

. ./lib.sh
need_pair

swap=160 # MiB
file=$mnt/swap

# Leaves the machine with about so many MiB: the others are huge pages, which are not swapped.
leave_memory() {
	local available
	available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
	[ "$available" -le "$1" ] || echo $(((available - $1) / 2)) >/proc/sys/vm/nr_hugepages
}

# field NAME: a line of /proc/vmstat.
field() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

# A connection that carries swap has all its memory regions, whether it used them or not.
swap_on() {
	local before
	dd if=/dev/zero of="$file" bs=1M count=$swap oflag=direct status=none && chmod 600 "$file" && mkswap "$file" || return
	before=$(counter mrs_allocated)
	swapon "$file" || return
	echo "memory regions: $before before, $(counter mrs_allocated) after"
	[ "$before" -lt 64 ] && [ "$(counter mrs_allocated)" -eq 128 ]
}

# The program, which needs about 130 MiB more than there is, while the connection is dropped again and again.
swaps_and_reconnects() {
	local program before out status
	before=$(counter connect_count) out=$(field pswpout)
	rm -f /tmp/enough /tmp/swapped.log
	./swapped.py $((left + 130)) /tmp/enough >/tmp/swapped.log 2>&1 &
	program=$!
	until grep -q filled /tmp/swapped.log; do
		kill -0 $program || { cat /tmp/swapped.log; return 1; }
		sleep 1
	done
	for _ in $(seq "${DISCONNECTS:-3}"); do
		drop_connection
		sleep 3
	done
	touch /tmp/enough
	wait $program
	status=$?
	cat /tmp/swapped.log
	echo "connections: $before before, $(counter connect_count) after; pages swapped out: $(($(field pswpout) - out))"
	[ "$(counter connect_count)" -ge $((before + ${DISCONNECTS:-3})) ] && [ $(($(field pswpout) - out)) -gt 10000 ] && return $status
}

plan 5
mount_nfs 4.2 || exit
check "a file over RDMA takes swap" swap_on
left=120
leave_memory $left
check "memory is swapped out and in while the connection breaks" swaps_and_reconnects
echo 0 >/proc/sys/vm/nr_hugepages
check "swap is given up" swapoff "$file"
random_file "$mnt/after" 300000
check "the mount goes on" same_file after
check "the file system unmounts" umount "$mnt"
finish
