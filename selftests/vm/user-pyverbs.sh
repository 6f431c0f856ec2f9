#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests of verbs and of the connection manager, on the client's device: both ends of each connection are there.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin rdma-core

# A GID of an iWARP device ends with zeros, and so has to be named.
run_tests() {
	ulimit -l unlimited
	timeout "$((10 * limit))" python3 -B $suites/rdma_core.py /usr/share/rdma-core/tests "$RESULTS/rdma-core" \
		--dev "$RDMA_DEVICE" --port 1 --gid 0 >"$RESULTS/rdma-core.log" 2>&1 || { tail -n 40 "$RESULTS/rdma-core.log"; return 1; }
}

plan 3
check "rdma-core's tests come to their end" run_tests
check "each of them passes, or ends as the table says" counted rdma-core
show_counts
check "nothing of a process is left when it has ended" nothing_left
finish
