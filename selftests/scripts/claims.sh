# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the tests of scripts share: a directory of their own in $work, results, and a count at the end. A test sets `status` and `said` of
# the command that its next claims are about, as `run` does, and `ran` if it has more to show.

set -euo pipefail
# shellcheck disable=SC2034 # for the tests
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0 failed=0 status=0 said=

# run COMMAND...: its output to $said, its status to $status.
run() {
	status=0
	said=$("$@" 2>&1) || status=$?
}

# claim NAME CONDITION...
claim() {
	local name=$1 word=ok
	shift
	count=$((count + 1))
	if ! "$@"; then word='not ok' failed=$((failed + 1)); fi
	echo "$word $count - $name"
	[ "$word" = ok ] || printf '%s\n' "status $status" "$said" ${ran+"$ran"} | sed 's/^/# /'
}

says() { [[ $said = *"$1"* ]]; }

end_of_claims() {
	echo "1..$count"
	[ "$failed" -eq 0 ]
}
