#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Mounts in network namespaces, each with a device of its own, with RDMA namespaces shared and exclusive.

. ./lib.sh
. ./stations.sh
need_pair

modprobe rpcrdma

# station NAME NUMBER: adds one that the server knows the way to.
station() { add_station "$1" "$2" && on_server ip route replace "10.0.$2.0/24" via "$CLIENT_ADDR"; }

# In a namespace of its own for mounts, so that both may be at the same place. NFSv3, as two NFSv4 clients of one name are
# one to the server.
inside() {
	ip netns exec "$1" bash -c ". ./lib.sh
		mount_nfs 3 soft,timeo=100,retrans=2 && verified_io --size=4M && grep -q '$2' <(xprts srcaddr) && umount $mnt"
}

# mount.nfs says so by its status.
refused() {
	ip netns exec "$1" bash -c '. ./lib.sh; mount_nfs 3 soft,timeo=100,retrans=2'
	[ $? -eq 32 ]
}

works() { mount_nfs 3 && verified_io --size=4M && umount "$mnt"; }

both() { mount_nfs 3 && inside one 10.0.1.2 && verified_io --size=4M && umount "$mnt"; }

mode() { rdma system set netns "$1" && rdma system show | grep -q "netns $1"; }

plan 8
check "a station of its own" station one 1
check "mounts in its namespace, shared" inside one 10.0.1.2
check "mounts outside of it at the same time" both
check "goes" remove_station one
check "RDMA namespaces become exclusive" mode exclusive
check "mounts where the device is" works
# Soft RoCE makes all its devices in the first namespace, and cannot move them.
check "another station" station two 2
check "does not mount where no device is" refused two
finish
