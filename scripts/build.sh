#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh buildroot|module [MAKE-ARGUMENT...]: makes sure of the build root, then builds the modules in it. With KERNEL= those are
# the modules for that kernel (scripts/testkernel/build.sh), in a directory of build/ that has its name.

. "$(dirname "$0")/lib.sh"

"$top/scripts/buildroot.sh"
[ "$1" = module ] || exit 0
shift

mkdir -p "$top/build"
exec 9>"$top/build/lock"
flock 9
log=$top/build/module.log built=$top
make=(make -s -C /kernel/source O=/kernel/build M=/src CC=x86_64-linux-gnu-gcc-14 -j"$(nproc)" modules)
if [ -n "${KERNEL:-}" ]; then built=$top/build/$KERNEL make=(scripts/build-copy.sh "$KERNEL"); fi
[ -n "${KERNEL:-}" ] || "$top/scripts/objects.sh" "$top" "$(basename "$(kernel_dir "$(root_dir)")")"
stage "modules: compiling"
"$top/scripts/enter" "${make[@]}" "$@" >"$log" 2>&1 || { cat "$log" >&2; die "the modules do not compile; the log is $log"; }
grep -v "^Skipping BTF" "$log" >&2 || true
stage "modules: $built/rpcrdma.ko, $built/iwarp.ko"
