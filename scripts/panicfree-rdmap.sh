#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if the crate rdmap can panic, as scripts/panicfree.sh does for an object that Kbuild made. Generic code is only in
# an object that uses it: rust/rdmap/tests/panicfree.rs does, compiled as one more module of the crate. So the object is
# made here, with the flags of the kernel that matter: optimised, and with overflow checks.

set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
work=$top/build/panicfree
rm -rf "$work"
mkdir -p "$work"
cp -r "$top/rust/rdmap" "$work/src"
cp "$work/src/tests/panicfree.rs" "$work/src"
echo 'pub mod panicfree;' >>"$work/src/lib.rs"
rustc --edition 2021 --crate-name rdmap --crate-type lib -Copt-level=2 -Coverflow-checks=on -Cpanic=abort \
	-Ccodegen-units=1 --emit=obj="$work/lib.o" "$work/src/lib.rs"
"$top/scripts/panicfree.sh" "$work/lib.o"
