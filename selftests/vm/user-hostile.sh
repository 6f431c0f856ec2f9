#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A hostile process without privileges, on a device in one VM: what it may try with user verbs (selftests/user-threats.tsv) costs
# itself only. The kernel that looks for faults has its say after each case.
#
# USER_CASES= the cases to run, instead of all; USER_LIMIT= seconds for each, instead of 60; KILLS= processes that are killed at
# random, instead of 200, or 10,000 with LONG_FORMS=yes; SEED= when, instead of a number that is printed

. ./lib.sh
clear_logs

user=$test_programs/user
[ -x "$user" ] || cannot_run "the hostile process is built (\`scripts/enter scripts/programs.sh\` does)"
# The device is of the link type of this run, if that is iWARP.
type=iwarp-tcp
case $RDMA in
iwarp-sctp | siw) type=$RDMA ;;
esac
if [ "$type" != siw ]; then
	# Others may have loaded it in another way.
	! [ -e /sys/module/iwarp ] || rmmod iwarp
	modprobe iwarp || cannot_run "there is iwarp.ko"
fi
if ! modprobe -a rdma_ucm ib_uverbs || ! modprobe dummy numdummies=0; then cannot_run "there are user verbs"; fi
device=iw9
add() { ip link add u0 type dummy && ip address add 10.10.0.1/24 dev u0 && ip link set u0 up && rdma link add $device type "$type" netdev u0; }
add || cannot_run "there is a device"
read -r -a cases <<<"${USER_CASES:-$("$user" list | xargs)}"
# One that takes no time, for what depends on who may use the device.
quick=$("$user" list | head -n 1)

as_nobody() { setpriv --reuid "${uid:-65534}" --regid "${uid:-65534}" --clear-groups --inh-caps=-all --no-new-privs "$@"; }
limit=${USER_LIMIT:-60}
[[ $KERNEL != *debug || -n ${USER_LIMIT:-} ]] || limit=240
kills=200
! long_form || kills=10000
export KILLS=${KILLS:-$kills} SEED=${SEED:-$RANDOM}
hostile() {
	local seconds=$limit
	[ "$1" != processes_are_killed_at_any_time ] || seconds=$((limit + KILLS))
	DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$seconds" "$user" run "$1"
}

# A kernel with fault injection fails the allocation that a process names for its own calls. Nothing else fails: no probability is set.
for fault in /sys/kernel/debug/fail{slab,_page_alloc}; do
	[ -d "$fault" ] || continue
	echo N >"$fault"/ignore-gfp-wait
	echo 0 >"$fault"/verbose
done
[ ! -d /sys/kernel/debug/fail_page_alloc ] || echo 0 >/sys/kernel/debug/fail_page_alloc/min-order

# Some cases need swap, and a huge page of 2 MiB.
swap() { grep -q '^/' /proc/swaps || { modprobe zram && echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0; } >/dev/null 2>&1; }
huge_pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
[ ! -e $huge_pages ] || echo 2 >$huge_pages

# Prints which objects there are, and whose.
left() { for kind in qp srq cq mr pd cm_id ctx; do rdma resource show "$kind"; done; }
nothing_left() {
	local tries=50
	while left | grep -q ' pid '; do
		((--tries)) || { left; return 1; }
		sleep 0.1
	done
}

# The device goes while processes use it. They end, as what they wait for does.
again() { rdma link add $device type "$type" netdev u0; }
with_traffic() {
	local round process tries status
	for round in {1..5}; do
		# What the last process said is no sign of this one.
		: >/tmp/traffic.log
		DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" traffic >/tmp/traffic.log 2>&1 &
		process=$! tries=1200
		until grep -qx runs /tmp/traffic.log; do
			((--tries)) || { echo "there is no traffic in round $round"; cat /tmp/traffic.log; return 1; }
			sleep 0.05
		done
		sleep "0.$((RANDOM % 10))"
		kill -0 $process || { echo "it ended too early in round $round"; cat /tmp/traffic.log; return 1; }
		timeout 20 "$@" || { echo "in round $round"; return 1; }
		status=0
		wait $process || status=$?
		# It ends by itself, with what it does next: not when it is killed for its time, or is well without a device.
		[ $status -eq 1 ] || { echo "it ends with $status in round $round"; cat /tmp/traffic.log; return 1; }
		again || return
	done
}
# A process waits for an event of its context when the device goes.
is_told() {
	local process tries=1200 status=0
	: >/tmp/device-goes.log
	run_user device-goes >/tmp/device-goes.log 2>&1 &
	process=$!
	until grep -qx runs /tmp/device-goes.log; do ((--tries)) || { cat /tmp/device-goes.log; return 1; }; sleep 0.05; done
	timeout 20 rdma link del $device || return
	wait $process || status=$?
	cat /tmp/device-goes.log
	again && return $status
}
# A process has a context and rings of a device that is gone, and then of a module that is gone.
outlives() {
	local process tries=600
	mkfifo /tmp/victim && : >/tmp/victim.log || return
	DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" victim </tmp/victim >/tmp/victim.log 2>&1 &
	process=$!
	exec {input}>/tmp/victim
	until grep -q . /tmp/victim.log; do ((--tries)) || return; sleep 0.1; done
	timeout 20 rdma link del $device || return
	[ "$type" = siw ] || timeout 20 rmmod iwarp || return
	exec {input}>&-
	timeout "$limit" tail --pid=$process -f /dev/null || return
	[ "$type" = siw ] || modprobe iwarp || return
	again
}

