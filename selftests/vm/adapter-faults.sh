#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What adapters do at times (selftests/strict/faults.c), on both sides during verified I/O, by a plan: FAULTS= faults (50), half of them
# on either side, chosen by SEED= (1). The same seed has the same faults in the same order.
# A pair, --rdma strict. The logs of both sides stay in faults.log of the run.

. ./lib.sh
need_pair
[ -n "$STRICT" ] || cannot_run "this test needs the strict device"
. ./strict-device.sh

faults=${FAULTS:-50} seed=${SEED:-1}
load=(--size=4M --numjobs=2)

# Begins half of the plan here and half on the server, and waits until both have ended. Meanwhile a device that goes comes back.
plan_runs() {
	on_server "$(declare -f has_ended tend); $(declare -p RDMA RDMA_DEVICE); echo $((seed + 1)) $((faults / 2)) >$debug/plan; tend >/tmp/tend 2>&1 &"
	echo "$seed $((faults - faults / 2))" >$debug/plan
	tend
	on_server "$(declare -f has_ended); until [ ! -e /tmp/tending ] && has_ended; do sleep 0.2; done; cat /tmp/tend"
}

# A fault without an occasion for it is passed over, which is to be seldom. None comes after the last one.
most_happened() {
	local plan met planned passed sum=0
	for plan in "$(<$debug/plan)" "$(on_server cat $debug/plan)"; do
		echo "$plan"
		read -r _ _ _ planned _ met _ passed _ <<<"$plan"
		[ $((met + passed)) = "$planned" ] || return
		sum=$((sum + met))
	done
	echo "$sum of $faults, $planned of them on the server"
	[ $((10 * sum)) -ge $((8 * faults)) ]
}

# Which faults came, and what was said of them.
keep_logs() { dmesg >/vm/faults.log; on_server 'dmesg >/vm/faults.log'; }

io_goes_on() { verified_io "${load[@]}" && df "$mnt"; }
nothing_is_held() { umount "$mnt" && timeout 60 rdma link del "$RDMA_DEVICE" && restore_device; }

# Each of so many attempts fails, with one error or another. What is made then is smaller.
mounts_in_spite_of() {
	local kind=$1
	echo "$seed 3 $kind" >$debug/plan
	shift
	[ $# -eq 0 ] || on_server "echo '$seed 3 $kind' >$debug/plan"
	mount_nfs 4.2 && grep 'met 3 passed 0 ended' $debug/plan || return
	[ $# -eq 0 ] || on_server "grep 'met 3 passed 0 ended' $debug/plan" || return
	umount "$mnt"
}
shortages() { dmesg | grep -c 'no resources for .* calls to'; }
# has_fewer_credits KIND: the connection that meets such faults is used, and the client says that it has less.
has_fewer_credits() {
	local there
	there=$(shortages)
	mounts_in_spite_of "$1" && [ "$(shortages)" -gt "$there" ]
}

# Who looks for the reason of fewer credits finds it in the server's log.
said_so() { on_server "dmesg | grep -E 'connection of $CLIENT_ADDR:[0-9]+ has [0-9]+ instead of [0-9]+ credits: the device, or memory, was short of more'"; }

echo "# SEED=$seed FAULTS=$faults"
plan 9
check "queue pairs that cannot be made, on either side, are made smaller" mounts_in_spite_of queue-pair-fails on-both-sides
check "the server says that such a connection has fewer credits" said_so
check "without memory regions there are fewer credits" has_fewer_credits region-fails
check "without mappings of Receives there are fewer credits" has_fewer_credits receive-map-fails
mount_nfs 4.2 || exit
check "no data is lost" during_io plan_runs
check "most faults happened" most_happened
check "the mount goes on" io_goes_on
check "nothing holds the device" nothing_is_held
check "no request was beyond a limit, and all memory was mapped" no_fault_counted
keep_logs
finish
