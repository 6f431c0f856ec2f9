# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The end of packages.sh and foreign.sh. Sourced there: runs the functions test_NAME of all names in $tests, or of those that the script was
# given, and says whether all that they claimed held.

# shellcheck disable=SC2154 # set by who sources this
[ $# -eq 0 ] || tests=("$@")
for test in "${tests[@]}"; do
	stage "$test"
	"test_$test"
done
echo "1..$count"
[ "$failed" -eq 0 ]
