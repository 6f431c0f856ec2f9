#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# CPUs that go offline, and tasks that are frozen for a suspend, during I/O. Where the kernel has neither, as under User-Mode Linux, this
# is skipped; `make check-all` runs it under QEMU.
#
# LONG_FORMS=yes does each of that ten times.

. ./lib.sh
need_pair

times=1
! long_form || times=10
load=(--size=16M --numjobs=2)
cpu=/sys/devices/system/cpu/cpu1/online

repeatedly() { for _ in $(seq $times); do "$@" || return; done; }

# The shell that does it may run there.
offline="echo 0 >$cpu && grep -q 0 $cpu"
online="echo 1 >$cpu && grep -q 1 $cpu"
goes_and_returns() { sleep 1 && bash -c "$offline" && sleep 3 && bash -c "$online" && sleep 1; }
goes_and_returns_there() { sleep 1 && on_server "$offline && sleep 3 && $online" && sleep 1; }

# What is made for each CPU is made with one, and used with two.
made_with_one() {
	local status=0
	umount "$mnt" && bash -c "$offline" || return
	rdma link del "$RDMA_DEVICE" && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && mount_nfs 4.2 && verified_io "${load[@]}" || status=1
	bash -c "$online" && verified_io "${load[@]}" || status=1
	return $status
}
made_with_one_there() {
	local status=0
	on_server "$offline && rdma link del $RDMA_DEVICE && rdma link add $RDMA_DEVICE type $RDMA netdev eth0" && verified_io "${load[@]}" || status=1
	on_server "$online" && verified_io "${load[@]}" || status=1
	return $status
}

# All tasks are frozen for five seconds, as for a suspend, which goes no further. A file system that does not answer would hold up the
# sync before that, so there is none.
freeze="echo 0 >/sys/power/sync_on_suspend && echo freezer >/sys/power/pm_test && echo freeze >/sys/power/state"
is_frozen() { sleep 1 && bash -c "$freeze" && sleep 1; }
is_frozen_there() { sleep 1 && on_server "$freeze" && sleep 1; }

# Calls wait for a server that is silent. A task that waits for one can be frozen; one that waits for the lock of a directory cannot.
frozen_while_silent() {
	local call status=0
	drop_packets || return
	df "$mnt" &
	call=$!
	mkdir "$mnt/made" &
	sleep 2
	bash -c "$freeze" || status=1
	pass_packets
	timeout 120 tail --pid=$call --pid=$! -f /dev/null && wait $call && wait $! || status=1
	rmdir "$mnt/made" && return $status
}

# check_if FILE REASON DESCRIPTION COMMAND...
check_if() { if [ -e "$1" ]; then check "${@:3}"; else skip "$3" "$2"; fi; }
check_cpu() { check_if $cpu "no CPU of this kernel can go offline" "$@"; }
check_freezer() { check_if /sys/power/pm_test "this kernel cannot test a suspend" "$@"; }

plan 9
mount_nfs 4.2 || exit
check_cpu "a CPU of the client goes offline during I/O, and returns" repeatedly during_io goes_and_returns
check_cpu "a CPU of the server goes offline during I/O, and returns" repeatedly during_io goes_and_returns_there
check_cpu "the client's device is made with one CPU, and used with two" repeatedly made_with_one
check_cpu "the server's device is made with one CPU, and used with two" repeatedly made_with_one_there
check_freezer "the client's tasks are frozen during I/O, and go on" repeatedly during_io is_frozen
check_freezer "the server's tasks are frozen during I/O, and go on" repeatedly during_io is_frozen_there
check_freezer "the client's tasks are frozen while the server is silent, and go on" repeatedly frozen_while_silent
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "the file system unmounts" umount "$mnt"
finish
