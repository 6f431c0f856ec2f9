#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the tests in the kernel: `make check` builds modules with RPCRDMA_SELFTEST=1, and they run when these are loaded.
# Those of verbs and of connections use a device of type RDMA=.

. ./lib.sh

built=/src/build/${KERNEL:+$KERNEL-}selftest
for module in rpcrdma iwarp; do
	[ -e "$built/$module.ko" ] ||
		cannot_run "there is $built/$module.ko, which the clippy gate of \`make check\` or \`make debug-check\` builds"
done
modprobe -a sunrpc ib_core iw_cm rdma_cm dummy
ip link add wire mtu 4500 up type dummy
ip address add 192.0.2.1/24 dev wire
rdma link add test1 type "$RDMA" netdev wire

# Loads a module, and leaves in `results` how its tests went.
planned=0 results=()
run() {
	clear_logs
	insmod "$built/$1.ko"
	mapfile -t -O "${#results[@]}" results < <(dmesg | sed -n "s/.*$1: \(\(not \)\?ok [0-9]* .*\)/\1/p")
	count=$(dmesg | sed -n "s/.*$1: 1\.\.//p")
	[ "${count:-0}" -gt 0 ] || results+=("not ok 0 $1 runs its tests")
	planned=$((planned + ${count:-1}))
	rmmod "$1"
}
run rpcrdma
rdma link del test1
[ ! -e /sys/module/iwarp ] || rmmod iwarp
run iwarp
ip link del wire
restore_device

plan "$planned"
for result in "${results[@]}"; do
	case $result in
	'ok '*' # SKIP '*) ktap_test_skip "$(sed -E 's/^ok [0-9]+ (.*) # SKIP (.*)/\1: \2/' <<<"$result")" ;;
	ok*) ktap_test_pass "${result#ok * }" ;;
	*) ktap_test_fail "${result#not ok * }" ;;
	esac
done
finish
