#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# native.sh KDIR: says plainly why a module in Rust cannot be built for a kernel, before rustc says it at length, and warns of
# a kernel that nobody has tried.

set -u
here=$(dirname "$0") kdir=$1

refuse() {
	cat >&2 <<END
error: $1

This module needs a kernel of series $oldest or newer, with CONFIG_RUST=y, sunrpc and RDMA (CONFIG_INFINIBAND), and the Rust
metadata that the kernel's build leaves in its rust/ directory. Ways to get that:
  * make module KVER=...              builds for a stock kernel of Debian in a build root, rebuilding that metadata
  * make KDIR=/path/to/kernel/build   builds for a kernel that you built yourself with CONFIG_RUST=y
END
	exit 1
}

tried=$(grep -v '^#' "$here/buildroot/series")
oldest=$(echo "$tried" | sort -V | head -n 1)

[ -e "$kdir/Makefile" ] || refuse "there are no kernel headers at $kdir"
release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null) || refuse "the kernel at $kdir is not configured"
series=$(echo "$release" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/')
grep -qs '^CONFIG_RUST=y' "$kdir/.config" || refuse "kernel $release at $kdir is built without CONFIG_RUST"
for option in SUNRPC INFINIBAND INFINIBAND_ADDR_TRANS; do
	grep -qs "^CONFIG_$option=[ym]" "$kdir/.config" || refuse "kernel $release at $kdir is built without CONFIG_$option"
done
[ "$(printf '%s\n' "$oldest" "$series" | sort -V | head -n 1)" = "$oldest" ] || refuse "kernel $release at $kdir is too old"
[ -e "$kdir/rust/libkernel.rmeta" ] || refuse "kernel $release at $kdir comes without Rust metadata (rust/libkernel.rmeta)"

"$here/compiler.sh" "$kdir/rust/libkernel.rmeta" || exit
"$here/vendor.sh" "$release" || exit

echo "$tried" | grep -qxF "$series" ||
	echo "warning: nobody has tried this project with kernel $release yet (tried series: $(echo "$tried" | xargs))" >&2

"$here/objects.sh" "$here/.." "$kdir $release"
