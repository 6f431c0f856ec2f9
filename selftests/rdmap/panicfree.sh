#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if the crate rdmap can panic, as scripts/panicfree.sh does for an object that Kbuild made. No module has this crate
# yet, so the object is made here, with the flags of the kernel that matter: optimised, and with overflow checks.

set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$top/build/rdmap/panicfree
mkdir -p "$work"
rustc --edition 2021 --crate-name rdmap --crate-type lib -Copt-level=2 -Coverflow-checks=on -Cpanic=abort \
	-Ccodegen-units=1 -Cembed-bitcode=no --emit=obj="$work/lib.o" "$top/rust/rdmap/lib.rs"
"$top/scripts/panicfree.sh" "$work/lib.o"
