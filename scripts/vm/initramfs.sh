#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0
#
# First process of a VM, from the initramfs: puts the root together and goes over to guest.sh in it, or to the systemd of that root
# (vm.py --systemd), which then runs command.sh.
#
# The root is the build root, shared read-only by all VMs, under a layer with our module (MODULE=rust) and a tmpfs that
# takes what the guest writes. A guest with systemd has a disk instead of the tmpfs, which keeps that until it starts again.

# share TAG DIRECTORY ro|rw: mounts there what the host shares under that name. QEMU has 9p for it, or virtiofs if the kernel lacks 9p;
# for User-Mode Linux, the command line says which of the host's directories it is. What is read-only does not change meanwhile.
share() {
	mkdir -p "$2"
	directory=$(sed -n "s/.* share\.$1=\([^ ]*\).*/\1/p" /proc/cmdline)
	if [ -n "$directory" ]; then
		mount -t hostfs -o "$directory,$3" "$1" "$2"
	elif ! grep -qw 9p /proc/filesystems; then
		mount -t virtiofs -o "$3" "$1" "$2"
	else
		cache=none
		if [ "$3" = ro ]; then cache=loose; fi
		mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3,cache=$cache" "$1" "$2"
	fi
}

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order

if grep -q ' guest\.disk' /proc/cmdline; then
	mount -t ext4 /dev/vda /root
else
	share root /lower ro
	share layer /layer ro
	if [ -b /dev/vda ]; then mount -t ext4 /dev/vda /rw; else mount -t tmpfs -o size=75% tmpfs /rw; fi
	mkdir -p /rw/upper /rw/work
	mount -t overlay -o lowerdir=/layer:/lower,upperdir=/rw/upper,workdir=/rw/work overlay /root
fi
share src /root/src ro
share kernel /root/kernel ro
share run /root/vm rw
if [ -d /root/vm/pair ]; then share pair /root/vm/pair rw; fi
if grep -q ' guest\.systemd' /proc/cmdline; then
	mount -t tmpfs -o mode=755 tmpfs /root/run
	mkdir -p /root/run/systemd/system/graphical.target.wants
	cp /root/src/scripts/vm/command.service /root/run/systemd/system/
	ln -s ../command.service /root/run/systemd/system/graphical.target.wants/
	# vm.py waits for this file.
	touch /root/vm/booted
	set -- /lib/systemd/systemd
else
	set -- /bin/bash /src/scripts/vm/guest.sh
fi
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root "$@"