# run_user COMMAND: one of the process's commands that are no cases.
run_user() { DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" "$@"; }
run_user_as_root() { DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" unshare --user --map-root-user "$user" "$@"; }

# The kernel's own consumers on the device: an NFS client, and the server that it mounts, in this machine.
serve() { "$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- && mount_nfs 3 "" 10.10.0.1 && kernel_qps | grep -q .; }
kernel_qps() { rdma resource show qp link $device/1 | grep -v ' pid ' | sed -n 's/.* lqpn \([0-9]*\) .*/\1/p' | grep -vx '[01]'; }
goes_there_and_back() {
	dd if=/dev/urandom of=/tmp/random bs=64k count=8 status=none && dd if=/tmp/random of=$mnt/random bs=64k conv=fsync status=none &&
		cmp /tmp/random /export/random && drop_file $mnt/random && cmp /tmp/random $mnt/random
}
not_of_processes() {
	local numbers before
	numbers=$(kernel_qps | xargs) before=$(rdma resource show qp)
	echo "queue pairs of the kernel: $numbers"
	KERNEL_QPS=$numbers run_user kernel-qps && goes_there_and_back || return
	# They are the same, so no connection was made anew.
	[ "$numbers" = "$(kernel_qps | xargs)" ] || { echo "$before"; rdma resource show qp; return 1; }
}
# full COMMAND...: runs a command while a process has as many regions as it may.
full() {
	local process tries=600 status=0
	rm -f /tmp/fills
	mkfifo /tmp/fills && : >/tmp/fills.log || return
	run_user fills </tmp/fills >/tmp/fills.log 2>&1 &
	process=$!
	exec {input}>/tmp/fills
	until grep -q . /tmp/fills.log; do ((--tries)) || return; sleep 0.1; done
	[ "$(rdma resource show mr | grep -c "dev $device .* pid ")" -gt 1000 ] || { echo "where are its regions?"; status=1; }
	"$@" || status=$?
	exec {input}>&-
	wait $process || status=$?
	cat /tmp/fills.log
	return $status
}
# A user has as many contexts and protection domains as one may, and no more by another process, or as root of a namespace of its own.
# Others have theirs, and all come back.
shared_by_users() {
	local process tries=$((limit * 10)) status=0
	mkfifo /tmp/all-objects && : >/tmp/all-objects.log || return
	(ulimit -n 32768 && run_user all-objects) </tmp/all-objects >/tmp/all-objects.log 2>&1 &
	process=$!
	exec {input}>/tmp/all-objects
	until grep -q . /tmp/all-objects.log; do ((--tries)) || { status=1; break; }; sleep 0.1; done
	cat /tmp/all-objects.log
	grep -qx '8192 contexts, 16384 domains' /tmp/all-objects.log || status=1
	run_user run regions_are_registered 2>&1 | grep -x 'GET_CONTEXT: errno 12' || status=1
	run_user_as_root run regions_are_registered 2>&1 | grep -x 'GET_CONTEXT: errno 12' || status=1
	uid=65533 run_user run regions_are_registered || status=$?
	exec {input}>&-
	wait $process || status=$?
	run_user run regions_are_registered && run_user_as_root run regions_are_registered && return $status
}
# As many regions as a user may have, by more locked memory than that is by default.
many_regions() {
	local status=0
	(ulimit -l unlimited && run_user fills </dev/null) >/tmp/many-regions 2>&1 || status=$?
	cat /tmp/many-regions
	grep -qx '131072 regions end with errno 12' /tmp/many-regions && return $status
}
register() { umount "$mnt" && mount_nfs 3 "" 10.10.0.1 && goes_there_and_back && hostile regions_are_registered; }
stop_serving() { umount "$mnt" && "$scripts/vm/nfs-server" stop && qps_go; }
qps_go() {
	local tries=100
	while kernel_qps | grep -q .; do ((--tries)) || { rdma resource show qp; return 1; }; sleep 0.1; done
}

counted_overruns() { rdma statistic show link $device/1 | grep -o 'cq_overruns [0-9]*' | cut -d' ' -f2; }
# Completions that a process does not take are lost, and the device says so.
overruns() {
	local tracing=/sys/kernel/tracing status=0 before
	before=$(counted_overruns)
	echo >$tracing/trace
	echo 1 >$tracing/events/iwarp/iwarp_cq_overrun/enable || return
	hostile completions_that_nobody_takes || status=$?
	echo 0 >$tracing/events/iwarp/iwarp_cq_overrun/enable
	[ "$(counted_overruns)" -eq $((before + 1)) ] || { rdma statistic show link $device/1; status=1; }
	grep -E ' iwarp_cq_overrun: dev=[0-9]+ cq.id=[0-9]+ qp=[1-9][0-9]* wr_id=0x[0-9a-f]+ lost=1$' $tracing/trace || status=1
	dmesg | grep 'iwarp: connection to 10.10.0.1:[0-9]* lost: a completion queue has overrun' && return $status
}

# A cgroup of its own for a process, and what that may take.
cgroups=/sys/fs/cgroup
has_cgroups() {
	{ mountpoint -q $cgroups || mount -t cgroup2 none $cgroups; } 2>/dev/null && echo '+memory +rdma' >$cgroups/cgroup.subtree_control
}
# in_group COMMAND: one of the process's commands, in the cgroup. Nothing else of this machine is there.
in_group() {
	# shellcheck disable=SC2016 # the inner shell expands them
	DEVICE=$device ADDRESS=10.10.0.1 timeout "$limit" bash -c 'ulimit -n 8192; echo $$ >"$0"/cgroup.procs && exec setpriv \
		--reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs "$@"' "$group" "$user" "$@"
}
of_kernel() { sed -n 's/^kernel //p' "$group"/memory.stat; }
killed() { sed -n 's/^oom_kill //p' "$1"; }
# charged KIND: queues of that kind, or connections, fill the memory of a cgroup. The process has ENOMEM, or is killed as by any memory of
# its cgroup, and nobody else is; what it had comes back.
charged() {
	local group=$cgroups/charged most=$((64 << 20)) status=0 octets before tries=100
	mkdir $group && echo $most >$group/memory.max || return
	[ ! -e $group/memory.swap.max ] || echo 0 >$group/memory.swap.max
	before=$(killed /proc/vmstat)
	in_group rings "$1" >/tmp/rings.log 2>/tmp/rings.errors || status=$?
	octets=$(tail -n 1 /tmp/rings.log)
	echo "it ends with $status, $octets octets; $(of_kernel) octets of the kernel are charged then"
	cat /tmp/rings.errors $group/memory.events
	[ $status -eq 0 ] || [ $status -eq 137 ] || return
	[ $(($(killed /proc/vmstat) - before)) -eq "$(killed $group/memory.events)" ] || { echo "others are killed"; return 1; }
	[ "${octets:-0}" -gt $((most / 8)) ] && [ "$octets" -le $most ] || return
	until [ "$(of_kernel)" -lt $((1 << 20)) ]; do ((--tries)) || { cat $group/memory.stat; return 1; }; sleep 0.1; done
	rmdir $group
}
# The objects of a cgroup are counted; others register memory meanwhile.
counted() {
	local group=$cgroups/counted process tries=100 status=0
	mkdir $group && echo "$device hca_handle=2 hca_object=20" >$group/rdma.max && mkfifo /tmp/objects || return
	in_group objects </tmp/objects >/tmp/objects.log 2>&1 &
	process=$!
	exec {input}>/tmp/objects
	until grep -q . /tmp/objects.log; do ((--tries)) || { status=1; break; }; sleep 0.1; done
	cat /tmp/objects.log $group/rdma.current
	grep -qx '2 contexts, 20 domains' /tmp/objects.log && hostile regions_are_registered || status=$?
	exec {input}>&-
	wait $process || status=$?
	rmdir $group && return $status
}

# The module without user verbs: its device is there for the kernel only.
for_the_kernel() {
	local status=0
	timeout 20 rmmod iwarp && modprobe iwarp user=0 && again || return
	! grep -x $device /sys/class/infiniband_verbs/uverbs*/ibdev || { echo "there is a device for programs"; return 1; }
	if ! not hostile "$quick" >/tmp/refused 2>&1 || ! grep "no uverbs device is of $device" /tmp/refused; then
		cat /tmp/refused
		return 1
	fi
	serve && goes_there_and_back || status=$?
	stop_serving || status=$?
	timeout 20 rmmod iwarp && modprobe iwarp && again && return $status
}
# The example of a rule for udev, which is not there otherwise, closes the devices to who is not of the group.
open_to_others() { stat -c '%n %U:%G %a' /dev/infiniband/{uverbs*,rdma_cm} | grep -v ' root:rdma 660$'; }
closed_by_udev() {
	local udev status=0 tries=100
	cp ../../scripts/packaging/examples/99-rdma-users.rules /etc/udev/rules.d/ || return
	/usr/lib/systemd/systemd-udevd >/tmp/udev.log 2>&1 &
	udev=$!
	# It waits for ever for events that come before the daemon listens.
	until timeout 20 udevadm trigger --settle --subsystem-match=infiniband_verbs --subsystem-match=misc && ! open_to_others; do
		((--tries)) || { status=1; break; }
		sleep 0.1
	done
	not hostile "$quick" >/tmp/refused 2>&1 && grep 'Permission denied' /tmp/refused || status=$?
	cat /tmp/udev.log
	# A device that is made from now on, without udev, is open to all again.
	kill $udev
	wait $udev
	rm /etc/udev/rules.d/99-rdma-users.rules
	chmod 666 /dev/infiniband/{uverbs*,rdma_cm} && hostile "$quick" && return $status
}

plan $((${#cases[@]} + 21))
echo "# processes are killed as SEED=$SEED says"
for case in "${cases[@]}"; do
	if [ "$case" = calls_end_with_enomem ] && [ ! -d /sys/kernel/debug/failslab ]; then
		skip "$case" "this kernel fails no allocations"
	elif [ "$case" = region_is_not_swapped_out ] && ! swap; then
		skip "$case" "this machine has nothing to swap to"
	else
		check "$case" hostile "$case"
	fi
done
check "nothing of these processes is left" nothing_left
if [ "$type" = siw ]; then
	skip "users who share a device" "siw counts all users together"
else
	# Shows T10, T11.
	check "a user who has as many contexts and domains as one may leaves others theirs" shared_by_users
fi
if [ "$type" = siw ] || ! long_form; then
	skip "regions of a user" "only the long form"
else
	# Shows T11.
	check "a user has an eighth of the regions of a device" many_regions
fi
if [ "$type" = siw ]; then
	skip "lost completions are traced, counted and logged" "siw does none of it"
else
	check "lost completions are traced, counted and logged" overruns
fi
check "the kernel has queue pairs on the device" serve
# Shows T9.
check "queue pairs of the kernel are not connected by a process" not_of_processes
# Shows T11.
check "others register memory while a process has as many regions as it may" full register
check "the kernel has none any more" stop_serving
check "nothing of a process is left when it has ended" nothing_left
if has_cgroups; then
	for kind in cq srq qp; do
		# Shows T10.
		check "rings are charged to the cgroup of the process, those of a $kind" charged $kind
	done
	if [ "$type" = iwarp-sctp ]; then
		skip "the memory of a connection is charged to the cgroup of the process" "it has no buffers over SCTP"
	else
		# Shows T10.
		check "the memory of a connection is charged to the cgroup of the process" charged connection
	fi
	# Shows T10.
	check "objects are counted in the cgroup of the process" counted
else
	for kind in cq srq qp connection object; do skip "cgroup of a process, $kind" "this kernel has no cgroups for memory and RDMA"; done
fi
# Shows T22.
check "a rule of udev closes the device to users" closed_by_udev
# Shows T22.
if [ "$type" = siw ]; then skip "without user verbs" "siw has them always"; else check "with user=0 the kernel has the device, and no program" for_the_kernel; fi
# Shows T13.
check "the device goes while processes use it, and comes back" with_traffic rdma link del $device
# Shows T13.
check "a process that waits for events is told that the device goes" is_told
# Shows T13.
check "the module goes while a process has a context and rings" outlives
check "nothing of a process is left then" nothing_left
check "the device goes with its network device" eval "ip link del u0 && ! rdma link show | grep $device"
finish
