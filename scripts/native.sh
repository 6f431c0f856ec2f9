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

kernel_list=$here/buildroot/kernels
. "$here/buildroot/releases.sh"
oldest=$(oldest_series)

reason=$("$here/supported.sh" "$kdir") || refuse "$reason"
release=$(cat "$kdir/include/config/kernel.release")
[ -e "$kdir/rust/libkernel.rmeta" ] || refuse "kernel $release at $kdir comes without Rust metadata (rust/libkernel.rmeta)"

"$here/compiler.sh" "$kdir/rust/libkernel.rmeta" || exit
"$here/vendor.sh" "$release" || exit

# A kernel of one's own may be named in any way.
flavour=$(flavour_of "$release")
if grep -q '^CONFIG_PREEMPT_RT=y' "$kdir/.config"; then flavour=rt; fi
if grep -q '^CONFIG_ARM64_16K_PAGES=y' "$kdir/.config"; then flavour=16k; fi
tried "$release" "$flavour" "$(configured_for "$kdir/.config")" || untried "$release" >&2

"$here/objects.sh" "$here/.." "$kdir $release"
