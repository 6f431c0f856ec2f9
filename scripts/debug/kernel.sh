#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside the build root: makes in /kernel a debug kernel from the source that belongs to the stock one. What of it is
# built in and what is a module stands in `config`.
#
#   /kernel/source, /kernel/build  as those of the stock kernel
#   /kernel/install                its image and its modules, as a root would have them
#
# The compiler is clang: KASAN and Rust go together with no other.

set -euo pipefail
config=$(dirname "$0")/config
series=$(cut -d. -f1,2 /etc/rpcrdma/kver)
source=/kernel/source build=/kernel/build

kbuild() { make -C "$source" O="$build" ARCH=x86_64 LLVM=1 "$@"; }

# These two directories are half of the source, and the debug kernel uses neither.
mkdir -p "$source" "$build"
tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$source" --strip-components=1 \
	--exclude='*/sound/*.[ch]' --exclude='*/drivers/gpu/*.[ch]'

sed 's/^#? //' "$config" >"$build/wanted"
kbuild KCONFIG_ALLCONFIG="$build/wanted" allnoconfig
lost=$(grep '^CONFIG_' "$config" | grep -vxFf "$build/.config" || true)
[ -z "$lost" ] || { printf 'error: this kernel has no such setting, or what it depends on is off:\n%s\n' "$lost" >&2; exit 1; }

kbuild -j"$(nproc)" bzImage modules
release=$(cat "$build/include/config/kernel.release")
kbuild INSTALL_MOD_PATH=/kernel/install modules_install
cp "$build/arch/x86/boot/bzImage" "/kernel/install/lib/modules/$release/vmlinuz"
# Objects that went into others; a module build needs none of them.
find "$build" -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete
echo "debug kernel $release"
