#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh buildroot|module|peer [MAKE-ARGUMENT...]: makes sure of the build root, then builds the modules in it. With KERNEL= those are
# the modules for that kernel (scripts/testkernel/build.sh), in a directory of build/ that has its name. `peer` is for the kernel that
# PEER_KVER names, which the server of a pair of VMs has: its modules are in build/kernel-RELEASE.

. "$(dirname "$0")/lib.sh"

what=$1
shift
if [ "$what" = peer ]; then export KVER=${PEER_KVER:?}; fi
# Nothing here is about a pair.
unset PEER_KVER
"$top/scripts/buildroot.sh"
[ "$what" != buildroot ] || exit 0

mkdir -p "$top/build"
exec 9>"$top/build/lock"
flock 9
log=$top/build/module.log built=$top
if [ "$what" = peer ]; then
	name=kernel-$(cat "$(root_dir)/etc/rpcrdma/kver")
	built=$top/build/$name make=(scripts/build-copy.sh "$name")
elif [ -n "${KERNEL:-}" ]; then
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
