#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Every alias of the module loads it, and it registers its transport class.

. ./lib.sh
clear_logs

modprobe dummy
modprobe nfs

by_alias() {
	unload && modprobe "$1" && [ "$(loaded)" != none ]
}

# The mount cannot succeed, because nothing listens there, but sunrpc requests the transport's module.
by_mount() {
	unload || return
	timeout 30 mount -t nfs -o "proto=$1,port=20049,vers=4.2,retry=0,soft,timeo=10,retrans=1" "$2:/" "$mnt"
	[ "$(loaded)" != none ]
}

# Without the class the same mount fails in the lookup of the transport, before any address is resolved.
registers() {
	modprobe rpcrdma
	dmesg | grep -q 'RPC: Registered rdma transport module'
}

unregistered() { dmesg | grep -c 'RPC: Unregistered rdma transport module'; }

unregisters() {
	local before
	before=$(unregistered)
	unload && [ "$(unregistered)" -eq $((before + 1)) ]
}

plan 8
for alias in rpcrdma rpcrdma6 xprtrdma svcrdma; do
	check "modprobe $alias" by_alias "$alias"
done
check "mount proto=rdma loads it" by_mount rdma 127.0.0.1
check "mount proto=rdma6 loads it" by_mount rdma6 '[::1]'
check "loading it registers the transport class" registers
check "unloading it unregisters the transport class" unregisters
finish
