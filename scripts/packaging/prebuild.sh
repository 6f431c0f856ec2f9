#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# prebuild.sh RELEASE HEADERS: builds the modules in the current directory, for kernel RELEASE. DKMS runs it before what dkms.conf
# gives to build with, which is nothing.
#
# Status 77 means "skipped" to DKMS. Any other failure would leave the kernel's package half configured, and these are modules that
# a machine can do without: the kernel brings its own rpcrdma.ko. So whatever goes wrong here is a skip. The reason is kept for
# who asks which module a kernel has (report).

set -u
release=$1 headers=$2
state=/var/lib/rpcrdma-rust/skipped
cache=/var/cache/rpcrdma-rust

# The compiler that built the kernel is Debian's, not one that rustup put before it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset MAKEFLAGS RUSTC BINDGEN

# shellcheck disable=SC2034 # for releases.sh
kernel_list=scripts/buildroot/kernels
. scripts/buildroot/releases.sh
series=$(series_of "$release")

# skip REASON [HINT...]
skip() {
	mkdir -p "$state"
	printf '%s\n' "$@" >"$state/$release"
	echo "skipped, because:"
	printf '%s\n' "$@"
	exit 77
}

# An error of another script: its words without "error: " and what is indented by that.
skip_with() { skip "$(echo "$1" | sed '1s/^error: //; s/^       //')"; }

version_of() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null; }

# Packages that are unpacked will do: their files are there, and the package manager may come to them only after this kernel.
has_package() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qE '^(installed|unpacked|half-configured|triggers-.*)$'; }

compilers() {
	local command major
	command=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$headers/.config")
	major=$(sed -n 's/^CONFIG_GCC_VERSION=\([0-9]*\)[0-9]\{4\}$/\1/p' "$headers/.config")
	command -v "$command" >/dev/null || skip "the kernel was compiled by $command, which is not installed"
	[ -z "$major" ] || [ "$("$command" -dumpversion | cut -d. -f1)" = "$major" ] ||
		skip "the kernel was compiled by gcc $major, and $command is gcc $("$command" -dumpversion)"
	command -v bindgen >/dev/null || skip "bindgen is not installed"
	said=$(scripts/compiler.sh "$headers/.config" 2>&1) || skip_with "$said"
}

# Whether the metadata in tree $1 is that of the headers which are installed now.
belongs() {
	[ -e "$1/rust/exported" ] &&
		awk -F'\t' '$2 ~ /^_R/ { print $2 }' "$headers/Module.symvers" | LC_ALL=C sort -u | cmp -s - "$1/rust/exported"
}

# Prints what apt is to install. These two must be of the version of their library, which came with a kernel from backports, while apt would
# take the older ones.
wanted() {
	local library
	library=$(case $1 in libelf-dev) version_of libelf1t64 ;; libdw-dev) version_of libdw1t64 ;; esac)
	echo "$1${library:+=$library}"
}

# Makes the tree $1 out of the kernel's source.
make_tree() {
	local version source missing free
	version=$(version_of "linux-headers-$release")
	[ -n "$version" ] || skip "its Rust metadata is missing, and its headers are no package of Debian's, to make it from" \
		"A kernel of your own has the metadata in the directory where it was built; build for it with make KDIR=."
	source=$(version_of "linux-source-$series")
	[ "$source" = "$version" ] || skip \
		"its Rust metadata is missing, and its source is not there to make it from: $(
			if [ -n "$source" ]; then echo "linux-source-$series is of version $source, the kernel of $version"
			else echo "linux-source-$series is not installed"; fi)" \
		"Install linux-rust-metadata-$release, or: apt install linux-source-$series=$version"
	missing=
	for package in rust-src bc flex bison pahole python3 xz-utils libelf-dev libssl-dev libdw-dev libc6-dev; do
		has_package "$package" || missing="$missing $(wanted "$package")"
	done
	[ -z "$missing" ] || skip "its Rust metadata is missing, and so are packages to make it: apt install$missing" \
		"Or install linux-rust-metadata-$release."
	mkdir -p "$cache"
	free=$(df --output=avail -k "$cache" | tail -n 1)
	[ "$free" -ge 2000000 ] || skip "its Rust metadata is missing, and to make it takes 2 GB in $cache, where $((free / 1000)) MB are free"

	rm -rf "$1" "$1.tmp"
	mkdir "$1.tmp"
	if scripts/buildroot/metadata.sh "$release" "$1.tmp" >"$1.tmp/log" 2>&1 &&
		scripts/packaging/kernel-tree.sh "$release" "$1.tmp/build" "$1.tmp/tree"; then
		mv "$1.tmp/tree" "$1"
		rm -r "$1.tmp"
	else
		mkdir -p "$state"
		mv "$1.tmp/log" "$state/$release.log"
		rm -r "$1.tmp"
		skip "its Rust metadata could not be made: $(grep -E '^error: ' "$state/$release.log" | sed '1q;s/^error: //' || true)" \
			"The log is $state/$release.log"
	fi
}

said=$(scripts/supported.sh "$headers") || skip "$said"
# The compilers are this machine's own.
machine=$(architectures | awk -v name="$(configured_for "$headers/.config")" '$1 == name { print $2 }')
[ "$(uname -m)" = "$machine" ] || skip "this machine is $(uname -m), and the kernel is for $machine"
# DKMS would take such a file for the kernel's own module, and put it back when it is removed.
left=
for file in /lib/modules/"$release"/updates/rpcrdma.ko* /lib/modules/"$release"/updates/iwarp.ko*; do
	[ ! -e "$file" ] || left="$left $file"
done
[ -z "$left" ] || skip "what \`make modules_install\` left is in the way:$left" "rm$left && depmod $release && dkms autoinstall -k $release"
said=$(scripts/vendor.sh "$release" 2>&1) || skip_with "$said"
compilers

if [ -e "$headers/rust/libkernel.rmeta" ]; then
	tree=$headers
elif belongs "/usr/lib/linux-rust-metadata/$release"; then
	tree=/usr/lib/linux-rust-metadata/$release
else
	tree=$cache/$release
	belongs "$tree" || make_tree "$tree"
	belongs "$tree" || skip "the Rust metadata that was made is not the kernel's"
fi

llvm=
if grep -q '^CONFIG_CC_IS_CLANG=y' "$headers/.config"; then llvm=LLVM=1; fi
mkdir -p "$state"
# shellcheck disable=SC2086 # no word if there is nothing
if ! make -C "$tree" M="$PWD" $llvm -j"$(nproc)" modules >"$state/$release.log" 2>&1; then
	cat "$state/$release.log"
	skip "it does not compile for this kernel" "The log is $state/$release.log"
fi
cat "$state/$release.log"
rm -f "$state/$release" "$state/$release.log"
rmdir --ignore-fail-on-non-empty "$state"
