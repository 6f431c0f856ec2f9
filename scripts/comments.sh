#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# comments.sh [NUMBER]: fails if more than NUMBER (none) comment lines of the Rust sources go past column 100, and prints where:
# rustfmt looks at code only. What cannot be broken may be longer: a line with one word, such as an address, and a row of a table.
# Fails, too, if the summary of a doc comment begins with "What": it says in the third person what the item is or does.

set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.."

long=$(git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard 'rust/*.rs' |
	xargs -0 grep -nE '^.{101}' -- /dev/null |
	grep -E '^[^:]+:[0-9]+:([[:space:]]*|.*[;{},)] )//' |
	grep -vE '^[^:]+:[0-9]+:[[:space:]]*//[/!]?[[:space:]]+([^[:space:]]+$|\[[^]]+\]: [^[:space:]]+$|\|)' || true)
count=$(printf '%s' "$long" | grep -c '' || true)
echo "$count comment lines go past column 100"
[ "$count" -le "${1:-0}" ] || { printf '%s\n' "$long"; exit 1; }

# shellcheck disable=SC2016 # they are awk's
summaries=$(git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard '*.rs' |
	xargs -0 awk '
		{ doc = $1 ~ /^\/\/[\/!]$/ }
		doc && !before && $2 == "What" { print FILENAME ":" FNR ": " $0 }
		{ before = doc }')
[ -z "$summaries" ] || { echo "summaries that begin with \"What\":"; printf '%s\n' "$summaries"; exit 1; }
