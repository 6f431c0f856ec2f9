#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rtrs.sh [KERNEL-]rtrs: builds the kernel's own rtrs and rnbd, block devices over RDMA, which Debian leaves out, for the kernel of the
# build root: build/[KERNEL-]rtrs/{rtrs,rnbd}/*.ko. They are consumers of RDMA Write with Immediate Data that nobody here wrote, and no
# part of what this project installs. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."
release=$(cat /kernel/build/include/config/kernel.release)
series=$(cut -d. -f1,2 /etc/rpcrdma/kver)
copy=build/$1 drivers=linux-source-$series/drivers

[ "$(cat "$copy/.built-for" 2>/dev/null)" != "$release" ] || exit 0
rm -rf "$copy"
mkdir -p "$copy"
tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$copy" --transform='s,.*/\(rtrs\|rnbd\)/,\1/,' --show-transformed-names \
	"$drivers/infiniband/ulp/rtrs" "$drivers/block/rnbd"
rm -rf "${copy:?}/linux-source-$series"
echo 'obj-y := rtrs/ rnbd/' >"$copy/Kbuild"
built_with=$(scripts/built-with.sh /kernel/build/.config)
flags=$(sed -n 's/.*\bKCFLAGS=//p' <<<"$built_with")" -I$PWD/$copy/rtrs"
options=()
for option in INFINIBAND_RTRS INFINIBAND_RTRS_CLIENT INFINIBAND_RTRS_SERVER BLK_DEV_RNBD_CLIENT BLK_DEV_RNBD_SERVER; do
	options+=("CONFIG_$option=m")
done
# shellcheck disable=SC2086 # words are variables
make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" $built_with KCFLAGS="$flags" "${options[@]}" -j"$(nproc)" modules
printf '%s\n' "$release" >"$copy/.built-for"
