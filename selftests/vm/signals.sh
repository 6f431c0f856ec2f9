#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A process is killed while its data is under way: it dies, the server reaches nothing of it any more, and the mount
# goes on with all its credits.

. ./lib.sh
need_pair

flood() { fio --name=flood --directory="$mnt" --size=16M --bs=1M --direct=1 --numjobs=8 --thread --time_based \
	--runtime=600 --fallocate=none --rw="$1"; }

# dies PID: the shell's fio, which runs, is killed and ends within ten seconds.
dies() {
	local left=100
	pkill -9 -P "$1" -x fio || { echo "nothing is under way"; return 1; }
	while kill -0 "$1" 2>/dev/null; do
		[ $((left--)) -gt 0 ] || { echo "still there"; return 1; }
		sleep 0.1
	done
}

# killed COUNT PATTERN: so often, a process with eight threads of direct I/O.
killed() {
	local victim
	for _ in $(seq "$1"); do
		flood "$2" >/dev/null 2>&1 &
		victim=$!
		sleep "1.$((RANDOM % 10))"
		dies "$victim" || return
	done
}

# With no packet arriving, every RPC is one that never gets its answer.
killed_in_silence() {
	local victim status
	flood write >/dev/null 2>&1 &
	victim=$!
	sleep 1
	go_deaf || return
	sleep 1
	dies "$victim"
	status=$?
	hear
	wait "$victim" 2>/dev/null
	return "$status"
}

after() { random_file "$mnt/after" 1000000 && same_file after; }

plan 7
mount_nfs 4.2 || exit
check "killed while it writes" killed "${KILLS:-3}" write
check "killed while it reads" killed "${KILLS:-3}" read
check "killed while nothing arrives" killed_in_silence
check "64 jobs find their credits" verified_io --numjobs=64 --size=1M --bsrange=4k-128k
check "a file is the same on both machines" after
check "unmounts" umount "$mnt"
check "the module unloads" unload
finish
