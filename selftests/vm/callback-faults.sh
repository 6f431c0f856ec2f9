#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the client waits for in the other direction, while connections break: the result of a copy that the server makes by itself, which
# comes in a callback; sixty delegations recalled at once; and a client that does not hear of a recall.

# What no check is for: a copy after the mount was idle for so long that the connection was closed, more than five minutes. Whether a reply
# comes after its callback was given up depends here on when connections break; peer.sh has a peer that replies to no callback at all.

. ./lib.sh
need_pair

# More than twice the longest READ: the client waits for the reply of a shorter copy.
copies=12 size=6291456
! long_form || copies=80
# Copies the file so often.
copy() {
	timeout -s KILL 120 python3 - "$mnt/source" "$mnt/copied" $copies <<-'END'
		import os, sys, time
		source, target = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
		size, slowest = os.fstat(source).st_size, 0
		for _ in range(int(sys.argv[3])):
		    os.ftruncate(target, 0)
		    start, done = time.monotonic(), 0
		    while done < size:
		        count = os.copy_file_range(source, target, size - done, done, done)
		        assert count > 0
		        done += count
		    slowest = max(slowest, time.monotonic() - start)
		print(f"the slowest of {sys.argv[3]} copies took {slowest:.1f} s")
	END
}
event=/sys/kernel/tracing/events/nfs4/nfs4_cb_offload trace=/sys/kernel/tracing/trace
# copies_through COMMAND...: again and again, while copies are made.
copies_through() {
	local copier status results
	mount_nfs 4.2 && random_file "$mnt/source" $size && sync || return
	echo >$trace
	echo 1 >$event/enable
	copy &
	copier=$!
	while kill -0 $copier 2>/dev/null; do
		sleep 0.7
		"$@"
	done
	wait $copier
	status=$?
	echo 0 >$event/enable
	results=$(grep -c nfs4_cb_offload: $trace)
	echo "$results results, $(counter connect_count) connections"
	if [ "$results" = 0 ] || ! on_server "cmp /export/source /export/copied && rm /export/source /export/copied"; then status=1; fi
	umount "$mnt" && return $status
}

# Prints for how many whole seconds it waited, without the start of Python.
open_together() {
	python3 -c 'if 1:
		import sys, threading, time
		def append(name): open(name, "a").close()
		threads = [threading.Thread(target=append, args=[name]) for name in sys.argv[1:]]
		begin = time.monotonic()
		for thread in threads: thread.start()
		for thread in threads: thread.join()
		print(int(time.monotonic() - begin))' "$@"
}
# holding NAME COUNT: opens files, which gets delegations for most of them; sets `held` to what their names begin with. Those of closed
# files stay, but the client returns one that it did not use for five seconds, so all are read once more, and other files are tried.
holding() {
	local delegated
	for held in "$1"-{1..5}; do
		python3 -c 'if 1:
			import sys
			names = [f"{sys.argv[1]}.{number}" for number in range(int(sys.argv[2]))]
			for name in names:
			    with open(name, "w") as file: file.write("x")
			for name in 2 * names:
			    with open(name) as file: file.read()' "$mnt/$held" "$2" || return
		delegated=$(on_server "cat /proc/fs/nfsd/clients/*/states" | grep -c "type: deleg.*$held")
		echo "$delegated of $2 files are delegated"
		[ "$delegated" -lt $(($2 / 2)) ] || return 0
	done
	return 1
}
# opened NAME SECONDS: all of them, on the server, within that time.
opened() {
	local waited
	waited=$(on_server "$(declare -f open_together); open_together /export/$1.*") || return
	echo "the server waited $waited s"
	[ "$waited" -lt "$2" ]
}
storm() { mount_nfs 4.2 && holding storm 60 && opened "$held" 10; local status=$?; umount "$mnt" && return $status; }
# No packet arrives at the client, so it does not hear of the recall. The server gives up when the lease is over.
silent() {
	local status
	mount_nfs 4.2 && holding silent 4 && drop_packets || return
	opened "$held" 60
	status=$?
	pass_packets
	timeout 90 stat "$mnt/." >/dev/null && random_file "$mnt/later" 100000 && same_file later || status=1
	umount "$mnt" && return $status
}

modprobe rpcrdma
wait_for_grace_period
plan 4
check "the results of copies come" copies_through true
check "they come while connections break" copies_through drop_connection
check "sixty delegations are recalled at once" storm
check "a client that does not hear of a recall is not waited for longer than its lease" silent
finish
