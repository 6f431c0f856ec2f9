#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel's own soft iWARP, which Debian leaves out, for the stock kernel: build/siw/siw.ko, for VMs with RDMA=siw. It is
# another implementation for our devices and clients to talk to, and no part of what this project installs. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."
release=$(cat /kernel/build/include/config/kernel.release)
series=$(cut -d. -f1,2 /etc/rpcrdma/kver)
copy=build/siw siw=drivers/infiniband/sw/siw

[ "$(cat "$copy/.built-for" 2>/dev/null)" != "$release" ] || exit 0
rm -rf "$copy"
mkdir -p "$copy"
tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$copy" --strip-components=5 "linux-source-$series/$siw"
built_with=$(scripts/built-with.sh /kernel/build/.config)
# shellcheck disable=SC2086 # words are variables
make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" CONFIG_RDMA_SIW=m $built_with -j"$(nproc)" modules
printf '%s\n' "$release" >"$copy/.built-for"
