#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Mounts in network namespaces that have an RDMA device of their own, in both modes of RDMA namespaces, shared and exclusive.

. ./lib.sh
. ./namespaces.sh
need_pair

modprobe rpcrdma

# routed_namespace NAME NUMBER: adds a network namespace to which the server has a route.
routed_namespace() { add_namespace "$1" "$2" && on_server ip route replace "10.0.$2.0/24" via "$CLIENT_ADDR"; }

# `ip netns exec` makes a mount namespace, too, so two mounts can have the same mount point. NFSv3, because the server takes
# two NFSv4 clients of the same name for one.
inside() {
	ip netns exec "$1" bash -c ". ./lib.sh
		mount_nfs 3 soft,timeo=100,retrans=2 && verified_io --size=4M && stat -f $mnt >/dev/null || exit
		addresses=\$(xprts srcaddr)
		[[ \$addresses = *$2* ]] || { echo \"the connection is from \$addresses\"; exit 1; }
		umount $mnt"
}

# mount.nfs exits with 32 if the mount fails.
refused() {
	ip netns exec "$1" bash -c '. ./lib.sh; mount_nfs 3 soft,timeo=100,retrans=2'
	[ $? -eq 32 ]
}

works() { mount_nfs 3 && verified_io --size=4M && umount "$mnt"; }

both() { mount_nfs 3 && inside one 10.0.1.2 && verified_io --size=4M && umount "$mnt"; }

plan 8
check "a network namespace gets an RDMA device" routed_namespace one 1
check "a mount in that namespace works, RDMA namespaces are shared" inside one 10.0.1.2
check "mounts inside and outside of it work at the same time" both
check "the namespace and its device are removed" remove_namespace one
check "RDMA namespaces become exclusive" mode exclusive
check "a mount in the namespace of the device works" works
# rxe makes all its devices in the initial namespace, and they cannot be moved.
check "another network namespace is made" routed_namespace two 2
check "a mount in a namespace without a device is refused" refused two
finish
