#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mount that cannot work ends with an error in time and leaves nothing behind.

. ./lib.sh
need_pair

# Mount gives up by itself; timeout(1) only turns a hang into a failure.
fails_soon() {
	local status
	timeout "$1" mount -t nfs -o "proto=rdma,port=$3,vers=4.2,retry=0,soft,timeo=50,retrans=1" "$2:/" "$mnt"
	status=$?
	echo "exit status $status"
	[ "$status" -eq 32 ]
}

mounts() { mount_nfs 4.2 && ls "$mnt" && umount "$mnt"; }

plan 5
check "a port where nobody listens" fails_soon 100 "$SERVER_ADDR" 20050
check "an address where nobody is" fails_soon 100 10.0.0.77 "$port"
check "an address without a route" fails_soon 100 192.0.2.1 "$port"
check "the right one mounts after that" mounts
check "the module unloads" unload
finish
