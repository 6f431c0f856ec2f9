#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM that has started with systemd, and whose root is a chroot with the packages installed (packages.sh): `first` sets up an
# RDMA device, a listener of nfsd and a mount as docs/iwarp.md and docs/install.md say; `second` and `third`, when the machine has started
# again, find all of it there. $2: the version of the module. $3: the type of the device.

claims="booted for the $1 time"
. /src/selftests/packages/guest.sh
version=$2 type=$3
unit=$type@eth0.service

# in_iwarp NUMBER [SED-SCRIPT]: that block of docs/iwarp.md about what comes after a reboot.
in_iwarp() { (cd /src && document=docs/iwarp.md block 'After a reboot' "$1" | sed "${2:-}"); }
has_address() { ip address show dev eth0 | tee /dev/stderr | grep -q 'inet 10\.0\.0\.1/'; }
device_there() { rdma link show | tee /dev/stderr | grep -q "^link $type-eth0/1 .*netdev eth0"; }
listens() { tee /dev/stderr </proc/fs/nfsd/portlist | grep -qx 'rdma 20049'; }
mounted() { tee /dev/stderr </proc/self/mounts | grep -q '^10\.0\.0\.1:/ /mnt nfs4 .*proto=rdma,'; }
copies() { head -c 3000000 /dev/urandom >/tmp/file && cp /tmp/file /mnt/file && sync && cmp /tmp/file /export/file; }
status_fine() { rpcrdma-status >/tmp/status; rc=$?; cat /tmp/status; [ $rc -eq 0 ]; }
all_started() {
	local state
	state=$(systemctl is-system-running --wait)
	systemctl --no-pager --failed
	[ "$state" = running ]
}
# line UNIT: where the log of the boot before says that systemd has ended it, or for `device` that it begins to.
journal() { journalctl -q -b -1 -o cat _PID=1; }
line() { journal | grep -nE "^$1" | tail -n 1 | cut -d: -f1; }
ended_in_order() {
	local mount server device
	mount=$(line 'Unmounted mnt\.mount') server=$(line 'Stopped nfs-server\.service') device=$(line "Stopping $type@eth0\.service")
	journal | tail -n 60
	echo "lines: mount $mount, server $server, device $device"
	[ "$mount" -lt "$server" ] && [ "$server" -lt "$device" ]
}

first() {
	claim 'all units have started' all_started
	claim 'the network device has its address' within 30 has_address
	claim 'the unit of the device is enabled and started as the document says' bash -exc "$(in_iwarp 1 "/ enable --now $unit/!d")"
	claim 'there is the device' device_there
	mkdir -p /etc/nfs.conf.d
	# A client that was there before the reboot need not be waited for long.
	printf '[nfsd]\ngrace-time=10\nlease-time=10\n' >/etc/nfs.conf.d/times.conf
	(cd /src && block 'Start at boot' 1) >/etc/nfs.conf.d/rdma.conf
	claim 'nfsd starts again' systemctl restart nfs-server.service
	claim 'and listens' listens
	in_iwarp 2 "s|^server:/export|10.0.0.1:/|; s/iwarp-tcp@/$type@/" >>/etc/fstab
	claim 'a line for the mount is in fstab' grep -q "^10\.0\.0\.1:/ .*requires=$unit" /etc/fstab
	claim 'systemd reads it' systemctl daemon-reload
	claim 'and it mounts' mount /mnt
	there
}

again() {
	claim 'all units have started' all_started
	claim 'among them that of the device' systemctl is-active "$unit"
	claim 'there is the device' device_there
	claim 'nfsd listens' listens
	there
	claim 'before, the mount had ended first, then nfsd, and then the device' ended_in_order
}

there() {
	claim 'it is mounted over RDMA' mounted
	claim 'the module that runs is this one' runs "$version"
	claim 'moves a file' copies
	claim 'rpcrdma-status finds nothing wrong' status_fine
}

case $1 in first) first ;; *) again ;; esac
results
