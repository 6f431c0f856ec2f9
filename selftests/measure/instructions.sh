#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Counts the instructions of what the crates proto and rdmap do per message, callees included, with callgrind: encoding and
# decoding a header; sending and receiving a segment. Fails above the limits. Cargo.toml's profile `instructions` optimises
# as the kernel does.

set -euo pipefail

cd "$(dirname "$0")/../.."
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# program CRATE: builds what runs one operation of the crate, and prints its path.
program() {
	cargo bench --quiet --locked --profile instructions --package "$1" --bench instructions --no-run --message-format=json |
		sed -n 's/.*"executable":"\([^"]*instructions[^"]*\)".*/\1/p'
}

declare -A programs
status=0
while read -r crate operation limit; do
	[ -n "${programs[$crate]:-}" ] || programs[$crate]=$(program "$crate")
	valgrind --quiet --tool=callgrind --callgrind-out-file="$report" \
		--toggle-collect="*instructions::operations::${operation%/*}*" "${programs[$crate]}" "$operation" 2>/dev/null
	count=$(awk '/^(summary|totals):/ { print $2; exit }' "$report")
	printf '%-6s %-24s %5d instructions%s\n' "$crate" "$operation" "$count" "${limit:+, limit $limit}"
	if [ "$count" -eq 0 ] || { [ -n "$limit" ] && [ "$count" -gt "$limit" ]; }; then status=1; fi
done <<'OPERATIONS'
proto encode_call/one_chunk 150
proto encode_call/two_reads
proto decode_lists/one_chunk 200
proto decode_lists/two_reads
proto decode_call/one_chunk
proto decode_call/two_reads
proto encode_reply/one_chunk
proto decode_reply/one_chunk
rdmap send/a_send 550
rdmap send/a_write 550
rdmap receive/a_send 800
rdmap receive/a_write 450
rdmap receive/a_send_over_sctp 850
OPERATIONS
exit $status
