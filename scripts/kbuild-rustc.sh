# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The options that Kbuild gave rustc for a crate of a module, from what it leaves beside each object. For scripts that run in the
# build root, in a checkout whose modules are built.

# kbuild_rustc FILE: reads the `.*.o.cmd` of an object. Sets `crate` to its name, `source` to its file, `variables` and `options` to
# the variables and options of rustc, without what names the crate and its results, and `used` to the crates of its --extern options.
# Fails if this is no crate of a module.
# shellcheck disable=SC2034 # for those who source this
kbuild_rustc() {
	local line words=() at
	line=$(sed -n '1s/^savedcmd_[^ ]* := //p' "$1")
	[[ $line == *RUST_MODFILE=* ]] || return 1
	# What follows the compiler's command is objtool's.
	eval "words=(${line%% ;*})"
	variables=("${words[@]:0:2}") options=() used=()
	source=${words[-1]}
	# An earlier build may have left objects of what is gone.
	[ -e "$source" ] || return 1
	crate=$(basename "${words[1]}")
	for ((at = 3; at < ${#words[@]} - 1; at++)); do
		case ${words[at]} in
		--crate-name) crate=${words[++at]} ;;
		--out-dir) : $((at++)) ;;
		--emit=*) ;;
		--extern) used+=("${words[at + 1]}"); options+=("${words[at]}" "${words[++at]}") ;;
		*) options+=("${words[at]}") ;;
		esac
	done
}
