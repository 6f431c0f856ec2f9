#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Changes rust/proto in every way that cargo-mutants knows, one at a time, and asks the tests to notice.
#
#   selftests/proto/mutants.sh [ARGUMENTS OF cargo mutants]     for instance: --file src/credit.rs, --shard 1/8
#
# cargo-mutants changes only what lies below the package, so a copy is put together where it does, and is changed in
# place: what did not change is not compiled again. What it found is in build/mutants/mutants.out. Fails if a mutant
# lives.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
work=$top/build/mutants
mkdir -p "$work/tree"
rm -rf "$work/tree/src" "$work/tree/tests"
cp -r "$top/rust/proto" "$work/tree/src"
cp -r "$here/tests" "$here/Cargo.lock" "$work/tree"
sed 's|\.\./\.\./rust/proto/|src/|' "$here/Cargo.toml" >"$work/tree/Cargo.toml"

# The tool, of the newest version that Debian's cargo can build, once for all checkouts.
version=26.0.0
tools=${CARGO_HOME:-$HOME/.cargo}/mutants-$version
[ -x "$tools/bin/cargo-mutants" ] || cargo install --quiet --locked --root "$tools" --version "$version" cargo-mutants
PATH=$tools/bin:$PATH

# Hundreds of small builds: nothing that a test does is worth optimising for. A test that only looks for panics in
# millions of messages is left out, which can but leave more mutants alive.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_CASES=64
cd "$work/tree"
cargo test --quiet --locked -- --skip flipped_bits

# A mutant that never ends is noticed by the time it computes, which says the same on a busy machine.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='prlimit --cpu=20'
# No bit is set on both sides of the operators left out, so another one does the same.
cargo mutants --in-place --baseline=skip --timeout 1200 --output "$work" \
	--exclude-re 'replace \| with \^ in (pair|quad)$' "$@" -- -- --skip flipped_bits
