#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# libfabric's own tests, which its source package has, on the device of a pair: by its provider verbs and, for datagrams that are
# reliable, by ofi_rxm on top of that.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin fabtests-verbs fabtests-rxm
# fi_inject_test takes half a minute on two CPUs that have something else to do as well.
limit=${PROGRAM_LIMIT:-240}

# For what begins programs on both machines by ssh.
ln -sfn $suites /tmp/suites
export PATH=/tmp/suites:$PATH SERVER_ADDR

# quick PROVIDER FILE PATTERNS LOG: the short tests of all kinds, but for those that fabtests itself excludes for that provider, in FILE,
# and those that the patterns find. Prints a result for each.
quick() {
	local data=/usr/share/fabtests
	# fabtests says of some programs that they are not for a provider; all else is for the table to judge.
	(cd /tmp && ulimit -l unlimited &&
		runfabtests.sh -vvv -t quick -T "$limit" -e "$3" -f "$data/test_configs/$2" "$1" "$SERVER_ADDR" "$CLIENT_ADDR") >"$4" 2>&1
	# What it killed may still end its program on the server.
	while pgrep -f suites/ssh; do sleep 0.2; done >/dev/null
	awk -v OFS='\t' '
		function result() { if (name) print name, outcome, said }
		/^- name: / { result(); sub(/^- name: */, ""); name = $0; outcome = "failed"; said = "" }
		/^  result: / { outcome = $2 == "Pass" ? "passed" : $2 == "Fail" ? "failed" : "skipped"; if ($2 == "Excluded") said = $2 }
		/^    / { sub(/^ */, ""); said = said " " $0 }
		END { result() }' "$4"
	grep -q "Total Pass" "$4" || { tail -n 20 "$4" >&2; return 1; }
}

# fabtests SUITE PROVIDER FILE PATTERNS: as `quick`. Tests in which libfabric crashed by the fault that `ssh` knows, and no others, are done
# again, as that comes by chance; with that fault in three runs a test has failed.
fabtests() {
	local left=3 others crash='ofi_rxm received by an endpoint that it had closed'
	quick "${@:2}" "$RESULTS/$1.log" >"$RESULTS/$1" || return
	: >"$RESULTS/$1.crashed"
	while crashed=$(awk -F'\t' -v crash="$crash" '$2 == "failed" && index($3, crash) { print $1 }' "$RESULTS/$1") && [ -n "$crashed" ] &&
		((--left)); do
		echo "$crashed" >>"$RESULTS/$1.crashed"
		# Patterns for all others, which fabtests compares before it puts in addresses.
		others=$(cut -f1 "$RESULTS/$1" | grep -vxFf <(echo "$crashed") |
			sed -E "s/ -p \"[^\"]*\"\$//; s/${SERVER_ADDR//./\\.}/[A-Z_]+/g; s/.*/^&\$/" | paste -sd,)
		quick "${@:2:2}" "$4,$others" "$RESULTS/$1.log.$left" >"$RESULTS/again" || return
		awk -F'\t' 'NR == FNR { if ($3 != "Excluded") again[$1] = $0; next } { print $1 in again ? again[$1] : $0 }' \
			"$RESULTS/again" "$RESULTS/$1" >"$RESULTS/merged" && mv "$RESULTS/merged" "$RESULTS/$1" || return
	done
}

plan 4
# These wait for ever, or pass by chance: the table says why.
by_verbs='fi_flood -e msg,fi_multi_ep -e msg,fi_msg_bw,fi_msg_pingpong,fi_rma_bw -e msg,fi_cq_test'
by_rxm='fi_cq_test,-e rdm -o writedata'
check "fabtests by verbs come to their end" fabtests fabtests-verbs verbs verbs/verbs.exclude "$by_verbs"
check "fabtests by ofi_rxm come to their end" fabtests fabtests-rxm "verbs;ofi_rxm" ofi_rxm/ofi_rxm.exclude "$by_rxm"
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted fabtests-verbs fabtests-rxm
show_counts
sed 's/^/# done again, after libfabric crashed: /' "$RESULTS"/fabtests-*.crashed
finish
