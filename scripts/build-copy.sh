#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build-copy.sh NAME [MAKE-ARGUMENT...]: builds the modules from a copy of its sources in build/NAME, with the compiler of the
# kernel that it is for. Runs in the build root. The objects of builds that differ do not chase each other that way.
# RPCRDMA_TARGET=  objects to make instead of the modules

set -euo pipefail
cd "$(dirname "$0")/.."
copy=build/$1
shift

mkdir -p "$copy"
find Kbuild include rust -name '*_generated.rs' -prune -o \( -name Kbuild -o -name '*.rs' -o -name '*.[ch]' -o -name '*parameters' \) \
	-print | cpio -pdm --quiet "$copy" 2>/dev/null
scripts/objects.sh "$copy" "$(cat /kernel/build/include/config/kernel.release /etc/rpcrdma/toolchain | sha256sum)"
built_with=$(scripts/built-with.sh /kernel/build/.config)
# shellcheck disable=SC2086 # words are variables, and objects
exec make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" $built_with -j"$(nproc)" "$@" ${RPCRDMA_TARGET:-modules}
