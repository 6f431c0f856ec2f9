#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A process is killed during its I/O: it ends, the server can access none of its memory any more, and the mount goes on with all its
# credits. The environment variable KILLS says how often; `make check-all` sets a higher number.

. ./lib.sh
need_pair

flood() { fio --name=flood --directory="$mnt" --size=16M --bs=1M --direct=1 --numjobs=8 --thread --time_based \
	--runtime=600 --fallocate=none --rw="$1"; }

# floods PID: waits until that shell runs fio.
floods() {
	local left=600
	until pgrep -P "$1" -x fio >/dev/null; do
		((--left)) || { echo "fio does not begin"; return 1; }
		sleep 0.1
	done
}

# dies PID: kills the running fio of that shell, which must end within ten seconds.
dies() {
	local left=100
	pkill -9 -P "$1" -x fio || { echo "no fio runs"; return 1; }
	while kill -0 "$1" 2>/dev/null; do
		[ $((left--)) -gt 0 ] || { echo "fio has not ended"; return 1; }
		sleep 0.1
	done
}

# killed COUNT PATTERN: kills COUNT times a process with eight threads of direct I/O.
killed() {
	local victim
	for _ in $(seq "$1"); do
		flood "$2" >/dev/null 2>&1 &
		victim=$!
		floods "$victim" || return
		sleep "1.$((RANDOM % 10))"
		dies "$victim" || return
	done
}

# While no packet arrives, no RPC gets its reply.
killed_without_replies() {
	local victim status
	flood write >/dev/null 2>&1 &
	victim=$!
	floods "$victim" || return
	sleep 1
	drop_packets || return
	sleep 1
	dies "$victim"
	status=$?
	pass_packets
	wait "$victim" 2>/dev/null
	return "$status"
}

after() { random_file "$mnt/after" 1000000 && same_file after; }

plan 7
mount_nfs 4.2 || exit
# Shows S2.3.2-05.
check "a process is killed while it writes" killed "${KILLS:-2}" write
check "a process is killed while it reads" killed "${KILLS:-2}" read
# Shows S4.4.1-03.
check "a process is killed while no packet arrives" killed_without_replies
check "64 jobs have their credits after that" verified_io --numjobs=64 --thread --size=256k --bsrange=4k-64k
check "a file is the same on both machines" after
check "the file system unmounts" umount "$mnt"
check "the module unloads" unload
finish
