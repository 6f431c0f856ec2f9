#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mount that cannot work ends with an error within a time limit, and the module still unloads.

. ./lib.sh
need_pair

# fails_soon LIMIT ADDRESS PORT [OPTIONS]. Mount ends by itself; timeout(1) is there for a hang, which is a failure.
fails_soon() {
	local status
	timeout "$1" mount -t nfs -o "proto=rdma,port=$3,vers=4.2,retry=0${4-,soft,timeo=50,retrans=1}" "$2:/" "$mnt"
	status=$?
	echo "exit status $status"
	[ "$status" -eq 32 ]
}

# With the usual time-outs. The first call of a mount must not wait for a server without an answer, so the mount fails with the first
# attempt to connect, and does not go on for as long as a call may take, which is three minutes.
fails_without_an_answer() {
	local packets="tcp dport $port" status
	[ "$RDMA" != rxe ] || packets="udp dport 4791"
	on_server "nft 'add table inet silent; add chain inet silent in { type filter hook input priority 0; }
		add rule inet silent in $packets drop'"
	fails_soon 60 "$SERVER_ADDR" "$port" ""
	status=$?
	on_server nft delete table inet silent
	return $status
}

# logged PORT REASON: whether the log says why nothing connects to that port.
logged() { dmesg | grep "cannot connect to $SERVER_ADDR port $1: $2"; }

mounts() { mount_nfs 4.2 && ls "$mnt" && umount "$mnt"; }

plan 7
check "a mount fails at a port where nobody listens" fails_soon 100 "$SERVER_ADDR" 20050
check "the log says why" logged 20050 'it rejected the connection request'
check "a mount fails at an address that nobody has" fails_soon 100 10.0.0.77 "$port"
check "a mount fails at an address without a route" fails_soon 100 192.0.2.1 "$port"
check "a mount of a server that does not answer fails within a minute" fails_without_an_answer
check "the right address mounts after that" mounts
check "the module unloads" unload
finish
