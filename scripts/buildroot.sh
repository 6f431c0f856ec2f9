#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes sure that the build root and the kernel's Rust metadata are in the cache. Each is built under a temporary name
# and renamed when whole, so a run that was interrupted leaves nothing that a later one could take for finished.
#
# KVER=  the kernel to build for, as its release or what that begins with, like 7.3 (default: the newest of the first series in
#        scripts/buildroot/series that is to be had)
# KERNEL=debug  make sure of the debug kernel from that kernel's source too
# MIRROR=  the Debian mirror (default: the one mmdebstrap knows)

. "$(dirname "$0")/lib.sh"
log=$cache/buildroot.log
. "$top/scripts/base.sh"

make_root() {
	local tmp=$cache/tmp.root name
	stage "build root: base system"
	make_base "$tmp"
	stage "build root: kernel, toolchain, VM and NFS tools"
	ROOT_DIR=$tmp KERNEL_DIR=$recipe "$top/scripts/enter" \
		scripts/buildroot/install.sh /src/scripts/buildroot "${KVER:-}" >>"$log" 2>&1 ||
		failed "could not install the build root's packages"
	name=root-$(root_key)-$(cat "$tmp/etc/rpcrdma/kver")
	# One that was made for a KVER may be what this run chose, too.
	if [ -d "$cache/$name" ]; then remove "$tmp"; else mv -T "$tmp" "$cache/$name"; fi
	[ -n "${KVER:-}" ] || ln -sfn "$name" "$(root_choice)"
}

make_kernel() {
	local tmp=$cache/tmp.kernel what="Rust metadata of kernel" script=scripts/buildroot/metadata.sh
	if [ "${KERNEL:-}" = debug ]; then what="debug kernel from the source of" script=scripts/debug/kernel.sh; fi
	stage "$what $(cat "$root/etc/rpcrdma/kver")"
	mkdir "$tmp"
	ROOT_DIR=$root KERNEL_DIR=$tmp "$top/scripts/enter" nice "$script" >"$log" 2>&1 || failed "$script failed"
	tail -n 1 "$log" >&2
	mv -T "$tmp" "$(kernel_dir "$root")"
}

warn_of_untried() {
	local release
	release=$(cat "$root/etc/rpcrdma/kver")
	tried_series | grep -qxF "$(cut -d. -f1,2 <<<"$release")" ||
		say "warning: nobody has tried this project with kernel $release yet (tried series: $(tried_series | xargs))"
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
