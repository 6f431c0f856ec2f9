#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# self-made.sh: builds the modules for a kernel that was built on this machine, as docs/install.md says, from a copy of the checkout in
# build/self-made. Runs in the build root; the kernel is that of /kernel/build, with KERNEL=debug one that clang has built.

set -euo pipefail
cd "$(dirname "$0")/../.."
. selftests/packages/document.sh
copy=build/self-made kdir=/kernel/build only='/LLVM=1/d'
if grep -q '^CONFIG_CC_IS_CLANG=y' "$kdir/.config"; then only='/LLVM=1/!d'; fi

rm -rf "$copy"
mkdir -p "$copy"
git -c safe.directory="$PWD" ls-files -z | xargs -0 cp --parents -t "$copy"
command=$(block 'A kernel that you built yourself' 1 | sed "$only; s| KDIR=[^ ]*| KDIR=$kdir|")
cd "$copy"
echo "$command"
bash -ec "$command" 2>&1 | tee log
# Debian has built the stock kernel with the same compiler by another name, which Kbuild warns of.
if grep -n warning log | grep -v 'warning: the compiler differs from the one used to build the kernel'; then exit 1; fi
for module in rpcrdma iwarp; do
	modinfo -F vermagic "$PWD/$module.ko" | grep -F "$(cat "$kdir/include/config/kernel.release") "
done
