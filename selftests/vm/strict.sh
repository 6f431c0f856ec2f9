#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The strict device (selftests/strict) finds each kind of fault that it is there for, and its report has all stacks. One VM, --rdma strict.

. ./lib.sh
clear_logs
[ -n "$STRICT" ] || cannot_run "this test needs the strict device"

modprobe -a rdma_rxe dummy
debug=/sys/kernel/debug/strict
ip link add wire mtu 4500 up type dummy
ip address add 192.0.2.1/24 dev wire

# Makes a device with these settings, and leaves in `results` how the tests of the module went with it.
planned=0 results=()
try() {
	local name=$1 setting count
	shift
	for setting; do
		echo "${setting#*=}" >"/sys/module/rdma_rxe/parameters/${setting%%=*}" && continue
		results+=("not ok 0 $setting can be set ($name)")
		planned=$((planned + 1))
	done
	rdma link add test1 type rxe netdev wire
	dmesg -C
	echo 1 >$debug/test
	dmesg >/tmp/log
	mapfile -t -O "${#results[@]}" results < <(sed -n "s/.*strict: \(\(not \)\?ok [0-9]* .*\)/\1 ($name)/p" /tmp/log)
	count=$(sed -n 's/.*strict: 1\.\.//p' /tmp/log)
	[ "${count:-0}" -gt 0 ] || results+=("not ok 0 the tests run ($name)")
	planned=$((planned + ${count:-1}))
	cat /tmp/log >>/tmp/reports
	rdma link del test1
}

# report KIND: prints the first report of such a fault.
report() { sed -n "/expected: strict: $1:/,/expected: \|strict: \(not \)\?ok/p" /tmp/reports | sed '1!{/expected: \|ok [0-9]/d}'; }

# The stacks of who accesses, of who mapped and of who unmapped.
has_stacks() {
	report access-after-unmap | tee /tmp/report
	[ "$(grep -c 'strict: \(found\|mapped\|unmapped\) by ' /tmp/report)" -ge 3 ] &&
		grep -q 'rxe_' /tmp/report && grep -q 'dma_map_' /tmp/report && grep -q 'dma_unmap_' /tmp/report
}

# What is not expected is a fault for each test, and for the gate.
fails_a_test() { sed 's/expected: strict/BUG: strict/' /tmp/reports >/tmp/unexpected && not "$scripts/dmesg.sh" /tmp/unexpected && "$scripts/dmesg.sh" /tmp/reports; }

no_fault_counted() { grep -q ' 0$' $debug/faults && not grep -v ' 0$' $debug/faults; }

try 'as it is'
try 'entries apart, 32 bits' merge=N mask=32
try 'no offset in the page, short segments' merge=Y mask=64 keep_offset=N segment=8192 boundary=8191
try 'the narrowest limits' keep_offset=Y segment=4294967295 boundary=4294967295 profile=narrowest
try 'regions with gaps, more than was asked for' profile=mlx5
try 'fewer completions reported than asked for' profile=hns

# What is mapped for one device is nothing to another one in the same machine.
iwarp_has_pointers() {
	local type
	rdma link add test1 type rxe netdev wire || return
	for type in iwarp-tcp iwarp-sctp; do
		rdma link add "test-$type" type "$type" netdev wire && grep -x "test-$type pointers" $debug/devices || return
	done
	grep -x 'test1 mapped' $debug/devices || return
	for type in iwarp-tcp iwarp-sctp; do rdma link del "test-$type"; done
	rdma link del test1 && rmmod iwarp
}

plan $((planned + 4))
for result in "${results[@]}"; do
	case $result in
	ok*) ktap_test_pass "${result#ok * }" ;;
	*) ktap_test_fail "${result#not ok * }" ;;
	esac
done
check "a report has the stacks" has_stacks
check "such a report fails a test" fails_a_test
check "iwarp.ko has no DMA device beside one that has" iwarp_has_pointers
check "no fault was counted that is not expected" no_fault_counted
ip link del wire
rmmod rdma_rxe
finish
