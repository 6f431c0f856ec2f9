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
built_with=$(scripts/built-with.sh /kernel/build/.config)
# shellcheck disable=SC2086 # words are variables
exec make -s -C /kernel/source O=/kernel/build "M=$PWD/$copy" $built_with -j"$(nproc)" modules
