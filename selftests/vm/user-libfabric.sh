#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# libfabric on the device of a pair, by its provider verbs and, for datagrams that are reliable, by ofi_rxm on top of that: its own
# programs, and Open MPI with a process on either machine.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin libfabric openmpi

# For what begins programs on both machines by ssh.
ln -sfn $suites /tmp/suites
export PATH=/tmp/suites:$PATH SERVER_ADDR

fabric() { between server 47592 "fi_pingpong -p $1 -e $2 -c -I 20 -S $3" "fi_pingpong -p $1 -e $2 -c -I 20 -S $3 $SERVER_ADDR"; }

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

plan 11
in_suite libfabric "fi_info, verbs" finds verbs FI_EP_MSG
in_suite libfabric "fi_info, ofi_rxm" finds "verbs;ofi_rxm" FI_EP_RDM
for size in 64 65536 1048576; do in_suite libfabric "fi_pingpong, msg, $size octets" fabric verbs msg $size; done
in_suite libfabric "fi_pingpong, rdm, 65536 octets" fabric "'verbs;ofi_rxm'" rdm 65536
# Without -L they make 32,768 completion queues, for which a machine needs two gigabytes.
in_suite libfabric "fi_cq_test, verbs" "${nobody[@]}" fi_cq_test -L 256 -p verbs
in_suite libfabric "fi_cq_test, ofi_rxm" "${nobody[@]}" fi_cq_test -L 256 -p "verbs;ofi_rxm"
in_suite openmpi "NetPIPE, data verified" pipes -u 1048576
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted libfabric openmpi
show_counts
finish
