#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A consumer of RDMA Write with Immediate Data that nobody here wrote: rnbd of the kernel itself, a block device over rtrs
# (selftests/iwarp/rtrs.sh builds both). The disk is one in memory. The server invalidates nothing (always_invalidate=N): its default is
# to send with invalidation and immediate data in one message, which RFC 7306 does not have.
#
# Its listener is on the IPv6 wildcard, which takes no IPv4 connections over iWARP.

. ./lib.sh
need_pair

built=/src/build/${KERNEL:+$KERNEL-}rtrs
[ -e "$built/rnbd/rnbd-client.ko" ] || cannot_run "there is no $built/rnbd/rnbd-client.ko, which selftests/iwarp/rtrs.sh builds"
megabytes=32
disk=/dev/rnbd0
map=/sys/devices/virtual/rnbd-client/ctl/map_device
seconds=20
! long_form || seconds=600

exports() {
	on_server "modprobe rdma_cm && modprobe brd rd_nr=1 rd_size=$((megabytes * 1024)) &&
		insmod $built/rtrs/rtrs-core.ko && insmod $built/rtrs/rtrs-server.ko always_invalidate=N && insmod $built/rnbd/rnbd-server.ko"
}
# shellcheck disable=SC2153 # the VM sets the address
maps() {
	modprobe rdma_cm && insmod "$built/rtrs/rtrs-core.ko" && insmod "$built/rtrs/rtrs-client.ko" && insmod "$built/rnbd/rnbd-client.ko" ||
		return
	echo "sessname=test path=ip:$SERVER_ADDR6 device_path=/dev/ram0" >"$map" && [ -b "$disk" ]
}
# Requests of all sizes are under way together, and everything that was written is read again.
verifies() {
	local end=$((SECONDS + seconds))
	while
		timeout 300 fio --name=rnbd --filename="$disk" --rw=randwrite --verify=crc32c --verify_fatal=1 --direct=1 --ioengine=libaio \
			--iodepth=16 --bsrange=512-256k --size=${megabytes}M --randseed=$RANDOM --output=/tmp/fio || { cat /tmp/fio; return 1; }
		[ "$SECONDS" -lt "$end" ]
	do :; done
}
hash_of() { dd if="$1" bs=1M iflag=direct status=none | sha256sum; }
same_disk() {
	local here there
	here=$(hash_of "$disk") there=$(on_server "dd if=/dev/ram0 bs=1M iflag=direct status=none | sha256sum")
	echo "$here here, $there there"
	[ "$here" = "$there" ]
}
leaves() {
	echo normal >/sys/block/rnbd0/rnbd/unmap_device || return
	local left=60
	until rmmod rnbd-client rtrs-client rtrs-core 2>/dev/null; do
		sleep 0.5
		((--left)) || return
	done
}
server_leaves() { on_server "rmmod rnbd-server rtrs-server rtrs-core && rmmod brd"; }

plan 6
check "the server exports a disk" exports
check "the disk is here" maps
check "verified I/O of all sizes" verifies
check "the disk is the same on both machines" same_disk
check "the disk goes" leaves
check "the server's modules go" server_leaves
finish
