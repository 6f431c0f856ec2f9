#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Files and programs use the devices for SOAK_MINUTES= minutes (100), with faults chosen by SEED= (1): no data is lost, and what the kernels
# have in use does not grow. Over the strict device these are the faults of adapters (selftests/strict/faults.c); else lost packets, broken
# connections, servers that restart, devices that go. The load: fio with verification, fsx.py, stress-ng, dbench and perftest, all at the
# same time, over two mounts. A strict device is not for programs, so beside it perftest has an iwarp-tcp device on a network of its own.
#
# It goes in rounds. Behind the faults of each one the load ends, its files and its mounts go, and both machines are sampled; in the end
# ../soak/growth.py judges the samples. A third mount lasts, and is hardly used: a connection gets more memory with use. A pair;
# ../suites/loads.sh has unpacked stress-ng and dbench. SOAK_FAULTS= in each round on either side.

. ./lib.sh
. ./programs.sh
need_pair
has_layer /src/build/loads || cannot_run "selftests/suites/loads.sh has unpacked stress-ng and dbench"

minutes=${SOAK_MINUTES:-100} seed=${SEED:-1}
faults=${SOAK_FAULTS:-$((4 + minutes / 10))}
second=/mnt/second lasting=/mnt/lasting here=/vm/soak going=/tmp/soak-goes-on
mkdir -p $second $lasting $here
# Their results outlive a machine that dies.
growth=$PWD/../soak/growth.py

# One command at a time can be on its way to the server, and several parts of this test have some.
on_server() { flock /tmp/on-server.lock "$scripts/vm/on-server" "$@"; }
both() { eval "$*" && on_server "$*"; }

mount_second() {
	local mnt=$second
	mount_nfs 3 nconnect=2
}
mount_lasting() {
	local mnt=$lasting
	mount_nfs 4.1
}

# Where perftest's server is.
programs_at=$SERVER_ADDR
if [ -n "$STRICT" ]; then
	. ./strict-device.sh
	programs_at=10.0.9.1
	# Without a device below it, or the strict one would have its addresses, too.
	add_device() {
		modprobe -a vxlan iwarp
		ip link add nw type vxlan id 9 dstport 4789 local "10.0.0.$1" remote "10.0.0.$((3 - $1))" && ip address add "10.0.9.$1/24" dev nw &&
			ip link set nw up && rdma link add iw9 type iwarp-tcp netdev nw
	}
	if ! add_device 2 || ! on_server "$(declare -f add_device); add_device 1"; then cannot_run "both machines have an iwarp-tcp device"; fi
fi
both "modprobe -a rdma_ucm ib_uverbs"
ulimit -l unlimited

# What the load consists of; each part runs again and again until the round ends.
io_directly() { place=(--directory="$mnt/direct"); verified_io --size=8M --numjobs=2; }
io_by_cache() { fio --name=cached --directory="$mnt/cached" --ioengine=psync --rw=randwrite --bsrange=512-256k --bs_unaligned --size=2M --numjobs=2 \
	--verify=crc32c --verify_fatal=1 --end_fsync=1 --invalidate=1 --fallocate=none --unlink=1 --randseed=$RANDOM; }
any_use() { ./fsx.py $second/fsx/file 5; }
# One after the other. What it does not find in NFS, stress-ng skips: the status is 3 or 4. Those that make thousands of files take minutes
# to remove them. A server that has just begun delays an open of NFSv4, and the signal by which stress-ng ends a stressor interrupts that
# (nfs4_delay_interruptible).
stressors=(hdd iomix dentry rename chmod fallocate seek utime filename fstat getdent lockf flock metamix touch unlink)
stress() {
	local stressor size=() status=0
	stressor=${stressors[$(cat $here/stressors 2>/dev/null | wc -l) % ${#stressors[@]}]}
	case $stressor in
	hdd | iomix | fallocate | metamix) size=("--$stressor-bytes" 2m) ;;
	seek) size=(--seek-size 2m) ;;
	dentry) size=(--dentries 64) ;;
	esac
	stress-ng --"$stressor" 1 "${size[@]}" --timeout 4 --temp-path "$mnt/stress" --verify || status=$?
	echo "$stressor $status" >>$here/stressors
	[ $status -eq 0 ] || [ $status -eq 3 ] || [ $status -eq 4 ] || { [ $status -eq 2 ] && was_interrupted; }
}
was_interrupted() { grep 'fail: ' $here/stress.log | not grep -v '(Interrupted system call)'; }
hardly_any_use() { echo "$round" >$lasting/little/file && sync $lasting/little/file && sleep 1 && stat $lasting/little/file; }
clients_of_a_server() { dbench -D $second/dbench -t 4 2; }

