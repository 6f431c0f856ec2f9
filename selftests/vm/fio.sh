#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Data of every size and alignment arrives as it was sent: fio writes blocks with a checksum in them, drops them from the cache and
# reads them back. Its header takes 40 bytes, so smaller sizes are left to random-writes.py and direct-io.py, and to whole files that both
# machines hash.
#
# LONG_FORMS=yes moves more data.

. ./lib.sh
need_pair

# Through the page cache and past it; `both` does both at the same time, in two files.
verify() {
	fio --directory="$mnt" --ioengine=psync --verify=crc32c --verify_fatal=1 --end_fsync=1 \
		--invalidate=1 --fallocate=none --unlink=1 --randseed=1 --rw=randwrite "$@"
}

cached() { verify "$@" --name=cached; }
direct() { verify "$@" --name=direct --direct=1; }
both() { verify "$@" --name=cached --name=direct --direct=1; }

# Writes a file of each size. What both machines read is hashed for all files at once, the client's with cold caches.
files_of_all_sizes() {
	local size
	rm -rf "$mnt/sizes" /tmp/size-* && mkdir "$mnt/sizes"
	for size in "${sizes[@]}"; do random_file "/tmp/size-$size" "$size" && cp "/tmp/size-$size" "$mnt/sizes/"; done
	drop_caches
	(cd /tmp && sha256sum size-*) >/tmp/written
	(cd "$mnt/sizes" && sha256sum size-*) >/tmp/client
	on_server "cd /export/sizes && sha256sum size-*" >/tmp/server
}

file_of_size() {
	local written
	written=$(grep " size-$1$" /tmp/written) && [ "$(stat -c %s "$mnt/sizes/size-$1")" = "$1" ] &&
		grep -x "$written" /tmp/client && grep -x "$written" /tmp/server
}

blocks=(61 509 4095 4097 65537 262145 1000003 2097152)
sizes=(1 2 3 4 5 1023 3999 4000 4095 4096 4097 8191 65537 131071 262145 1048575 1048577 2097152)

cached_size=12M direct_size=1M each_size=4M count=4
if long_form; then cached_size=24M direct_size=4M each_size=8M count=8; fi

plan $((5 + ${#blocks[@]} + ${#sizes[@]}))
mount_nfs 4.2 || exit
check "sequential, 1 MiB" cached --rw=write --bs=1M --size="$cached_size"
check "random, 4 KiB, direct" direct --bs=4k --size="$direct_size"
check "random, four at once, 4 KiB to 1 MiB" cached --bsrange=4k-1M --numjobs=4 --size="$each_size"
check "random, 1 byte to 2 MiB anywhere, is the same as a copy in memory" ./random-writes.py "$mnt/random"
check "direct, with memory that begins and ends within pages" ./direct-io.py "$mnt/direct"
for bytes in "${blocks[@]}"; do
	check "blocks of $bytes bytes" both --bs="$bytes" --size=$((count * bytes))
done
files_of_all_sizes
for size in "${sizes[@]}"; do
	# Shows S3.4.6-02, S4.3.2.1-03, S4.3.2.2-05.
	check "$size bytes are the same on both machines" file_of_size "$size"
done
finish
