#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM whose root is a chroot with the packages installed (packages.sh): loads what DKMS built, mounts over soft RoCE, and then
# loads the in-tree module, to see the line in the log. $1: the version of the module.

cd /
count=0 failed=0

# claim NAME CONDITION...
claim() {
	local name=$1 word=ok
	shift
	count=$((count + 1))
	if ! "$@" >/tmp/said 2>&1; then word='not ok' failed=$((failed + 1)); fi
	echo "# $word $count - in a VM: $name"
	[ "$word" = ok ] || sed 's/^/#    /' /tmp/said
}

device() {
	modprobe dummy && modprobe rdma_rxe && ip link add dummy0 type dummy && ip link set dummy0 mtu 4500 up &&
		ip address add 10.0.0.1/24 dev dummy0 && rdma link add rxe0 type rxe netdev dummy0
}
mounts() { mkdir -p /mnt/rdma && mount -t nfs -o "proto=rdma,port=20049,vers=4.2,$1" 10.0.0.1:/ /mnt/rdma; }
copies() { head -c 3000000 /dev/urandom >/tmp/file && cp /tmp/file /mnt/rdma/file && sync && umount /mnt/rdma && mounts ro && cmp /tmp/file /mnt/rdma/file; }
status_fine() { rpcrdma-status >/tmp/status; rc=$?; cat /tmp/status; [ $rc -eq 0 ]; }
# sunrpc frees a connection some time after the last umount.
unloads() { for _ in {1..100}; do if rmmod rpcrdma; then return; fi; sleep 0.3; done; return 1; }
logged() { for _ in {1..100}; do if dmesg | grep -F "$1"; then return; fi; sleep 0.3; done; return 1; }

claim 'a device is added' device
claim 'the NFS server starts' /src/scripts/vm/nfs-server start
claim 'mounts over RDMA' mounts rw
claim 'the module that runs is this one' [ "$(cat /sys/module/rpcrdma/version)" = "$1" ]
claim 'moves a file, and reads it back the same' copies
claim 'rpcrdma-status finds nothing wrong' status_fine
claim 'and lists the mount' grep -qF '10.0.0.1:/ on /mnt/rdma, vers=4.2, port=20049' /tmp/status
claim 'and the listener' grep -qx '  port 20049' /tmp/status
claim 'and the device' grep -q 'rxe0 port 1: ACTIVE' /tmp/status

umount /mnt/rdma
rpc.nfsd 0
claim 'the module can be unloaded' unloads
original=$(find /var/lib/dkms/rpcrdma-rust/original_module -name 'rpcrdma.ko*' ! -name '*.origin')
/usr/lib/systemd/systemd-udevd --daemon
claim 'the in-tree module is loaded' insmod "$original"
claim 'and udev has a line written to the log' logged 'rpcrdma-rust: the in-tree module runs, although'
claim 'rpcrdma-status says so, too' eval 'rpcrdma-status | tee /dev/stderr | grep -q "^  \* The in-tree module runs, although"'
echo "# 1..$count"
[ "$failed" -eq 0 ]
