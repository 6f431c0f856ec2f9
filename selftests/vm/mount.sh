#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Each NFS version mounts over RDMA, and files, links and directories work.
#
# LONG_FORMS=yes tries IPv6 with a version of each kind.

. ./lib.sh
need_pair

mounts() {
	mount_nfs "$@" && grep " $mnt nfs" /proc/mounts | grep -q 'proto=rdma'
}

works() {
	local dir=$mnt/works
	rm -rf "$dir" && mkdir "$dir" || return
	random_file "$dir/a" 100000 && cp "$dir/a" "$dir/b" && drop_file "$dir/a" && drop_file "$dir/b" && cmp "$dir/a" "$dir/b" || return
	ln -s a "$dir/link" && [ "$(readlink "$dir/link")" = a ] || return
	ln "$dir/a" "$dir/hard" && mv "$dir/b" "$dir/c" && truncate -s 12345 "$dir/c" || return
	drop_caches
	[ "$(ls "$dir")" = "a
c
hard
link" ] && [ "$(stat -c %s "$dir/c")" = 12345 ] && same_file works/a
}

unmounts() { umount "$mnt" && ! mountpoint -q "$mnt"; }

# sunrpc does not parse an address of IPv6 there, but drops the connection nevertheless.
# shellcheck disable=SC2153 # the VM sets it
connects_anew() {
	local before
	before=$(counter connect_count)
	SERVER_ADDR=$SERVER_ADDR6 drop_connection && timeout -s KILL 60 stat "$mnt/." && works && [ "$(counter connect_count)" -gt "$before" ]
}

over_ipv6=(4.2)
! long_form || over_ipv6=(3 4.2)

plan $((18 + 3 * ${#over_ipv6[@]}))
for version in 3 4.0 4.1 4.2; do
	# Shows S2.2.3-01, S5-01, S5-02, S9-01, N-07.
	check "NFSv$version mounts" mounts "$version"
	check "NFSv$version works" works
	check "NFSv$version: the module is in use and stays" not rmmod rpcrdma
	check "NFSv$version unmounts" unmounts
done
# shellcheck disable=SC2153 # the VM sets it
for version in "${over_ipv6[@]}"; do
	# Shows S9-01, S9-02.
	check "NFSv$version over IPv6 mounts" mounts "$version" "" "$SERVER_ADDR6"
	check "NFSv$version over IPv6 works" works
	check "NFSv$version over IPv6 connects anew" connects_anew
	umount "$mnt"
done
check "the module unloads when nothing is mounted" unload
check "a mount after that loads it again" mounts 4.2
finish
