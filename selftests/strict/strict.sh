#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# strict.sh [KERNEL-]strict: builds the strict device (README.md) from the kernel's own rxe and the files here, for the kernel of the build
# root: build/[KERNEL-]strict/rdma_rxe.ko. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."
copy=build/$1 rxe=drivers/infiniband/sw/rxe

for option in ARCH_HAS_DMA_OPS NEED_SG_DMA_LENGTH; do
	grep -q "^CONFIG_$option=y" /kernel/build/.config ||
		{ echo "error: devices cannot have DMA operations of their own in a kernel without CONFIG_$option" >&2; exit 1; }
done
# A kernel of scripts/testkernel has changes of its own.
source_of=$(cat /kernel/build/include/config/kernel.release; cat "/kernel/source/$rxe"/*.[ch] 2>/dev/null | sha256sum || true)
if [ "$(cat "$copy/.source-of" 2>/dev/null)" != "$source_of" ]; then
	rm -rf "$copy"
	mkdir -p "$copy"
	if [ -e "/kernel/source/$rxe/rxe.c" ]; then
		cp "/kernel/source/$rxe"/* "$copy"
	else
		series=$(cut -d. -f1,2 /etc/rpcrdma/kver)
		tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$copy" --strip-components=5 "linux-source-$series/$rxe"
	fi
	printf '%s\n' "$source_of" >"$copy/.source-of"
fi
cp -u selftests/strict/{Kbuild,*.[ch]} "$copy"
built_with=$(scripts/built-with.sh /kernel/build/.config)
# shellcheck disable=SC2086 # words are variables
exec make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" $built_with CONFIG_RDMA_RXE=m -j"$(nproc)" modules
