# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests share that run suites which nobody here wrote: their programs, and what may come of each of their tests. To be sourced
# after lib.sh and programs.sh.

suites=/src/selftests/suites
# A line for each test, in a file with the name of the suite.
export RESULTS=/vm/suites
mkdir -p "$RESULTS"

# need_suites: puts the programs that selftests/suites/layer.sh unpacks over the roots of both machines.
need_suites() { has_layer /src/build/suites || cannot_run "selftests/suites/layer.sh has unpacked the programs"; }

judge() { python3 -B $suites/judge.py "$@"; }

# begin SUITE...: forgets what came of their tests.
begin() { for suite; do : >"$RESULTS/$suite"; done; }

# in_suite SUITE TEST COMMAND...: a check that the command succeeds or, if the table has that test, fails as it says.
in_suite() { check "$1: $2" judged "$@"; }
judged() {
	local outcome=passed said result
	said=$("${@:3}" 2>&1) || outcome=failed
	result=$(printf '%s\t%s\t%s' "$2" $outcome "$(tr -s '\t\r\v\f\n' '    |' <<<"$said")")
	echo "$result" >>"$RESULTS/$1"
	judge "$1" "$result"
}

# counted SUITE...: what came of all tests is what the table says of them, and all of those ran. Prints how many there were.
counted() {
	local status=0
	judge --all "$@" >"$RESULTS/counted" 2>&1 || status=$?
	cat "$RESULTS/counted"
	return "$status"
}
# As `check` prints nothing about what passes.
show_counts() { sed -n 's/^[a-z_-]*: [0-9]* passed, .*/# &/p' "$RESULTS/counted"; }
