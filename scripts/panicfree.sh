#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if an object can panic, or if one of its functions takes 512 bytes of stack or more.
#
#   scripts/panicfree.sh rust/proto/lib.o
#
# An object that can panic refers to a function of core: core::panicking, Option's unwrap_failed, a slice's index_fail. So what an
# object may refer to is what the compiler itself calls, and nothing else. Code that is generic is in the object that uses it, and
# is not seen here. A frame is what a function pushes and what it subtracts from the
# stack pointer; a function that takes a variable amount fails as well.

set -euo pipefail

limit=512
object=${1:?usage: panicfree.sh OBJECT}

symbols=$(nm --undefined-only --just-symbols "$object")
if others=$(grep -vE '^(__x86_.*|mem(cpy|move|set|cmp)|)$' <<<"$symbols"); then
	echo "$object may panic: it refers to" >&2
	echo "$others" >&2
	exit 1
fi

objdump --disassemble --demangle=rust --no-show-raw-insn "$object" | awk -v limit="$limit" '
	function hex(digits,    number, i) {
		for (i = 1; i <= length(digits); i++)
			number = number * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
		return number
	}
	function done() {
		if (frame > largest) { largest = frame; where = name }
		frame = 0
	}
	/^[0-9a-f]+ <.*>:$/ { done(); name = substr($0, 19, length($0) - 20); functions++ }
	/\tpush / { frame += 8 }
	/\tsub +\$0x[0-9a-f]+,%rsp/ { match($0, /0x[0-9a-f]+/); frame += hex(substr($0, RSTART + 2, RLENGTH - 2)) }
	/\tsub +%r[a-z0-9]+,%rsp/ { frame += limit }
	END {
		done()
		if (!functions) { print "no function found"; exit 1 }
		printf "no panic in %d functions; the largest frame has %d bytes: %s\n", functions, largest, where
		exit largest >= limit
	}'
