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
if [ -n "${KERNEL:-}" ]; then
	built=$top/build/$KERNEL make=(scripts/build-copy.sh "$KERNEL")
else
	kernel=$(kernel_dir "$(root_dir)")
	built_with=$("$top/scripts/built-with.sh" "$kernel/build/.config")
	# shellcheck disable=SC2206 # one word is one variable
	make=(make -s -C /kernel/source O=/kernel/build M=/src $built_with -j"$(nproc)" modules)
	"$top/scripts/objects.sh" "$top" "$(basename "$kernel")"
fi
stage "modules: compiling"
"$top/scripts/enter" "${make[@]}" "$@" >"$log" 2>&1 || { cat "$log" >&2; die "the modules do not compile; the log is $log"; }
grep -v "^Skipping BTF" "$log" >&2 || true
stage "modules: $built/rpcrdma.ko, $built/iwarp.ko"
