#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if code says `unsafe` outside the crates of bindings and of wrappers, if an unsafe block or impl there has no SAFETY comment
# right above it, if the --extern lists in Kbuild are others than docs/architecture.md has, or if a crate gets at another one without such a
# list. Prints what each crate has.

cd "$(dirname "$0")/../rust" || exit
failed=0

# The foundation of both modules, the wrappers of rpcrdma.ko, and those of iwarp.ko.
wrappers=(cbindings ext rdma sunrpc trace iwtrace provider socket)
others=()
for crate in "${wrappers[@]}"; do others+=(-not -path "./$crate/*"); done

fail() { printf '%s\n' "$@" >&2; failed=1; }

# Code without its comments; the names of lints are no use of the keyword.
code() { sed -e 's,//.*,,' -e 's/unsafe_[a-z_]*//g' "$1"; }

while read -r file; do
	if code "$file" | grep -qw unsafe; then
		fail "$file says unsafe, which only ${wrappers[*]} may"
	fi
	if code "$file" | grep -qE '\bcbindings::'; then
		fail "$file names the bindings, which only wrappers may"
	fi
done < <(find . -name '*.rs' -not -name '*_generated.rs' "${others[@]}")

# Which crate uses which: what Kbuild says, without the lines for tests in the kernel.
arrows() {
	sed '/^ifeq .*RPCRDMA_SELFTEST/,/^endif/d' ../Kbuild | awk '
		/^rpcrdma_sides := / { sides = $0 }
		/^RUSTFLAGS_/ {
			sub(/\$\(rpcrdma_sides\)/, sides)
			list = ""; for (i = 2; i < NF; i++) if ($i == "--extern") list = list " " $(i + 1)
			sub(/^RUSTFLAGS_rust\//, "", $1); sub(/\.o$/, "", $1); print $1 ":" list
		}' | sort
}
expected=$(sort <<-'END'
	cbindings/lib:
	client/lib: proto rdma sunrpc trace endpoint
	endpoint/lib: rdma
	ext/lib: cbindings
	iwarp/cbindings:
	iwarp/ext: cbindings
	iwarp/main: rdmap iwtrace provider socket
	iwtrace/lib: cbindings ext
	main: rdma sunrpc client server
	proto/lib:
	provider/lib: cbindings ext uabi iwtrace
	rdma/lib: cbindings ext
	rdmap/lib:
	server/lib: proto rdma sunrpc trace endpoint
	socket/lib: cbindings ext
	sunrpc/lib: cbindings ext
	trace/lib: cbindings ext
	uabi/lib:
END
)
found=$(diff <(echo "$expected") <(arrows)) || fail "$found" 'the --extern lists in Kbuild are others than docs/architecture.md has'

# rustc looks for such a crate where all are, whatever the --extern list says.
while read -r file; do
	if code "$file" | grep -E '\bextern +crate\b' | grep -qvE 'crate +self\b'; then
		fail "$file has an extern crate, which only Kbuild may give it"
	fi
done < <(find . -name '*.rs' -not -name '*_generated.rs')

for root in proto/lib.rs rdmap/lib.rs uabi/lib.rs endpoint/lib.rs client/lib.rs server/lib.rs main.rs iwarp/main.rs; do
	grep -q '^#!\[forbid(unsafe_code)\]' "$root" || fail "$root does not forbid unsafe code"
done

# A SAFETY comment holds for the statement below it.
while read -r file; do
	awk '
		/^[ \t]*\/\// { if (/SAFETY:/) argued = 1; next }
		/^[ \t]*#/ { next }
		{
			line = $0; sub(/\/\/.*/, "", line)
			if (line ~ /(^|[^a-z_])unsafe[ \t]*(\{|impl)/ && !argued) {
				print FILENAME ":" FNR ": no SAFETY comment above"; bad = 1
			}
			if (line ~ /[;{}][ \t]*$/) argued = 0
		}
		END { exit bad }' "$file" >&2 || failed=1
done < <(find "${wrappers[@]}" -name '*.rs' -not -name '*_generated.rs')

for crate in "${wrappers[@]}"; do
	count=$(find "$crate" -name '*.rs' -not -name '*_generated.rs' -exec cat {} + | sed 's,//.*,,' |
		grep -cE '\bunsafe *(\{|impl)')
	echo "$crate: $count unsafe blocks and impls"
done
exit $failed
