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

# For what begins programs on both machines by ssh.
ln -sfn $suites /tmp/suites
export PATH=/tmp/suites:$PATH SERVER_ADDR

# fabtests SUITE PROVIDER FILE PATTERNS: the short tests of all kinds, but for those that fabtests itself excludes for that provider, in
# FILE, and those that the patterns find.
fabtests() {
	local data=/usr/share/fabtests
	# fabtests says of some programs that they are not for a provider; all else is for the table to judge.
	(cd /tmp && ulimit -l unlimited &&
		runfabtests.sh -vvv -t quick -T "$limit" -e "$4" -f "$data/test_configs/$3" "$2" "$SERVER_ADDR" "$CLIENT_ADDR") >"$RESULTS/$1.log" 2>&1
	# What it killed may still end its program on the server.
	while pgrep -f suites/ssh; do sleep 0.2; done
	awk -v OFS='\t' '
		function result() { if (name) print name, outcome, said }
		/^- name: / { result(); sub(/^- name: */, ""); name = $0; outcome = "failed"; said = "" }
		/^  result: / { outcome = $2 == "Pass" ? "passed" : $2 == "Fail" ? "failed" : "skipped"; if ($2 == "Excluded") said = $2 }
		/^    / { sub(/^ */, ""); said = said " " $0 }
		END { result() }' "$RESULTS/$1.log" >"$RESULTS/$1"
	grep -q "Total Pass" "$RESULTS/$1.log" || { tail -n 20 "$RESULTS/$1.log"; return 1; }
}

plan 4
# These wait for ever, or pass by chance: the table says why.
by_verbs='fi_flood -e msg,fi_multi_ep -e msg,fi_msg_bw,fi_msg_pingpong,fi_rma_bw -e msg,fi_cq_test'
by_rxm='fi_cq_test,-e rdm -o writedata,fi_rdm -U'
check "fabtests by verbs come to their end" fabtests fabtests-verbs verbs verbs/verbs.exclude "$by_verbs"
check "fabtests by ofi_rxm come to their end" fabtests fabtests-rxm "verbs;ofi_rxm" ofi_rxm/ofi_rxm.exclude "$by_rxm"
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted fabtests-verbs fabtests-rxm
show_counts
finish
