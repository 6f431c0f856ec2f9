#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh debug|rt-debug|uml|uml-debug: runs inside the build root, and makes in /kernel a kernel from the source that belongs to the
# stock one.
#
#   debug      for QEMU, with what finds faults
#   rt-debug   the same with PREEMPT_RT
#   uml        for User-Mode Linux, which runs as a process; for measurements
#   uml-debug  for User-Mode Linux, with what finds faults
#
# rxe.patch mends faults of rxe that tests meet on two CPUs or under load; uml/*.patch is what User-Mode Linux needs.
#
#   /kernel/source, /kernel/build  as those of the stock kernel
#   /kernel/install                its image and its modules, as a root would have them
#
# The compiler is clang: KASAN and Rust go together with no other.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
series=$(cut -d. -f1,2 /etc/rpcrdma/kver)
source=/kernel/source build=/kernel/build
case $1 in
debug) arch=x86_64 configs=(common qemu debug) targets=(bzImage modules) image=arch/x86/boot/bzImage file=vmlinuz ;;
rt-debug) arch=x86_64 configs=(common qemu debug rt) targets=(bzImage modules) image=arch/x86/boot/bzImage file=vmlinuz ;;
uml) arch=um configs=(common uml plain) targets=(linux modules) image=linux file=linux ;;
uml-debug) arch=um configs=(common uml debug) targets=(linux modules) image=linux file=linux ;;
*) echo "error: there is no kernel called $1" >&2; exit 1 ;;
esac

kbuild() { make -C "$source" O="$build" ARCH="$arch" LLVM=1 "$@"; }

# These two directories are half of the source, and none of these kernels uses them.
mkdir -p "$source" "$build"
tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$source" --strip-components=1 \
	--exclude='*/sound/*.[ch]' --exclude='*/drivers/gpu/*.[ch]'
changes=("$here"/*.patch)
if [ "$arch" = um ]; then changes+=("$here"/uml/*.patch); fi
for change in "${changes[@]}"; do patch -d "$source" -p1 --no-backup-if-mismatch <"$change"; done

{
	echo "CONFIG_LOCALVERSION=\"-$1\""
	for config in "${configs[@]}"; do cat "$here/config/$config"; done
} >"$build/wanted"
sed 's/^#? //' "$build/wanted" >"$build/wanted-if-known"
kbuild KCONFIG_ALLCONFIG="$build/wanted-if-known" allnoconfig
lost=$(grep '^CONFIG_' "$build/wanted" | grep -vxFf "$build/.config" || true)
[ -z "$lost" ] || { printf 'error: this kernel has no such setting, or what it depends on is off:\n%s\n' "$lost" >&2; exit 1; }

kbuild -j"$(nproc)" "${targets[@]}"
release=$(cat "$build/include/config/kernel.release")
kbuild INSTALL_MOD_PATH=/kernel/install modules_install
cp "$build/$image" "/kernel/install/lib/modules/$release/$file"
# Objects that went into others; a module build needs none of them.
find "$build" -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete
echo "$1 kernel $release"
