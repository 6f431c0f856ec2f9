#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Data of every size and alignment arrives as it was sent: fio writes blocks that carry a checksum, drops them from the
# cache and reads them back. Its header needs 40 bytes, so what is smaller is left to shadow.py, and to whole files that
# both machines hash.

. ./lib.sh
need_pair

# Buffered and past the page cache; `both` does the two at once, in files of their own.
verify() {
	fio --directory="$mnt" --ioengine=psync --verify=crc32c --verify_fatal=1 --end_fsync=1 \
		--invalidate=1 --fallocate=none --unlink=1 --randseed=1 --rw=randwrite "$@"
}

cached() { verify "$@" --name=cached; }
direct() { verify "$@" --name=direct --direct=1; }
both() { verify "$@" --name=cached --name=direct --direct=1; }

file_of_size() {
	local name=size-$1
	random_file "$mnt/$name" "$1" && same_file "$name" && rm "$mnt/$name"
}

blocks=(61 509 4095 4097 65537 262145 1000003 2097152)
sizes=(1 2 3 4 5 1023 3999 4000 4095 4096 4097 8191 65537 131071 262145 1048575 1048577 2097152)

plan $((4 + ${#blocks[@]} + ${#sizes[@]}))
mount_nfs 4.2 || exit
check "sequential, 1 MiB" cached --rw=write --bs=1M --size=24M
check "random, 4 KiB, direct" direct --bs=4k --size=4M
check "random, four at once, 4 KiB to 1 MiB" cached --bsrange=4k-1M --numjobs=4 --size=8M
check "random, 1 byte to 2 MiB anywhere, against a shadow" ./shadow.py "$mnt/shadow"
for bytes in "${blocks[@]}"; do
	check "blocks of $bytes bytes" both --bs="$bytes" --size=$((8 * bytes))
done
for size in "${sizes[@]}"; do
	check "$size bytes are the same on both machines" file_of_size "$size"
done
finish
