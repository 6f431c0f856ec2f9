#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM whose root is a chroot with the packages installed (packages.sh): loads what DKMS built, mounts over soft RoCE, loads the
# in-tree module, to see the line in the log, and goes back to it as docs/install.md says. $1: the version of the module.

claims='in a VM'
. /src/selftests/packages/guest.sh
version=$1 release=$(uname -r)

device() {
	modprobe dummy && modprobe rdma_rxe && ip link add dummy0 type dummy && ip link set dummy0 mtu 4500 up &&
		ip address add 10.0.0.1/24 dev dummy0 && rdma link add rxe0 type rxe netdev dummy0
}
mounts() { mkdir -p /mnt/rdma && mount -t nfs -o "proto=rdma,port=20049,vers=4.2,$1" 10.0.0.1:/ /mnt/rdma; }
copies() { head -c 3000000 /dev/urandom >/tmp/file && cp /tmp/file /mnt/rdma/file && sync && umount /mnt/rdma && mounts ro && cmp /tmp/file /mnt/rdma/file; }
status_fine() { rpcrdma-status >/tmp/status; rc=$?; cat /tmp/status; [ $rc -eq 0 ]; }
shows() { printf '%s\n' "$1" "/lib/modules/$release/updates/dkms/rpcrdma.ko.xz" | diff - <(typed 'Install and load what you built' 2); }

claim 'a device is added' device
claim 'the NFS server starts' /src/scripts/vm/nfs-server start
claim 'mounts over RDMA' mounts rw
claim 'the module that runs is this one' runs "$version"
claim 'moves a file, and reads it back the same' copies
claim 'rpcrdma-status finds nothing wrong' status_fine
claim 'and lists the mount' grep -qF '10.0.0.1:/ on /mnt/rdma, vers=4.2, port=20049' /tmp/status
claim 'and the listener' grep -qx '  port 20049' /tmp/status
claim 'and the device' grep -q 'rxe0 port 1: ACTIVE' /tmp/status

umount /mnt/rdma
rpc.nfsd 0
claim 'the module can be unloaded' unloads
original=$(find "/var/lib/dkms/rpcrdma-rust/original_module/$release" -name 'rpcrdma.ko*' ! -name '*.origin')
/usr/lib/systemd/systemd-udevd --daemon
claim 'the in-tree module is loaded' insmod "$original"
claim 'it is the one that runs' in_tree_runs
claim 'and udev has a line written to the log' logged "rpcrdma-rust: the in-tree module runs, although kernel $release has this one"
claim 'rpcrdma-status says so, too' eval 'rpcrdma-status | tee /dev/stderr | grep -q "^  \* The in-tree module runs, although"'
claim 'the module is changed as the document says' typed 'Install' 3
claim 'and this one runs' runs "$version"
claim 'which the document says how to see' shows "$version"

dkms=$(dkms status rpcrdma-rust -k "$release" | cut -d, -f1)
claim 'DKMS takes the modules away from this kernel' dkms uninstall "$dkms" -k "$release"
claim 'the next load' eval 'rmmod rpcrdma && modprobe rpcrdma'
claim 'is that of the in-tree module' in_tree_runs
claim 'and the log says why' logged "rpcrdma-rust: kernel $release has the in-tree module, because nothing was built for it"
claim 'DKMS gives the modules back' dkms install "$dkms" -k "$release"
claim 'the next load is that of this module' eval "rmmod rpcrdma && modprobe rpcrdma && runs $version"

claim 'the packages are removed as the document says' typed 'Go back' 2
claim 'and the in-tree module runs' in_tree_runs
results
