#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Counts the instructions of encoding and decoding a header, callees included, with callgrind. Fails above the limits
# of the one-chunk Call. Optimised as the kernel does: -O2, overflow checks, panic=abort.

set -euo pipefail

cd "$(dirname "$0")"
export CARGO_PROFILE_BENCH_OPT_LEVEL=2 CARGO_PROFILE_BENCH_OVERFLOW_CHECKS=true CARGO_PROFILE_BENCH_CODEGEN_UNITS=1
export CARGO_PROFILE_BENCH_DEBUG=1
cargo build --quiet --locked --profile bench --bench instructions
program=$(cargo bench --quiet --locked --bench instructions --no-run --message-format=json |
	sed -n 's/.*"executable":"\([^"]*instructions[^"]*\)".*/\1/p')
report=$(mktemp)
trap 'rm -f "$report"' EXIT

status=0
while read -r operation limit; do
	valgrind --quiet --tool=callgrind --callgrind-out-file="$report" \
		--toggle-collect="*proto_bench::${operation%/*}*" "$program" "$operation" 2>/dev/null
	count=$(awk '/^(summary|totals):/ { print $2; exit }' "$report")
	printf '%-24s %5d instructions%s\n' "$operation" "$count" "${limit:+, limit $limit}"
	if [ -n "$limit" ] && [ "$count" -gt "$limit" ]; then status=1; fi
done <<'OPERATIONS'
encode_call/one_chunk 150
encode_call/two_reads
decode_lists/one_chunk 200
decode_lists/two_reads
decode_call/one_chunk
decode_call/two_reads
encode_reply/one_chunk
decode_reply/one_chunk
OPERATIONS
exit $status
