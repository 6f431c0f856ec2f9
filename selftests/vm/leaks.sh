#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# After all tests before it, and with the module unloaded, nothing that was allocated is without an owner, and the kernel
# still watches all that it watched. For a kernel with kmemleak and lockdep, as `make debug-check` has one. It comes last:
# it stops the server.

. ./lib.sh
clear_logs

# kmemleak reports an object that is older than five seconds and did not change between two scans. It refuses to scan if it
# had to give up. It does not look where the kernel keeps what it is to free after a grace period, which takes five seconds or more, on a
# busy machine much more. It drops from its report what is freed after all, and a leak stays there. Then the line about it in the kernel's log
# goes, too, unless the log reports something else. suspects.awk leaves out what the kernel itself leaks.
scan="dmesg=$scripts/dmesg.sh suspects=$PWD/suspects.awk"$(cat <<-'SCAN'

	leaks() { "$suspects" /sys/kernel/debug/kmemleak; }
	for seconds in 12 20 20; do
		sleep $seconds
		echo scan >/sys/kernel/debug/kmemleak && echo scan >/sys/kernel/debug/kmemleak || exit
		[ -n "$(leaks)" ] || break
	done
	leaks
	[ -z "$(leaks)" ] || exit
	[ -n "$($dmesg | grep -v "kmemleak: [0-9]* new suspected")" ] || dmesg -C
SCAN
)

# After its first report, or when its tables are full, lockdep looks at no lock any more; so does the DMA API.
watches="grep -q 'debug_locks: *1$' /proc/lockdep_stats && grep -q N /sys/kernel/debug/dma-api/disabled"

server_unloads() { on_server "cd $PWD; . ./lib.sh; $scripts/vm/nfs-server stop; unload"; }

plan $((${SERVER_ADDR:+3} + 3))
check "unloads" unload
if [ -n "${SERVER_ADDR:-}" ]; then
	check "the server's module unloads" server_unloads
	# Both scan at the same time.
	on_server "$scan" >/tmp/leaks-there 2>&1 &
	there=$!
fi
check "nothing leaked" bash -c "$scan"
check "locks and DMA are still watched" bash -c "$watches"
if [ -n "${SERVER_ADDR:-}" ]; then
	scanned=0
	wait "$there" || scanned=$?
	scanned_there() { cat /tmp/leaks-there; return "$scanned"; }
	check "nothing leaked on the server" scanned_there
	check "locks and DMA are still watched there" on_server "$watches"
fi
finish
