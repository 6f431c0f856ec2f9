#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# libfabric on the device of a pair, by its provider verbs and, for datagrams that are reliable, by ofi_rxm on top of that: its own
# tests, which its source package has, and Open MPI with a process on either machine.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin libfabric fabtests-verbs fabtests-rxm openmpi

# For what begins programs on both machines by ssh.
ln -sfn $suites /tmp/suites
export PATH=/tmp/suites:$PATH SERVER_ADDR

fabric() { between server 47592 "fi_pingpong -p $1 -e $2 -c -I 20 -S $3" "fi_pingpong -p $1 -e $2 -c -I 20 -S $3 $SERVER_ADDR"; }

# fabtests SUITE PROVIDER FILE [PATTERN]: the short tests of all kinds, but for those that fabtests itself excludes for that provider, in
# FILE, and those that the pattern finds.
fabtests() {
	local data=/usr/share/fabtests
	# fabtests says of some programs that they are not for a provider; all else is for the table to judge.
	(cd /tmp && ulimit -l unlimited && runfabtests.sh -vvv -t quick -T "$limit" ${4:+-e "$4"} -f "$data/test_configs/$3" "$2" "$SERVER_ADDR" "$CLIENT_ADDR") \
		>"$RESULTS/$1.log" 2>&1
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

# mpi PROGRAM...: a process on either machine, with nothing but the device between them: there is no other way that it may choose. mpirun
# does not find the machine that it runs on by an address.
mpi() {
	ulimit -l unlimited
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout "$limit" mpirun.openmpi --host "$(hostname),$SERVER_ADDR" -np 2 \
		--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm" "$@"
}
# pipes OPTION...: NetPIPE, which compares what arrives, in messages of every size.
pipes() {
	mpi NPopenmpi -i -o /tmp/np.out "$@" >/tmp/np.log 2>&1 || { tail -n 40 /tmp/np.log; return 1; }
	tail -n 20 /tmp/np.log
	grep -q 'Integrity check passed' /tmp/np.log && ! grep 'Integrity check failed' /tmp/np.log
}

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
finds() { "${nobody[@]}" fi_info -p "$1" -t "$2" | tee /dev/stderr | grep -q "domain: $RDMA_DEVICE"; }

plan 13
in_suite libfabric "fi_info, verbs" finds verbs FI_EP_MSG
in_suite libfabric "fi_info, ofi_rxm" finds "verbs;ofi_rxm" FI_EP_RDM
for size in 64 65536 1048576; do in_suite libfabric "fi_pingpong, msg, $size octets" fabric verbs msg $size; done
in_suite libfabric "fi_pingpong, rdm, 65536 octets" fabric "'verbs;ofi_rxm'" rdm 65536
# Without -L they make 32,768 completion queues, for which a machine needs two gigabytes.
in_suite libfabric "fi_cq_test, verbs" "${nobody[@]}" fi_cq_test -L 256 -p verbs
in_suite libfabric "fi_cq_test, ofi_rxm" "${nobody[@]}" fi_cq_test -L 256 -p "verbs;ofi_rxm"
check "fabtests by verbs come to their end" fabtests fabtests-verbs verbs verbs/verbs.exclude 'fi_flood -e msg,fi_multi_ep -e msg,fi_msg_bw,fi_msg_pingpong,fi_rma_bw -e msg,fi_cq_test'
check "fabtests by ofi_rxm come to their end" fabtests fabtests-rxm "verbs;ofi_rxm" ofi_rxm/ofi_rxm.exclude fi_cq_test
in_suite openmpi "NetPIPE, data verified" pipes -u 1048576
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted libfabric fabtests-verbs fabtests-rxm openmpi
show_counts
finish
