#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mount that cannot work ends with an error within a time limit, and the module still unloads.

. ./lib.sh
need_pair

# Mount ends by itself; timeout(1) is there for a hang, which is a failure.
fails_soon() {
	local status
	timeout "$1" mount -t nfs -o "proto=rdma,port=$3,vers=4.2,retry=0,soft,timeo=50,retrans=1" "$2:/" "$mnt"
	status=$?
	echo "exit status $status"
	[ "$status" -eq 32 ]
}

# logged PORT REASON: whether the log says why nothing connects to that port.
logged() { dmesg | grep "cannot connect to $SERVER_ADDR port $1: $2"; }

mounts() { mount_nfs 4.2 && ls "$mnt" && umount "$mnt"; }

plan 6
check "a mount fails at a port where nobody listens" fails_soon 100 "$SERVER_ADDR" 20050
check "the log says why" logged 20050 'it rejected the connection request'
check "a mount fails at an address that nobody has" fails_soon 100 10.0.0.77 "$port"
check "a mount fails at an address without a route" fails_soon 100 192.0.2.1 "$port"
check "the right address mounts after that" mounts
check "the module unloads" unload
finish
