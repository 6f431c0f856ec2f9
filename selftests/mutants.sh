#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Changes a crate in every way that cargo-mutants knows, one at a time, and asks the host tests to notice.
#
#   selftests/mutants.sh proto|rdmap|uabi [ARGUMENTS OF cargo mutants]     for instance: --file rust/proto/credit.rs, --shard 1/8
#
# A copy of the workspace is changed in place: what did not change is not compiled again. What it found is in
# build/mutants/CRATE/mutants.out. Fails if a mutant lives.

set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
crate=${1:?usage: mutants.sh proto|rdmap|uabi [ARGUMENTS OF cargo mutants]}
shift
# Tests that only look for panics in millions of messages, that run the model without end, or that start another program
# are left out, which can but leave more mutants alive.
case $crate in
proto)
	skip=(flipped_bits)
	# No bit is set on both sides of the operators left out, so another one does the same.
	same=(--exclude-re 'replace \| with \^ in (pair|quad)$')
	;;
rdmap)
	skip=(planted oracle)
	# Fields of a header stand beside each other, and so do the two parts of a number that a mask divides: no bit is set on both sides
	# of the operators left out.
	same=(--exclude-re 'replace \| with \^ in ((Enhanced|Header|Terminate|Frame<.a>)::emit|Atomic::apply)$')
	export SCHEDULES=200
	;;
uabi)
	skip=()
	same=()
	;;
*) echo "no such crate: $crate" >&2; exit 2 ;;
esac
skip=("${skip[@]/#/--skip=}")

work=$top/build/mutants/$crate
rm -rf "$work/tree"
mkdir -p "$work/tree"
cd "$top"
cp -rp --parents -t "$work/tree" Cargo.toml Cargo.lock rust/proto rust/rdmap rust/uabi selftests/fuzz selftests/peer selftests/user \
	rust/{client,server}/cause.rs rust/endpoint/causes.rs docs/troubleshooting.md rust/iwarp/end_reason.rs docs/iwarp.md # tests have these

# The tool, of the newest version that Debian's cargo can build, once for all checkouts.
version=26.0.0
tools=${CARGO_HOME:-$HOME/.cargo}/mutants-$version
[ -x "$tools/bin/cargo-mutants" ] || cargo install --quiet --locked --root "$tools" --version "$version" cargo-mutants
PATH=$tools/bin:$PATH

# Hundreds of small builds: nothing that a test does is worth optimising for.
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_CASES=64
export CARGO_TARGET_DIR=$work/target
cd "$work/tree"
cargo test --quiet --locked --package "$crate" -- "${skip[@]}"

# A mutant that never ends is noticed by the time it computes, which says the same on a busy machine.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='prlimit --cpu=20'
cargo mutants --package "$crate" --in-place --baseline=skip --timeout 1200 --output "$work" "${same[@]}" "$@" -- -- "${skip[@]}"
