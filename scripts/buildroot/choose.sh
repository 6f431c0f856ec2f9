#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# choose.sh [WANTED]: prints the kernel to build for, as its release and its Debian version. WANTED is a release, or what
# releases begin with (7.3): the newest of them. Without it, the newest of the first series in the list that can be had.
#
# Runs in the build root before anything is installed there, and refuses a kernel that cannot be built for, because what
# follows takes minutes. What it prints is no part of the root's digest: a root has its kernel's release in its name.

set -euo pipefail
dir=$(dirname "$0") wanted=${1:-}

die() { printf 'error: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '       %s\n' "$@" >&2; exit 1; }

series_of() { cut -d. -f1,2 <<<"$1"; }

tried() { grep -v '^#' "$dir/series"; }

# Every kernel whose image, headers and source are to be had in the same version, the newest first: release, version.
whole_kernels() {
	local release version package
	apt-cache search --names-only '^linux-image-[0-9.]+\+deb13-amd64$' | cut -d' ' -f1 | cut -d- -f3- | sort -Vr |
	while read -r release; do
		version=$(apt-cache show --no-all-versions "linux-image-$release" | sed -n 's/^Version: //p')
		for package in "linux-headers-$release" "linux-source-$(series_of "$release")"; do
			apt-cache madison "$package" | awk -F' *[|] *' '{ print $2 }' | grep -qxF "$version" || continue 2
		done
		printf '%s %s\n' "$release" "$version"
	done
}

# The newest of $kernels that is $1 or begins with it.
newest() {
	awk -v k="$1" '$1 == k || index($1, k ".") == 1 || index($1, k "+") == 1 { print; found = 1; exit } END { exit !found }' \
		<<<"$kernels"
}

choose() {
	local series
	for series in ${wanted:-$(tried)}; do
		if newest "$series"; then return; fi
	done
	[ -n "$wanted" ] || head -n 1 <<<"$kernels"
}

# The configuration of kernel $1, version $2, out of its package of headers.
configuration() {
	local download
	download=$(mktemp -d)
	(cd "$download" && apt-get -q download "linux-headers-$1=$2" >&2 && dpkg-deb --fsys-tarfile ./*.deb) |
		tar -xO "./usr/src/linux-headers-$1/.config"
	rm -r "$download"
}

kernels=$(whole_kernels)
read -r release version <<<"$(choose)" || true
[ -n "${release:-}" ] ||
	die "no kernel ${wanted:-image} with headers and source of the same version is to be had; there are:" \
		"$(awk '{ print (NR > 1 ? "       " : "") "KVER=" $1 }' <<<"$kernels")"

config=$(configuration "$release" "$version") || die "the headers of kernel $release could not be had"
grep -q '^CONFIG_RUST=y' <<<"$config" ||
	die "kernel $release was built without Rust (CONFIG_RUST), as kernels before Debian's 7.2 were" \
		"Take a kernel of trixie-backports: KVER=$(tried | head -n 1), or without KVER the newest that was tried."
series=$(series_of "$release")
oldest=$(tried | sort -V | head -n 1)
[ "$(printf '%s\n' "$oldest" "$series" | sort -V | head -n 1)" = "$oldest" ] ||
	die "kernel $release is too old: the oldest that this module is for is $oldest" "KVER=$oldest takes that."
printf '%s %s\n' "$release" "$version"
