#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the fuzz targets and runs each for a while, starting from its seeds.
#
#   selftests/fuzz/run.sh TIME=600 [TARGET...]      seconds for each target
#   selftests/fuzz/run.sh RUNS=10000000 [TARGET...] executions of each target
#
# What cargo-fuzz passes to rustc is passed here, so that a stable toolchain will do. What the fuzzer learns is kept in
# build/fuzz; an input that fails is kept in build/fuzz/findings and printed.

set -euo pipefail

cd "$(dirname "$0")"
top=$(cd ../.. && pwd)
case ${1:?usage: run.sh TIME=seconds or RUNS=number [TARGET...]} in
TIME=*) limit=-max_total_time=${1#TIME=} ;;
RUNS=*) limit=-runs=${1#RUNS=} ;;
*) echo "neither TIME= nor RUNS=: $1" >&2; exit 2 ;;
esac
shift
[ $# -gt 0 ] || set -- call reply private plan machines segment fpdu startup session streams element

export RUSTC_BOOTSTRAP=1
flags=(--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
	flags+=("-Cllvm-args=-sanitizer-coverage-$flag")
done
export RUSTFLAGS="${flags[*]}"
work=$top/build/fuzz
programs=${CARGO_TARGET_DIR:-$top/build/cargo}
# With a target named, the flags are not used for build scripts.
target=x86_64-unknown-linux-gnu
cargo build --quiet --profile fuzz --locked --target "$target"

for name; do
	mkdir -p "$work/corpus/$name" "$work/findings"
	log=$work/$name.log
	if ! "$programs/$target/fuzz/$name" "$limit" -max_len=1024 -print_final_stats=1 \
		-artifact_prefix="$work/findings/$name-" "$work/corpus/$name" "seeds/$name" >"$log" 2>&1; then
		tail -n 40 "$log"
		exit 1
	fi
	awk -v name="$name" '
		/cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") coverage = $(i + 1) }
		/number_of_executed_units/ { runs = $2 }
		/average_exec_per_sec/ { rate = $2 }
		END { printf "%-10s %12d runs, %8d/s, coverage %d\n", name, runs, rate, coverage }' "$log"
done
