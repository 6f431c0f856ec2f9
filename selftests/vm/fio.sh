#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Data of every size and alignment arrives as it was sent: fio writes a pattern that depends on the place, drops it and
# reads it back.

. ./lib.sh
need_pair

verify() {
	fio --name=verify --directory="$mnt" --size=24M --ioengine=psync --verify=pattern --verify_pattern=%o \
		--verify_fatal=1 --end_fsync=1 --invalidate=1 --fallocate=none --unlink=1 --randseed=1 "$@"
}

file_of_size() {
	local name=size-$1
	random_file "$mnt/$name" "$1" && same_file "$name" && rm "$mnt/$name"
}

sizes=(1 2 3 4 5 1023 3999 4000 4095 4096 4097 8191 65537 131071 262145 1048575 1048577 2097152)

plan $((5 + ${#sizes[@]}))
mount_nfs 4.2 || exit
check "sequential, 1 MiB" verify --rw=write --bs=1M
check "random, 4 KiB, direct" verify --rw=randwrite --bs=4k --size=4M --direct=1
check "random, 1 byte to 2 MiB, any alignment" verify --rw=randwrite --bsrange=1-2M --bs_unaligned
check "random, 1 byte to 2 MiB, any alignment, direct" verify --rw=randwrite --bsrange=1-2M --bs_unaligned --direct=1
check "four at once, 4 KiB to 1 MiB" verify --rw=randwrite --bsrange=4k-1M --numjobs=4 --size=8M --group_reporting
for size in "${sizes[@]}"; do
	check "$size bytes are the same on both machines" file_of_size "$size"
done
finish
