#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Writes the documentation of all crates, private items included, to build/cargo/doc. A link to an item that does not exist is an error.
# Runs in the build root, in a checkout whose modules are built (`make module`): rustdoc gets the options that Kbuild gave rustc
# for each crate, and reads the metadata that it left.

set -euo pipefail
cd "$(dirname "$0")/.."

out=build/cargo/doc
lints=(-Drustdoc::broken_intra_doc_links -Arustdoc::private_intra_doc_links)
status=0
RUSTDOCFLAGS=${lints[*]} cargo doc --quiet --locked --workspace --no-deps --document-private-items --keep-going || status=1

# Of each crate of the kernel: its options, and the crates that it uses.
declare -A options uses
words=() command=()
while read -r file; do
	line=$(sed -n '1s/^savedcmd_[^ ]* := //p' "$file")
	[[ $line == *RUST_MODFILE=* ]] || continue
	# What follows the compiler's command is objtool's.
	eval "words=(${line%% ;*})"
	name=$(basename "${words[1]}") kept=("${words[@]:0:2}" rustdoc) used=
	for ((at = 3; at < ${#words[@]}; at++)); do
		case ${words[at]} in
		--crate-name) name=${words[++at]} ;;
		--out-dir) : $((at++)) ;;
		--emit=*) ;;
		--extern) used+=" ${words[at + 1]}"; kept+=("${words[at]}" "${words[++at]}") ;;
		*) kept+=("${words[at]}") ;;
		esac
	done
	# cargo has those that it builds, too.
	if [ -e "rust/$name/Cargo.toml" ]; then continue; fi
	options[$name]=${kept[*]@Q} uses[$name]=$used
done < <(find rust -name '.*.o.cmd' | sort)
[ ${#options[@]} -gt 0 ] || { echo "error: the modules are not built" >&2; exit 1; }

# Links between crates work if those of the crate that is used are there first.
while [ ${#options[@]} -gt 0 ]; do
	for name in "${!options[@]}"; do
		for used in ${uses[$name]}; do
			if [ -n "${options[$used]:-}" ]; then continue 2; fi
		done
		eval "command=(${options[$name]})"
		RUSTC_BOOTSTRAP=1 env "${command[@]}" --crate-name "$name" "${lints[@]}" --document-private-items --output "$out" ||
			status=1
		unset "options[$name]"
	done
done
echo "$out has $(find "$out" -mindepth 2 -maxdepth 2 -name index.html | wc -l) crates"
exit $status