# A program breaks off when its device goes, so these may fail during faults; but they end, and leave nothing.
programs=(ib_send_bw ib_read_bw ib_write_bw)
serve_programs() {
	for index in 0 1 2; do
		while [ -e $going ]; do
			timeout "$limit" "${programs[index]}" -R -F -n 50 -s 65536 -p $((18515 + index)) >/tmp/program-$index.log 2>&1 || sleep 0.3
		done &
	done
	wait
}
uses_program() {
	local index=$((RANDOM % ${#programs[@]}))
	timeout "$limit" "${programs[index]}" -R -F -n 50 -s 65536 -p $((18515 + index)) "$programs_at" && echo "${programs[index]}" >>$here/programs
	sleep 0.5
}

# repeat NAME COMMAND: until the round ends, or the command fails, which ends the round.
repeat() {
	local times=0
	while [ -e $going ]; do
		if ! "$2" >"$here/$1.log" 2>&1 && [ "$1" != programs ]; then
			{ echo "round $round: $1 failed:"; tail -n 40 "$here/$1.log"; } >>$here/failures
			rm -f $going
		fi
		times=$((times + 1))
	done
	echo "$1 $times" >>$here/times
}

# Faults of iwarp-tcp, or of rxe. The connection manager of the other side learns of none of them beforehand.
lose_packets() { drop_packets && sleep $((1 + $1 % 3)) && pass_packets; }
kills_a_program() { pkill -KILL -x "${programs[$1 % 3]}"; sleep 1; }
one_fault() {
	case $(($1 % 7)) in
	0 | 1) drop_connection ;;
	2) lose_packets "$2" ;;
	3) kills_a_program "$2" || true ;;
	4) restart_server ;;
	5) on_server "rdma link del $RDMA_DEVICE; sleep 1; rdma link add $RDMA_DEVICE type $RDMA netdev eth0" ;;
	6) rdma link del "$RDMA_DEVICE" && sleep 1 && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 ;;
	esac
}
links_fail() {
	RANDOM=$((seed * 1000 + round))
	for _ in $(seq $((2 * faults))); do
		local kind=$RANDOM choice=$RANDOM
		sleep $((1 + choice % 2))
		echo "round $round: fault $((kind % 7)) ($choice)" >>$here/faults
		one_fault $kind $choice || { echo "round $round: fault $((kind % 7)) could not be made" >>$here/failures; return; }
		met=$((met + 1))
		[ -e $going ] || return
	done
}

# The same plans as those of adapter-faults.sh, others in each round.
adapters_fail() {
	local plan count passed
	on_server "$(declare -f has_ended tend); $(declare -p RDMA RDMA_DEVICE)
		echo $((seed + 2 * round + 1)) $faults >$debug/plan; tend >/tmp/tend 2>&1 3>&- 4>&- &"
	echo $((seed + 2 * round)) "$faults" >"$debug/plan"
	tend
	until on_server "$(declare -f has_ended); [ ! -e /tmp/tending ] && has_ended" || [ ! -e $going ]; do sleep 1; done
	for plan in "$(<"$debug/plan")" "$(on_server cat "$debug/plan")"; do
		echo "round $round: $plan" >>$here/faults
		read -r _ _ _ _ _ count _ passed _ <<<"$plan"
		[ $((count + passed)) = "$faults" ] || echo "round $round: a fault that is none of the plan" >>$here/failures
		met=$((met + count))
	done
}

