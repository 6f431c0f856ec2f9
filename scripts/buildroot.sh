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

needed_gb=8
log=$cache/buildroot.log

check_machine() {
	[ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m); only x86-64 kernels are supported"
	install_tools
	in_namespace true 2>/dev/null || die "cannot make a mount namespace" \
		"Run this as root, or as a user with subordinate ids (/etc/subuid, /etc/subgid)" \
		"on a kernel that lets users make namespaces (sysctl user.max_user_namespaces," \
		"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)."
}

# The only packages that the machine itself needs.
install_tools() {
	local packages=()
	command -v mmdebstrap >/dev/null || packages+=(mmdebstrap)
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
	[ "$(id -u)" -eq 0 ] || command -v newuidmap >/dev/null || packages+=(uidmap)
	[ ${#packages[@]} -gt 0 ] || return 0
	local sudo=()
	[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
	stage "installing on this machine: ${packages[*]}"
	{ "${sudo[@]}" apt-get install -y "${packages[@]}" ||
		{ "${sudo[@]}" apt-get update && "${sudo[@]}" apt-get install -y "${packages[@]}"; }; } >"$log" 2>&1 ||
		die "could not install ${packages[*]}; the log is $log" "As root: apt-get install ${packages[*]}"
}

check_space() {
	local free_gb
	free_gb=$(($(df --output=avail -k "$cache" | tail -n 1) / 1048576))
	say "The build root and the kernel metadata take about $needed_gb GB under $cache; $free_gb GB are free there."
	[ "$free_gb" -ge "$needed_gb" ] || die "not enough space under $cache: $free_gb GB free, $needed_gb GB needed" \
		"XDG_CACHE_HOME=... names another place."
}

remove() { in_namespace rm -rf --one-file-system "$@"; }

failed() {
	grep -E '^(error|E): |^       ' "$log" | uniq | tail -n 20 >&2 || true
	die "$1" "The whole log is $log"
}

make_root() {
	local tmp=$cache/tmp.root name
	stage "build root: base system"
	apt-config dump Acquire | grep -v ^Acquire::IndexTargets >"$cache/tmp.apt.conf"
	in_namespace mmdebstrap --mode=root --variant=minbase --aptopt="$cache/tmp.apt.conf" \
		trixie "$tmp" ${MIRROR:+"$MIRROR"} >"$log" 2>&1 ||
		failed "could not install a Debian base system; is the package mirror within reach?"
	stage "build root: kernel, toolchain, VM and NFS tools"
	mkdir -p "$tmp/src" "$tmp/kernel" "$tmp/cache"
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
check_space
if [ -z "$(root_dir)" ]; then make_root; fi
root=$(root_dir)
warn_of_untried
if [ ! -d "$(kernel_dir "$root")" ]; then make_kernel; fi
stage "ready: ${KERNEL:+$KERNEL }kernel $(cat "$root/etc/rpcrdma/kver")"
