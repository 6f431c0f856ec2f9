#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A hostile process without privileges, on a device in one VM: what it may try with user verbs (selftests/user-threats.tsv) costs
# itself only. The kernel that looks for faults has its say after each case.
#
# USER_CASES= the cases to run, instead of all; USER_LIMIT= seconds for each, instead of 60

. ./lib.sh
clear_logs

user=../../build/cargo/release/user
[ -x "$user" ] || cannot_run "the hostile process is built (\`make check-fast\` does)"
# The device is of the link type of this run, if that is iWARP. Others ran before, with the module as it is by default.
type=iwarp-tcp
case $RDMA in
iwarp-sctp | siw) type=$RDMA ;;
esac
if [ "$type" != siw ]; then
	! [ -e /sys/module/iwarp ] || rmmod iwarp
	modprobe iwarp user=1 || cannot_run "iwarp has user verbs"
fi
if ! modprobe -a rdma_ucm ib_uverbs || ! modprobe dummy numdummies=0; then cannot_run "there are user verbs"; fi
device=iw9
add() { ip link add u0 type dummy && ip address add 10.10.0.1/24 dev u0 && ip link set u0 up && rdma link add $device type "$type" netdev u0; }
add || cannot_run "there is a device"
read -r -a cases <<<"${USER_CASES:-$("$user" list | xargs)}"

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --no-new-privs "$@"; }
limit=${USER_LIMIT:-60}
[[ $KERNEL != *debug || -n ${USER_LIMIT:-} ]] || limit=240
hostile() { DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" run "$1"; }

# Prints which objects there are, and whose.
left() { for kind in qp cq mr pd cm_id ctx; do rdma resource show "$kind"; done; }
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
	local round process
	for round in {1..5}; do
		DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" traffic >/dev/null 2>&1 &
		process=$!
		sleep "0.$((RANDOM % 10))"
		timeout 20 "$@" || { echo "in round $round"; return 1; }
		timeout "$limit" tail --pid=$process -f /dev/null || return
		again || return
	done
}
# A process has a context and rings of a device that is gone, and then of a module that is gone.
outlives() {
	local process tries=100
	mkfifo /tmp/victim || return
	DEVICE=$device ADDRESS=10.10.0.1 as_nobody timeout "$limit" "$user" victim </tmp/victim >/tmp/victim.log 2>&1 &
	process=$!
	exec {input}>/tmp/victim
	until grep -q . /tmp/victim.log; do ((--tries)) || return; sleep 0.1; done
	timeout 20 rdma link del $device || return
	[ "$type" = siw ] || timeout 20 rmmod iwarp || return
	exec {input}>&-
	timeout "$limit" tail --pid=$process -f /dev/null || return
	[ "$type" = siw ] || modprobe iwarp user=1 || return
	again
}

plan $((${#cases[@]} + 5))
for case in "${cases[@]}"; do check "$case" hostile "$case"; done
check "nothing of a process is left when it has ended" nothing_left
# Shows T13.
check "the device goes while processes use it, and comes back" with_traffic rdma link del $device
# Shows T13.
check "the module goes while a process has a context and rings" outlives
check "nothing of a process is left then" nothing_left
check "the device goes with its network device" eval "ip link del u0 && ! rdma link show | grep $device"
finish
