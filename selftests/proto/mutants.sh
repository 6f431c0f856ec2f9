#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Changes rust/proto in every way that cargo-mutants knows, one at a time, and asks the tests to notice.
#
#   selftests/proto/mutants.sh [ARGUMENTS OF cargo mutants]     for instance: --file src/credit.rs, --shard 1/8
#
# cargo-mutants changes only what lies below the package, so a copy is put together where it does. What it found is in
# build/mutants/mutants.out.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
work=$top/build/mutants
rm -rf "$work/tree"
mkdir -p "$work/tree"
cp -r "$top/rust/proto" "$work/tree/src"
cp -r "$here/tests" "$here/Cargo.lock" "$work/tree"
sed 's|\.\./\.\./rust/proto/|src/|' "$here/Cargo.toml" >"$work/tree/Cargo.toml"

cd "$work/tree"
cargo mutants --output "$work" --timeout 120 "$@"
