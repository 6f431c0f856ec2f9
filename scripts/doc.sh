#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Writes the documentation of all crates, private items included, to build/cargo/doc. A link to an item that does not exist is an error.
# Runs in the build root, in a checkout whose modules are built (`make module`): rustdoc gets the options that Kbuild gave rustc
# for each crate, and reads the metadata that it left.

set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kbuild-rustc.sh

out=build/cargo/doc
lints=(-Drustdoc::broken_intra_doc_links -Arustdoc::private_intra_doc_links)
status=0
# But for the models: they are files of other crates, where they are documented.
RUSTDOCFLAGS=${lints[*]} cargo doc --quiet --locked --workspace --exclude models --exclude model-kernel \
	--no-deps --document-private-items --keep-going || status=1

# Of each crate of the kernel: its command, and the crates that it uses.
declare -A commands uses
command=()
while read -r file; do
	kbuild_rustc "$file" || continue
	# cargo has those that it builds, too.
	if [ -e "rust/$crate/Cargo.toml" ]; then continue; fi
	command=("${variables[@]}" rustdoc "${options[@]}" "$source")
	commands[$crate]=${command[*]@Q} uses[$crate]=${used[*]}
done < <(find rust -name '.*.o.cmd' | sort)
[ ${#commands[@]} -gt 0 ] || { echo "error: the modules are not built" >&2; exit 1; }

# Links between crates work if those of the crate that is used are there first.
while [ ${#commands[@]} -gt 0 ]; do
	for name in "${!commands[@]}"; do
		for other in ${uses[$name]}; do
			if [ -n "${commands[$other]:-}" ]; then continue 2; fi
		done
		eval "command=(${commands[$name]})"
		RUSTC_BOOTSTRAP=1 env "${command[@]}" --crate-name "$name" "${lints[@]}" --document-private-items --output "$out" ||
			status=1
		unset "commands[$name]"
	done
done
echo "$out has $(find "$out" -mindepth 2 -maxdepth 2 -name index.html | wc -l) crates"
exit $status