# One after the other: who waits for a command on the server is in use here.
sample() {
	on_server "$growth sample" >>$here/server 2>>$here/failures
	"$growth" sample >>$here/client 2>>$here/failures
}

# What kmemleak suspects is in the samples, which know what the kernel itself leaks.
no_reports() { { "$scripts/dmesg.sh"; on_server "$scripts/dmesg.sh"; } | not grep -v 'kmemleak: [0-9]* new suspected'; }

# The logs are as long as the run, and a kernel keeps the end only.
keep_logs() {
	no_reports >>$here/reports || echo "round $round: a kernel reports a fault" >>$here/failures
	{ echo "round $round"; dmesg -c; } >>$here/dmesg
	on_server "dmesg -c" >>$here/dmesg-there
}

a_round() {
	if ! mount_nfs 4.2 || ! mount_second || ! mkdir -p "$mnt"/{direct,cached,stress} $second/{fsx,dbench} $lasting/little; then
		echo "round $round: cannot begin" >>$here/failures
		return
	fi
	both "touch $going"
	on_server "$(declare -f serve_programs); $(declare -p programs going limit); ulimit -l unlimited
		serve_programs >/dev/null 2>&1 </dev/null 3>&- 4>&- & echo \$! >/tmp/serving"
	repeat direct io_directly &
	repeat cached io_by_cache &
	repeat fsx any_use &
	repeat little hardly_any_use &
	repeat stress stress &
	repeat dbench clients_of_a_server &
	repeat programs uses_program &
	if [ -n "$STRICT" ]; then adapters_fail; else links_fail; fi
	# One that was just about to begin is not missed.
	on_server "rm -f $going; while kill -0 \$(</tmp/serving) 2>/dev/null; do pkill -x 'ib_.*_bw'; sleep 0.2; done"
	rm -f $going
	pkill -x 'ib_.*_bw'
	wait
	if ! rm -rf "${mnt:?}"/* || ! umount $second "$mnt" || ! df $lasting || ! nothing_left; then echo "round $round: cannot end" >>$here/failures; fi
	sample
	keep_logs
} >$here/round.log 2>&1

met=0 round=0
goes_well() { [ ! -s $here/failures ]; }
soak() {
	local end=$((SECONDS + 60 * minutes))
	until [ $SECONDS -ge $end ] && [ $round -ge 8 ]; do
		round=$((round + 1))
		a_round
		goes_well || return
		echo "# round $round: $met faults, $((SECONDS / 60)) minutes, $(tail -n 1 $here/server | cut -c -40)" >&4
	done
}

data_is_whole() { [ ! -s $here/failures ] || { cat $here/failures; return 1; }; }
most_happened() { echo "$met of $((2 * faults * round))"; [ $((10 * met)) -ge $((16 * faults * round)) ]; }
each_ran() {
	local name count=0
	sort $here/times | uniq -c
	for name in direct cached fsx little stress dbench programs; do
		[ "$(awk -v name=$name '$1 == name { sum += $2 } END { print sum + 0 }' $here/times)" -ge "$round" ] || return
	done
	for name in "${stressors[@]}"; do ! grep -qx "$name 0" $here/stressors || count=$((count + 1)); done
	echo "$count stressors"
	[ $count -ge 10 ] || return
	for name in "${programs[@]}"; do grep -c "$name" $here/programs || return; done
}
does_not_grow() { "$growth" judge $((2 * faults)) <"$here/$1"; }
nothing_is_held() { umount $lasting && timeout 60 rdma link del "$RDMA_DEVICE" && restore_device; }

echo "# SEED=$seed SOAK_FAULTS=$faults SOAK_MINUTES=$minutes"
rm -rf ${here:?}/*
exec 4>&1
checks=6
[ -z "$STRICT" ] || checks=7
plan $checks
mount_lasting || exit
soak
check "no data is lost" data_is_whole
check "most faults happened" most_happened
check "each load ran, and each program" each_ran
check "nothing grows" does_not_grow client
check "nothing grows on the server" does_not_grow server
check "nothing holds the device" nothing_is_held
[ -z "$STRICT" ] || check "no request was beyond a limit, and all memory was mapped" no_fault_counted
finish
