#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
#
# First process of a VM, from the initramfs: puts the root together and goes over to guest.sh in it.
#
# The root is the build root, shared read-only by all VMs, under a layer with our module (MODULE=rust) and a tmpfs that
# takes what the guest writes.

share() { mkdir -p "$2" && mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2"; }

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order

share root /lower ro,cache=loose
share layer /layer ro,cache=loose
mount -t tmpfs -o size=75% tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/layer:/lower,upperdir=/rw/upper,workdir=/rw/work overlay /root
share src /root/src ro,cache=loose
share kernel /root/kernel ro,cache=loose
share run /root/vm rw,cache=none
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root /bin/bash /src/scripts/vm/guest.sh
