#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# machine.sh KVER: makes sure of a Debian machine of another architecture than this one's, as a user has it before any package of this
# project, and prints its directory in the cache. There, `disk` is the file system that a VM has as its root (vm.py --disk): the packages
# that a Debian system must have are installed, and those that KVER's kernel, DKMS and a mount need are to be had by apt from
# /srv/packages, as the VM has no network.
#
# Here packages are only downloaded, and the first ones unpacked. dpkg runs in the VM (guest-machine.sh), so no program of that architecture
# runs outside of it.

. "$(dirname "$0")/../../scripts/lib.sh"
cd "$top"

export KVER=$1
architecture=$(architecture_of "$KVER")
# What a VM needs before it can install anything.
first='?essential apt mount kmod procps iproute2 linux-base/trixie-backports'
# What the document names, which comes from backports with its libraries; what the packages of this project need or recommend; what the tests
# need for a mount.
scripts/buildroot.sh
release=$(cat "$(root_dir)/etc/rpcrdma/kver")
suffix=$(release_suffix "$(flavour_of "$KVER")" "$architecture")
backports=(linux-{image,headers}"$suffix" "linux-source-$(series_of "$release")" libelf-dev libelf1t64 libdw-dev libdw1t64)
more="${backports[*]/%//trixie-backports} initramfs-tools dkms rustc bindgen gcc-14 make rust-src bc flex bison pahole python3 xz-utils libssl-dev
	libc6-dev openssl nfs-kernel-server nfs-common rdma-core udev"

work=$cache/work/machines log=$cache/work/machines/log
. scripts/base.sh
machine=$work/$release-$({ echo "$first $more" && cat scripts/packaging/{clean,download}.sh selftests/packages/{,guest-}machine.sh; } | digest)

# Downloads into /kernel of who runs this, which is $tmp.
download() {
	# shellcheck disable=SC2016 # the inner shell expands its own arguments
	ROOT_DIR=$(scripts/packaging/roots.sh clean) KERNEL_DIR=$tmp scripts/enter bash -ec '
		mkdir -p /kernel/root/srv
		scripts/packaging/download.sh "$1" /kernel/root/srv/packages "$2"
		mv /kernel/root/srv/packages/order /kernel/first
		scripts/packaging/download.sh "$1" /kernel/root/srv/packages "$2 $3"
	' download "$architecture" "$first" "$more"
}

# Makes an archive of what was downloaded, and the file system with it and with what is unpacked.
unpack() {
	# shellcheck disable=SC2016
	ROOT_DIR=$(scripts/packaging/roots.sh tools) KERNEL_DIR=$tmp scripts/enter bash -ec '
		cd /kernel/root/srv/packages
		mv order /kernel/
		dpkg-scanpackages --multiversion . >Packages
		printf "Suite: trixie-backports\nSHA256:\n %s %s Packages\n" "$(sha256sum <Packages | cut -d" " -f1)" "$(stat -c %s Packages)" >Release
		cd /kernel/root
		mkdir -p usr/bin usr/lib usr/sbin src kernel vm
		ln -s usr/bin usr/lib usr/sbin .
		while read -r package; do
			file=(srv/packages/"$package"_*.deb)
			echo "/${file[0]}" >>srv/first
			dpkg-deb --fsys-tarfile "${file[0]}" | tar -x --keep-directory-symlink
		done </kernel/first
		truncate -s 16G /kernel/disk
		mkfs.ext4 -q -d . /kernel/disk
	'
}

configure() {
	scripts/enter scripts/vm.py single --module installed --disk "/cache/machines/tmp/disk" --limit 3600 -- selftests/packages/guest-machine.sh
}

mkdir -p "$work"
exec 9>"$work/lock"
flock 9
if [ ! -d "$machine" ]; then
	check_machine
	tmp=$work/tmp
	remove "$tmp"
	trap 'remove "$tmp"' EXIT
	check_space 6 "A machine for $architecture, with its packages,"
	mkdir "$tmp"
	stage "a machine for $architecture: packages"
	download >"$log" 2>&1 || failed "could not download the packages for $architecture"
	unpack >>"$log" 2>&1 || failed "could not unpack the packages for $architecture"
	stage "a machine for $architecture: configured in a VM"
	configure >>"$log" 2>&1 || failed "could not configure the packages for $architecture"
	remove "$tmp/root"
	mv -T "$tmp" "$machine"
	stage "ready: $machine"
fi
echo "$machine"
