#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# foreign.sh KVER: makes sure of what a package of metadata has for a kernel of another architecture than this machine's, and prints the
# directory: a tree as kernel-tree.sh makes it.
#
# The metadata of the build root are none for that: beside them are procedural macros, which rustc loads into itself, so those are for this
# machine, and the metadata of crates that use them have their hashes in them. Here the other architecture's own rustc builds these again,
# in a copy of what the build root has. It runs in an emulator of a process, so nothing has to be registered with this machine.

. "$(dirname "$0")/../lib.sh"

here=$top/scripts/packaging
roots=$cache/packaging
log=$roots/foreign.log
. "$top/scripts/base.sh"

export KVER=$1
architecture=$(architecture_of "$KVER")
machine=$(architectures | awk -v name="$architecture" '$1 == name { print $2 }')
"$top/scripts/buildroot.sh"
root=$(root_dir)
release=$(cat "$root/etc/rpcrdma/kver")
rustc=$roots/rustc-$architecture-$(cat "$here"/{clean,download,rustc}.sh | digest)
tree=$roots/tree-$release-$({ KERNEL='' kernel_dir "$root" && cat "$here"/{clean,download,rustc,kernel-tree,foreign}.sh; } | digest)

make_rustc() {
	local tmp=$roots/unfinished.rustc clean
	clean=$("$here/roots.sh" clean)
	stage "rustc for $architecture, and what emulates it"
	mkdir "$tmp"
	# shellcheck disable=SC2016 # the inner shell expands its own arguments
	ROOT_DIR=$clean KERNEL_DIR=$tmp "$top/scripts/enter" bash -ec '
		architecture=$1 machine=$2
		# rustc asks for a linker of its own architecture, too.
		scripts/packaging/download.sh "$architecture" /kernel/packages libstd-rust-dev rustc
		scripts/packaging/download.sh amd64 /kernel/emulator.packages "" qemu-user
		mkdir -p /kernel/bin /kernel/root/usr/lib
		ln -s usr/lib /kernel/root/lib
		for package in /kernel/packages/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -xC /kernel/root --keep-directory-symlink; done
		dpkg-deb --fsys-tarfile /kernel/emulator.packages/*.deb | tar -xO "./usr/bin/qemu-$machine" >/kernel/emulator
		chmod +x /kernel/emulator
		cp scripts/packaging/rustc.sh /kernel/bin/rustc
		rm -r /kernel/packages /kernel/emulator.packages
	' rustc "$architecture" "$machine" >"$log" 2>&1 || failed "could not unpack rustc for $architecture"
	mv -T "$tmp" "$rustc"
}

make_tree() {
	local tmp=$roots/unfinished.tree kernel
	kernel=$(KERNEL='' kernel_dir "$root")
	stage "Rust metadata of kernel $release, by the rustc of $architecture"
	mkdir "$tmp"
	# They appear where they are in the build root, as make compares paths.
	in_namespace cp -al "$rustc" "$tmp/rustc"
	in_namespace cp -al "$kernel/source" "$tmp/source"
	in_namespace cp -a "$kernel/build" "$tmp/build"
	# shellcheck disable=SC2016
	KERNEL_DIR=$tmp "$top/scripts/enter" nice bash -ec '
		headers=/usr/src/linux-headers-$1
		built_with=$(scripts/built-with.sh "$headers/.config")
		export CROSS_COMPILE PATH=/kernel/rustc/bin:$PATH
		CROSS_COMPILE=$(tr " " "\n" <<<"$built_with" | sed -n "s/^CROSS_COMPILE=//p")
		rustc --version --verbose
		rm -r /kernel/build/rust/host /kernel/build/rust/*.so
		make -C /kernel/source O=/kernel/build $built_with HOSTCC=gcc-14 -j"$(nproc)" modules_prepare
		scripts/packaging/kernel-tree.sh "$1" /kernel/build /kernel/tree
		awk -F"\t" "\$2 ~ /^_R/ { print \$2 }" "$headers/Module.symvers" | LC_ALL=C sort -u | cmp - /kernel/tree/rust/exported ||
			{ echo "error: the exported Rust symbols are not those of the kernel image"; exit 1; }
	' tree "$release" >"$log" 2>&1 || failed "the metadata of kernel $release could not be made"
	mv -T "$tmp/tree" "$tree"
	remove "$tmp"
}

mkdir -p "$roots"
exec 9>"$roots/foreign.lock"
flock 9
if [ ! -d "$tree" ]; then
	check_machine
	# roots.sh, which may run meanwhile, removes what is called tmp.
	remove "$roots"/unfinished.{rustc,tree}
	trap 'remove "$roots"/unfinished.{rustc,tree}' EXIT
	check_space 4 "rustc for $architecture, and the metadata that it makes,"
	if [ ! -d "$rustc" ]; then make_rustc; fi
	make_tree
fi
echo "$tree"
