#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# After all tests before it, and with the module unloaded, nothing that was allocated is without an owner. For a kernel
# with kmemleak, as `make debug-check` has one. It comes last: it stops the server.

. ./lib.sh

# kmemleak reports an object that is older than five seconds and did not change between two scans. It refuses to scan if it
# had to give up.
scan=$(cat <<-'END'
	leaks=/sys/kernel/debug/kmemleak
	sleep 6
	echo scan >$leaks && echo scan >$leaks || exit
	cat $leaks
	! grep -q . $leaks
END
)

server_unloads() { on_server "cd $PWD; . ./lib.sh; $scripts/vm/nfs-server stop; unload"; }

plan $((${SERVER_ADDR:+2} + 2))
check "unloads" unload
check "nothing leaked" bash -c "$scan"
if [ -n "${SERVER_ADDR:-}" ]; then
	check "the server's module unloads" server_unloads
	check "nothing leaked on the server" on_server "$scan"
fi
finish
