#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# choose.sh [KVER]: prints the kernel to build for, as its release and its Debian version. KVER is a release, or what releases begin
# with (7.3, 7.3-cloud, 7.3-arm64), perhaps with a suite (7.2-forky), or a suite alone: the newest of them. Without it, the newest of the first series in the list that can be had.
#
# Runs in the build root before anything is installed there, and refuses a kernel that cannot be built for, because what
# follows takes minutes. What it prints is no part of the root's digest: a root has its kernel's release in its name.
#
# The status is 77 if the mirror has kernels that would do, but not that one; or if it has a suite whose kernels change daily, without
# any that is whole on that day.

set -euo pipefail
dir=$(dirname "$0") wanted=${1:-}
# shellcheck disable=SC2034 # for releases.sh
kernel_list=$dir/kernels
. "$dir/releases.sh"
gone=77

die() { printf 'error: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '       %s\n' "$@" >&2; exit "${status:-1}"; }

flavour=$(flavour_of "$wanted")
architecture=$(architecture_of "$wanted")
suffix=$(release_suffix "$flavour" "$architecture")
# apt calls packages of another architecture than its own so.
if [ "$architecture" = amd64 ]; then of=; else of=:$architecture; fi
suite=$(suite_of "$wanted")
mark=$(mark_of "$suite")
# A root of another suite has that one's kernels, too, which are not meant. (Of the first suite all are: what is too old is refused as such.)
if [ "$suite" = "$(main_suite)" ] || [ "$suite" = "$(base_of "$suite")" ]; then only=; else only=$suite; fi
# A kernel of the list that may be taken instead: of this flavour and architecture, if there is one.
listed_one=$({ listed "$flavour" "$architecture" "$suite"; listed "$flavour" "$architecture"; listed; } | awk 'NR == 1 { print $1 }')

# What a KVER says beside numbers, flavour and architecture is refused.
check_wanted() {
	local rest
	[ "$suite" = "$(main_suite)" ] || [ "$architecture" = amd64 ] ||
		die "KVER=$wanted: kernels of $suite are taken for amd64 only" "KVER=$(listed generic "$architecture" | awk 'NR == 1 { print $1 }') takes one for $architecture."
	rest=$(bare "$wanted")
	case $rest in
	'' | *[!0-9.]*) ;;
	*) return ;;
	esac
	[ -n "$rest" ] || return 0
	rest=${rest#"${rest%%[!0-9.]*}"}
	case $rest in
	"+$mark") ;;
	+deb*-*) die "kernel $wanted is of flavour or architecture ${rest#*-}, which this build root does not have" \
		"In the list are: $(listed | awk '{ print "KVER=" $1 }' | paste -sd' ')" ;;
	+deb*) die "kernel $wanted is not of $suite, whose releases have +$mark in their names" \
		"A kernel of another suite, whose compiler it takes, is named with it, as in KVER=forky. KVER=$listed_one takes one of this suite." ;;
	*) die "KVER=$wanted is no release of Debian's, nor what one begins with" \
		"In the list are: $(listed | awk '{ print "KVER=" $1 }' | paste -sd' ')" ;;
	esac
}

# Every kernel of this flavour and architecture whose image, headers and source are to be had in the same version, the newest first: release, version.
whole_kernels() {
	local release version package behind="\\+$mark"
	if [ -n "$only" ]; then behind="($behind)?"; fi
	apt-cache search --names-only "^linux-image-[0-9.]+$behind$suffix\$" | cut -d' ' -f1 | cut -d- -f3- | sort -Vr |
	while read -r release; do
		version=$(apt-cache show --no-all-versions "linux-image-$release$of" | sed -n 's/^Version: //p')
		for package in "linux-image-$release$of" "linux-headers-$release$of" "linux-source-$(series_of "$release")"; do
			apt-cache madison "$package" | awk -F' *[|] *' -v version="$version" -v only="${only:+ $only/}" '
				$2 == version && (only == "" || index($3, only)) { found = 1 } END { exit !found }' || continue 2
		done
		printf '%s %s\n' "$release" "$version"
	done
}

# The newest of $kernels that $1 names.
newest() {
	local release version
	while read -r release version; do
		if names "$1" "$release"; then
			printf '%s %s\n' "$release" "$version"
			return
		fi
	done <<<"$kernels"
	return 1
}

# What names each of $kernels. Releases of another suite than the first one do not say of which they are.
kvers() {
	local release
	while read -r release _; do
		if [ "$suite" = "$(main_suite)" ]; then
			echo "KVER=$release"
		elif [ -n "$release" ]; then
			echo "KVER=$(bare "$release")-$suite$(kver_suffix "$flavour" "$architecture")"
		fi
	done <<<"$kernels"
}

choose() {
	local kver
	for kver in ${wanted:-$(listed_series)}; do
		if newest "$kver"; then return; fi
	done
	[ -n "$wanted" ] || head -n 1 <<<"$kernels"
}

# The configuration of kernel $1, version $2, out of its package of headers.
configuration() {
	local download
	download=$(mktemp -d)
	(cd "$download" && apt-get -q download "linux-headers-$1$of=$2" >&2 && dpkg-deb --fsys-tarfile ./*.deb) |
		tar -xO "./usr/src/linux-headers-$1/.config"
	rm -r "$download"
}

oldest=$(oldest_series)
# not_older RELEASE
not_older() { [ "$(printf '%s\n' "$oldest" "$(series_of "$1")" | sort -V | head -n 1)" = "$oldest" ]; }

check_wanted
kernels=$(whole_kernels)
read -r release version <<<"$(choose)" || true
if [ -z "${release:-}" ]; then
	# Where the mirror does not have the suite, or apt could not read it, nobody knows.
	read -r newest _ <<<"$kernels" || true
	if [ -n "$newest" ] && not_older "$newest"; then status=$gone; fi
	if [ -z "$newest" ] && [ "$suite" != "$(main_suite)" ] && apt-cache policy | grep " $suite/main " >/dev/null; then status=$gone; fi
	mapfile -t there < <(kvers)
	die "no kernel ${wanted:-image} with headers and source of the same version is to be had; there are:" "${there[@]:-none}"
fi

config=$(configuration "$release" "$version") || die "the headers of kernel $release could not be had"
grep -q '^CONFIG_RUST=y' <<<"$config" ||
	die "kernel $release was built without Rust (CONFIG_RUST), as kernels before Debian's 7.2 were" \
		"Take a kernel of $suite: KVER=$listed_one, or without KVER the newest that was tried."
for option in SUNRPC INFINIBAND INFINIBAND_ADDR_TRANS; do
	grep -q "^CONFIG_$option=[ym]" <<<"$config" || die "kernel $release was built without CONFIG_$option, which these modules use" \
		"Take another one, as KVER=$listed_one."
done
not_older "$release" ||
	die "kernel $release is too old: the oldest that this module is for is $oldest" "KVER=$oldest$(kver_suffix "$flavour" "$architecture") takes that."
printf '%s %s\n' "$release" "$version"
