#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if a structure of the bindings is not laid out as C lays it out. Runs in the build root, and is about its kernel.
#
# bindgen writes for each structure what clang says of its size, its alignment and its fields, and compiling that compares it
# with what rustc makes of it. A structure that Rust cannot express must be opaque (include/bindgen_parameters): what is wrong and used
# by nobody today may be used tomorrow.

set -euo pipefail
cd "$(dirname "$0")/.."
log=build/layout.log
mkdir -p build

if RPCRDMA_TARGET=rust/cbindings/lib.o scripts/build-copy.sh layout RPCRDMA_LAYOUT_TESTS=1 >"$log" 2>&1; then
	tests=$(grep -cE '^ *\["(Size|Alignment|Offset) of ' build/layout/rust/cbindings/bindings_generated.rs)
	[ "$tests" -gt 0 ] || { echo "error: bindgen wrote no layout tests" >&2; exit 1; }
	echo "$tests layout tests hold for kernel $(cat /kernel/build/include/config/kernel.release)"
	exit
fi
wrong=$(grep -oE '(size_of|align_of)::<[^>]*>|offset_of!\([^)]*\)' "$log" | sort -u) || true
[ -n "$wrong" ] || { cat "$log" >&2; exit 1; }
echo "error: these are not what C makes of them; the log is $log" >&2
echo "$wrong" >&2
exit 1
