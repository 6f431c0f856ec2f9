#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# supported.sh KDIR: fails for a kernel that this project's modules cannot be built for, and prints the reason. KDIR has the
# kernel's headers, or is the directory where it was built.

set -u
here=$(dirname "$0") kdir=$1

refuse() { echo "$1"; exit 1; }

# shellcheck disable=SC2034 # for releases.sh
kernel_list=$here/buildroot/kernels
. "$here/buildroot/releases.sh"
oldest=$(oldest_series)

[ -e "$kdir/Makefile" ] || refuse "there are no kernel headers at $kdir"
release=$(cat "$kdir/include/config/kernel.release" 2>/dev/null) || refuse "the kernel at $kdir is not configured"
grep -qs '^CONFIG_RUST=y' "$kdir/.config" || refuse "kernel $release at $kdir is built without CONFIG_RUST"
configured_for "$kdir/.config" >/dev/null ||
	refuse "kernel $release at $kdir is for none of the architectures that this project knows: $(architectures | cut -f1 | xargs)"
for option in SUNRPC INFINIBAND INFINIBAND_ADDR_TRANS; do
	grep -qs "^CONFIG_$option=[ym]" "$kdir/.config" || refuse "kernel $release at $kdir is built without CONFIG_$option"
done
[ "$(printf '%s\n' "$oldest" "$(series_of "$release")" | sort -V | head -n 1)" = "$oldest" ] || refuse "kernel $release at $kdir is too old"
