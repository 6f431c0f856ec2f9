#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory allocations of the module fail and connections break in the middle of verified I/O, and nothing is lost. For a
# kernel with fault injection, as `make debug-check` has one.
#
# FAILURES=  how many allocations fail on the server (default 60), and DISCONNECTS= how often the client disconnects (20)

. ./lib.sh
need_pair

faults=/sys/kernel/debug

# arm NAME SETTING=VALUE...: sets up a kind of fault.
arm() {
	local setting
	for setting in "${@:2}"; do
		echo "${setting#*=}" >"$faults/$1/${setting%%=*}" || return
	done
}

# What fails are allocations with code of the module on their stack.
aim() {
	local name start end
	{ read -r start; read -r end; } < <(awk '$4 == "[rpcrdma]" && $2 ~ /[tT]/ { print "0x" $1 }' /proc/kallsyms | sort |
		sed -n '1p;$p')
	arm fail_page_alloc probability=0 min-order=0 ignore-gfp-highmem=N
	for name in failslab fail_page_alloc; do
		arm $name probability=0 require-start="$start" require-end="$end" stacktrace-depth=32 ignore-gfp-wait=N \
			task-filter=N verbose=0 interval=1 space=0 times=0 || return
	done
}

calm() { for name in failslab fail_page_alloc; do arm $name probability=0; done; }
times() { cat "$faults/$1/times"; }

on_server_too() { on_server "cd $PWD; faults=$faults; $(declare -f arm aim calm times); $1"; }

# Writes at random places, reads all of it back and compares.
verified_io() {
	timeout 400 fio --name=verify --directory="$mnt" --size="${1:-4M}" --rw=randwrite --bsrange=4k-256k --numjobs=2 \
		--direct=1 --verify=crc32c --verify_fatal=1 --randseed="$RANDOM" --fallocate=none --unlink=1
}

# Has the connection made anew, with an allocation that fails after so many bytes.
connects_in_spite() {
	local file connects
	connects=$(counter connect_count)
	arm failslab times=1 space="$1" probability=100
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		echo "$SERVER_ADDR" >"$file"
	done
	verified_io 1M || return
	echo "connections: $connects before, $(counter connect_count) after; failures left: $(times failslab)"
	[ "$(times failslab)" -eq 0 ] && [ "$(counter connect_count)" -gt "$connects" ]
}

# Runs verified I/O again and again until so many allocations of the server have failed.
server_in_need() {
	local left
	on_server_too "arm failslab times=$1 interval=20 probability=100; arm fail_page_alloc times=$1 interval=20 probability=100" || return
	for ((left = 30; left > 0; left--)); do
		verified_io || return
		[ "$(on_server_too 'times failslab')" -eq 0 ] && break
	done
	on_server_too 'times failslab; times fail_page_alloc; calm'
	[ "$left" -gt 0 ]
}

# sunrpc itself breaks the connection, again and again.
disconnected() {
	local connects
	connects=$(counter connect_count)
	arm fail_sunrpc ignore-server-disconnect=Y ignore-cache-wait=Y verbose=0 interval=50 times="$1" probability=100
	while [ "$(times fail_sunrpc)" -gt 0 ]; do verified_io || return; done
	echo "connections: $connects before, $(counter connect_count) after"
	[ "$(counter connect_count)" -gt $((connects + $1 / 2)) ]
}

spaces=(0 300 2000 20000 100000 400000)
plan $((${#spaces[@]} + 4))
mount_nfs 4.2 || exit
aim
on_server_too aim
for space in "${spaces[@]}"; do
	check "connects though an allocation fails after $space bytes" connects_in_spite "$space"
done
calm
check "${FAILURES:=60} allocations of the server fail" server_in_need "$FAILURES"
check "the connection breaks ${DISCONNECTS:=20} times" disconnected "$DISCONNECTS"
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "unmounts" umount "$mnt"
finish
