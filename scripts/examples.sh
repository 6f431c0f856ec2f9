#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Compiles the examples in the documentation of the crates that wrap the kernel, and says how many there are. Runs in the build
# root, in a checkout whose modules are built (`make module`).
#
# rustdoc extracts them as it does those of the `kernel` crate, and passes each to a test builder. This one compiles it with the
# options that Kbuild gave rustc for a user of the crate, so it has what a user has. No example is run.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kbuild-rustc.sh
for module in rust/main.o rust/iwarp/main.o; do
	[ -e "$module" ] || { echo "error: the modules are not built" >&2; exit 1; }
done

out=build/examples
rm -rf "$out"
mkdir -p "$out"

# examples OBJECT USER [LINT]: compiles the examples of the crate with this object as parts of the crate with the object USER.
examples() {
	local builder status=0 log count
	kbuild_rustc "$(dirname "$2")/.$(basename "$2").cmd"
	builder=$out/${2//\//-}.sh
	# The example is on stdin. What else rustdoc says is for a program of the host. A module has a prefix of its log lines.
	cat >"$builder" <<-END
		#!/bin/bash
		mkdir "$out/\$\$"
		{ cat; echo 'const __LOG_PREFIX: &[u8] = b"example\\0";'; } |
			RUSTC_BOOTSTRAP=1 env ${variables[*]@Q} rustc ${options[*]@Q} --crate-name example --out-dir "$out/\$\$" --emit=obj \\
				-Dwarnings -Amissing_docs ${3:-} -
	END
	chmod +x "$builder"
	kbuild_rustc "$(dirname "$1")/.$(basename "$1").cmd"
	log=$out/$crate.log
	RUSTC_BOOTSTRAP=1 env "${variables[@]}" rustdoc "${options[@]}" --crate-name "$crate" --test --no-run --test-builder "$PWD/$builder" \
		"$source" >"$log" 2>&1 || status=$?
	count=$(grep -c '^test .* - compile \.\.\. ok$' "$log" || true)
	echo "$crate: $count examples compile"
	if [ "$status" -ne 0 ] || [ "$count" -eq 0 ] || grep -q '^test .* \.\.\. ignored' "$log"; then
		cat "$log"
		exit 1
	fi
	total=$((total + count))
}

total=0
for crate in rdma sunrpc trace; do examples rust/$crate/lib.o rust/server/lib.o -Funsafe_code; done
for crate in iwtrace provider socket; do examples rust/$crate/lib.o rust/iwarp/main.o -Funsafe_code; done
# Only the wrappers name this one.
examples rust/ext/lib.o rust/rdma/lib.o
echo "$total examples compile"
