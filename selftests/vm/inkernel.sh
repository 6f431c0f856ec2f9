#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the tests in the kernel: `make check` builds a module with RPCRDMA_SELFTEST=1, and they run when it is loaded.

. ./lib.sh

module=/src/build/${KERNEL:+$KERNEL-}selftest/rpcrdma.ko
[ -e "$module" ] || cannot_run "there is $module, which the clippy gate of \`make check\` or \`make debug-check\` builds"
modprobe -a sunrpc ib_core rdma_cm rdma_rxe dummy
ip link add wire mtu 4500 up type dummy
ip address add 192.0.2.1/24 dev wire
rdma link add rxe1 type rxe netdev wire
clear_logs
insmod "$module"
mapfile -t results < <(dmesg | sed -n 's/.*rpcrdma: \(\(not \)\?ok [0-9]* .*\)/\1/p')
planned=$(dmesg | sed -n 's/.*rpcrdma: 1\.\.//p')
rmmod rpcrdma
rdma link del rxe1
ip link del wire

plan "${planned:-1}"
[ "${#results[@]}" -gt 0 ] || ktap_test_fail "the module runs its tests"
for result in "${results[@]}"; do
	if [[ $result == ok* ]]; then ktap_test_pass "${result#ok * }"; else ktap_test_fail "${result#not ok * }"; fi
done
finish
