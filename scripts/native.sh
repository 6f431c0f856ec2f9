#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# native.sh KDIR: says plainly why a kernel's headers cannot build a module in Rust, before rustc says it at length.

kdir=$1

refuse() {
	cat >&2 <<END
error: $1

A module in Rust needs the metadata that the kernel's build leaves in its rust/ directory. Ways to get it:
  * make module                       builds for Debian's stock kernel in a build root, rebuilding that metadata
  * make KDIR=/path/to/kernel/build   builds for a kernel that you built yourself with CONFIG_RUST=y
END
	exit 1
}

[ -e "$kdir/Makefile" ] || refuse "there are no kernel headers at $kdir"
grep -qs '^CONFIG_RUST=y' "$kdir/.config" || refuse "the kernel at $kdir is built without CONFIG_RUST"
[ -e "$kdir/rust/libkernel.rmeta" ] || refuse "the kernel at $kdir comes without Rust metadata (rust/libkernel.rmeta)"
