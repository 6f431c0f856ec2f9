#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Without any RDMA device a mount ends with an error within a minute.

. ./lib.sh
clear_logs

modprobe nfs

fails_soon() {
	local status
	timeout 60 mount -t nfs -o "proto=rdma,port=20049,vers=$1,retry=0" "$2:/" "$mnt"
	status=$?
	echo "exit status $status"
	[ "$status" -eq 32 ]
}

plan 3
check "NFSv4.2 to a local address fails" fails_soon 4.2 127.0.0.1
check "NFSv3 to a local address fails" fails_soon 3 127.0.0.1
check "the module unloads after that" unload
finish
