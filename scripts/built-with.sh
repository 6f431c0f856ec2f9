#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# built-with.sh CONFIG: prints the variables that tell make for which architecture, and by which compiler, the kernel was built whose
# configuration is CONFIG. Modules for it are built with the same.

set -eu
config=$1
# shellcheck disable=SC2034 # for releases.sh
kernel_list=$(dirname "$0")/buildroot/kernels
. "$(dirname "$0")/buildroot/releases.sh"

if grep -q '^CONFIG_UML=y' "$config"; then
	# clang warns of a header of the kernel's there (include/asm-generic/io.h).
	echo ARCH=um KCFLAGS=-Wno-null-pointer-arithmetic
else
	name=$(configured_for "$config") || { echo "error: the kernel is for none of: $(architectures | cut -f1 | xargs)" >&2; exit 1; }
	echo "ARCH=$(architectures | awk -v name="$name" '$1 == name { print $3 }')"
fi
if grep -q '^CONFIG_CC_IS_CLANG=y' "$config"; then
	echo LLVM=1
else
	compiler=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$config")
	echo "CC=$compiler" "CROSS_COMPILE=${compiler%gcc*}"
	# What the kernel gives to 32-bit processes of arm64 takes a compiler of its own.
	if grep -q '^CONFIG_COMPAT_VDSO=y' "$config" && grep -q '^CONFIG_ARM64=y' "$config"; then
		compat=arm-linux-gnueabihf-gcc${compiler##*gcc}
		echo "CROSS_COMPILE_COMPAT=arm-linux-gnueabihf-" "CC_COMPAT=$compat"
		# No module needs it. The configuration stays as it is, but make leaves that part out.
		command -v "$compat" >/dev/null || echo CONFIG_COMPAT_VDSO=
	fi
fi
