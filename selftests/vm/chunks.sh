#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Each kind of chunk is used where RFC 8166 and RFC 8267 require it, and nowhere else. The transport's counters show it.

. ./lib.sh
. ./events.sh
need_pair

mount_nfs 4.2 || exit
mkdir -p "$mnt/chunks/many"
random_file "$mnt/chunks/small" 100
random_file "$mnt/chunks/large" 1048576
# Names long enough that a READDIR of them overflows an inline reply.
# shellcheck disable=SC2016 # the server expands it
on_server 'for i in {1..300}; do printf -v name %0100d $i; : >/export/chunks/many/$name; done'

read_cold() { drop_file "$mnt/chunks/$1" && cat "$mnt/chunks/$1"; }
write_synced() { dd if=/dev/zero of="$mnt/chunks/written" bs="$1" count=1 conv=fsync status=none; }
list_cold() { drop_caches && ls "$mnt/chunks/many"; }
stat_cold() { drop_caches && stat "$mnt/chunks/small"; }
xattr() { python3 -c "import os, sys; $1" "$mnt/chunks/small"; }
set_xattr() { xattr "os.setxattr(sys.argv[1], 'user.test', bytes(${1:-30000}))"; }
read_xattr() { xattr 'assert os.getxattr(sys.argv[1], "user.test") == bytes(30000)'; }

increments() {
	local by
	by=$(counts "$@") || return
	echo "$1 increased by $by"
	[ "$by" -gt 0 ]
}

leaves_unchanged() {
	local by
	by=$(counts "$@") || return
	echo "$1 increased by $by"
	[ "$by" -eq 0 ]
}

# Runs a command, whose calls are to have one memory region together.
has_one_region() {
	record_events here xprtrdma_mr_fastreg && "$@" && end_events here || return
	grep ' xprtrdma_mr_fastreg: ' /tmp/events
	[ "$(grep -c ' xprtrdma_mr_fastreg: ' /tmp/events)" -eq 1 ]
}

# A symbolic link that is longer than a message. READLINK takes a Reply chunk, because sunrpc does not tell the transport that its
# result is DDP-eligible.
target=$(printf '%03000d' 0)
make_link() { ln -s "$target" "$mnt/chunks/link"; }
follow_link() { drop_caches && [ "$(readlink "$mnt/chunks/link")" = "$target" ]; }

tests=14
# The in-tree client registers such a call in parts.
[ "$(loaded)" != rust ] || tests=15
plan $tests
# Shows N-02, N-03.
check "READ of 1 MiB takes a Write chunk" increments write_chunks read_cold large
check "READ of 1 MiB counts its bytes" test "$(counts total_rdma_reply read_cold large)" -ge 1048576
# Shows N-02.
check "WRITE of 1 MiB takes a Read chunk" increments read_chunks write_synced 1M
# Shows S3.5.1-01.
check "WRITE of 100 bytes goes inline" leaves_unchanged read_chunks write_synced 100
check "GETATTR takes no Reply chunk" leaves_unchanged reply_chunks stat_cold
check "GETATTR takes no Write chunk" leaves_unchanged write_chunks stat_cold
# Shows N-02.
check "a long READDIR takes a Reply chunk" increments reply_chunks list_cold
check "a long READDIR is whole" test "$(find "$mnt/chunks/many" -type f | wc -l)" = 300
check "a long SETXATTR goes as Position-Zero Read chunk" increments nomsg_call set_xattr
check "a long SETXATTR arrives whole" read_xattr
check "no reply was bad" test "$(counter bad_reply)" = 0
umount "$mnt"
cd /proc/sys/sunrpc && before=$(<rdma_max_inline_write) && echo 1024 >rdma_max_inline_write && cd - >/dev/null || exit
mount_nfs 4.2 || exit
echo "$before" >/proc/sys/sunrpc/rdma_max_inline_write
# Shows N-02.
check "a long SYMLINK takes a Read chunk" increments read_chunks make_link
check "a long SYMLINK takes no Position-Zero Read chunk" test "$(counter nomsg_call)" = 0
check "a long SYMLINK arrives whole" follow_link
[ "$(loaded)" != rust ] || check "a SETXATTR of 3000 bytes goes in one segment" has_one_region set_xattr 3000
finish
