#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# consumer.sh [KERNEL-]consumer: builds a consumer of kernel verbs for the tests of atomic operations and immediate data
# (selftests/vm/iwarp-rfc7306.sh), for the kernel of the build root: build/[KERNEL-]consumer/consumer.ko. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."
copy=build/$1

mkdir -p "$copy"
cp -u selftests/iwarp/consumer/* "$copy"
compiler=(CC=x86_64-linux-gnu-gcc-14)
if grep -q '^CONFIG_CC_IS_CLANG=y' /kernel/build/.config; then compiler=(LLVM=1); fi
if grep -q '^CONFIG_UML=y' /kernel/build/.config; then compiler+=(ARCH=um KCFLAGS=-Wno-null-pointer-arithmetic); fi
exec make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" "${compiler[@]}" -j"$(nproc)" modules
