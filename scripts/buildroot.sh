#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes sure that the build root and the kernel's Rust metadata are in the cache. Each is built under a temporary name
# and renamed when whole, so a run that was interrupted leaves nothing that a later one could take for finished.
#
# KVER=  the kernel to build for, as its release or what that begins with, with its flavour behind it: 7.3, 7.3-cloud (default: the
#        newest of the first series in scripts/buildroot/kernels that is to be had). The status is 77 if the mirror does not have it.
# KERNEL=debug|rt-debug|uml|uml-debug  make sure of that kernel (scripts/testkernel/build.sh), made from the same source, too
# MIRROR=  the Debian mirror (default: the one mmdebstrap knows)

. "$(dirname "$0")/lib.sh"
log=$cache/buildroot.log
. "$top/scripts/base.sh"

make_root() {
	local tmp=$cache/tmp.root name flavour architecture suite more status install=install.sh
	architecture=$(architecture_of "${KVER:-}") suite=$(suite_of "${KVER:-}")
	if [ "$suite" != "$(main_suite)" ]; then install="install-suite.sh"; fi
	if [ "$architecture" != amd64 ]; then install="install-cross.sh"; fi
	stage "build root: base system"
	make_base "$tmp" "$(base_of "$suite")"
	stage "build root: kernel, toolchain, VM and NFS tools"
	ROOT_DIR=$tmp KERNEL_DIR=$recipe "$top/scripts/enter" \
		"scripts/buildroot/$install" /src/scripts/buildroot "${KVER:-}" >>"$log" 2>&1 || {
		status=$?
		failed "could not install the build root's packages" "$status"
	}
	flavour=$(flavour_of "$(cat "$tmp/etc/rpcrdma/kver")")
	more=$(flavour_packages "$flavour" | xargs)
	# shellcheck disable=SC2086 # one word is one package
	[ -z "$more" ] || ROOT_DIR=$tmp KERNEL_DIR=$recipe "$top/scripts/enter" env DEBIAN_FRONTEND=noninteractive INITRD=No \
		apt-get -q install -y --no-install-recommends $more >>"$log" 2>&1 ||
		failed "could not install what kernels of flavour $flavour need: $more"
	if [ "$architecture" != amd64 ]; then make_guest "$tmp" "$architecture"; fi
	name=root-$(root_key "$flavour" "$architecture" "$suite")-$(cat "$tmp/etc/rpcrdma/kver")
	# One that was made for a KVER may be what this run chose, too.
	if [ -d "$cache/$name" ]; then remove "$tmp"; else mv -T "$tmp" "$cache/$name"; fi
	[ -n "${KVER:-}" ] || ln -sfn "$name" "$(root_choice)"
}

# make_guest ROOT ARCHITECTURE: what the VMs of a kernel of another architecture have as their root, in ROOT/guest. Packages are only
# unpacked, so this machine has to run none of their programs.
make_guest() {
	local release version include
	stage "build root: what its VMs have for $2"
	release=$(cat "$1/etc/rpcrdma/kver")
	version=$(awk -v package="linux-headers-$release" '$1 == package { print $2 }' "$1/etc/rpcrdma/toolchain")
	include=$(grep -v '^#' "$recipe/packages-guest" | xargs | tr ' ' ,)
	apt-config dump Acquire | grep -v ^Acquire::IndexTargets >"$1.apt.conf"
	# shellcheck disable=SC2016 # mmdebstrap runs the hook
	in_namespace mmdebstrap --mode=root --variant=extract --architectures="$2" --aptopt="$1.apt.conf" \
		--aptopt='APT::Install-Recommends "false"' \
		--setup-hook='sed -n "s/ trixie main/ trixie-backports main/p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/backports.list"' \
		--include='?essential' --include="linux-base/trixie-backports,linux-image-$release=$version,$include" \
		trixie "$1/guest" ${MIRROR:+"$MIRROR"} >>"$log" 2>&1 || failed "could not unpack the packages for $2"
	rm "$1.apt.conf"
	ROOT_DIR=$1 KERNEL_DIR=$recipe "$top/scripts/enter" scripts/buildroot/guest.sh >>"$log" 2>&1 ||
		failed "could not make a root for VMs of the packages for $2"
}

make_kernel() {
	local tmp=$cache/tmp.kernel what="Rust metadata of kernel" script=(scripts/buildroot/metadata.sh)
	if [ "$(suite_of "${KVER:-}")" != "$(main_suite)" ]; then script=(scripts/buildroot/metadata-suite.sh); fi
	if [ -n "${KERNEL:-}" ]; then what="$KERNEL kernel from the source of" script=(scripts/testkernel/build.sh "$KERNEL"); fi
	stage "$what $(cat "$root/etc/rpcrdma/kver")"
	mkdir "$tmp"
	ROOT_DIR=$root KERNEL_DIR=$tmp "$top/scripts/enter" nice "${script[@]}" >"$log" 2>&1 || failed "${script[*]} failed"
	tail -n 1 "$log" >&2
	mv -T "$tmp" "$(kernel_dir "$root")"
}

warn_of_untried() {
	local release
	release=$(cat "$root/etc/rpcrdma/kver")
	tried "$release" || untried "$release" >&2
}

root=$(root_dir)
if [ -n "$root" ] && [ -d "$(kernel_dir "$root")" ]; then
	warn_of_untried
	exit
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
check_machine
remove "$cache"/tmp.*
trap 'remove "$cache"/tmp.*' EXIT
check_space 8 "The build root and the kernel metadata"
if [ -z "$(root_dir)" ]; then make_root; fi
root=$(root_dir)
warn_of_untried
if [ ! -d "$(kernel_dir "$root")" ]; then make_kernel; fi
stage "ready: ${KERNEL:+$KERNEL }kernel $(cat "$root/etc/rpcrdma/kver")"
