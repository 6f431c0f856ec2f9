#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs in containers, in one VM: network namespaces that have an RDMA device, in both modes of RDMA namespaces; devices that are
# moved between them; and their end, with programs in them. Then nothing is left.

. ./lib.sh
. ./namespaces.sh
clear_logs

user=$test_programs/user
[ -x "$user" ] || cannot_run "the hostile process is built (\`scripts/enter scripts/programs.sh\` does)"
type=iwarp-tcp
[ "${RDMA:-}" != iwarp-sctp ] || type=iwarp-sctp
load() { { ! [ -e /sys/module/iwarp ] || rmmod iwarp; } && modprobe iwarp "$@"; }
if ! load || ! modprobe -a rdma_ucm ib_uverbs veth || ! modprobe dummy numdummies=0; then cannot_run "there are user verbs"; fi
# Devices of a boot are in the initial namespace, and each of them is there for all.
rdma system show | grep -q 'netns shared' || cannot_run "RDMA namespaces are shared at first"
limit=60
[[ $KERNEL != *debug ]] || limit=240

# inside NAME COMMAND...: as nobody in particular in that namespace; the initial one is called `outside`.
inside() {
	local enter=()
	[ "$1" = outside ] || enter=(ip netns exec "$1")
	# shellcheck disable=SC2016 # the inner shell expands them
	"${enter[@]}" bash -c 'ulimit -l unlimited; exec timeout "$0" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--no-new-privs "$@"' "$limit" "${@:2}"
}
# Two namespaces with a device each, on an Ethernet of their own.
containers() {
	local name number=1
	ip netns add one && ip netns add two && ip link add v0 netns one type veth peer name v0 netns two || return
	for name in one two; do
		ip netns exec $name sh -ec "ip link set lo up; ip address add 10.0.9.$((number++))/24 dev v0; ip link set v0 up
			rdma link add iw-$name type $type netdev v0" || return
	done
}
# pings [OPTION...]: rping between the two, which compares what it sends; with more options, only its client has them.
pings() {
	local server status=0
	inside two rping -s -a 10.0.9.2 -C 20 -S 4000 -V >/tmp/server.log 2>&1 &
	server=$!
	listens_in two 7174 && inside one rping -c -a 10.0.9.2 -C 20 -S 4000 -V 2>&1 | tail -n 20
	status=${PIPESTATUS[0]}
	[ "$status" -eq 0 ] || kill $server
	wait $server || status=$?
	[ "$status" -eq 0 ] || cat /tmp/server.log
	return "$status"
}
# listens_in NAME PORT: waits until a program there listens.
listens_in() {
	for _ in {1..200}; do
		! ip netns exec "$1" ss -Hln --tcp --sctp "sport = :$2" | grep -q . || return 0
		sleep 0.1
	done
	echo "nobody listens in $1"
	return 1
}
# A program of a namespace that has no device, and no way to those.
alone() {
	ip netns add three && ip netns exec three ip link set lo up || return
	not inside three rping -c -a 10.0.9.2 -C 1 && not inside outside rping -c -a 10.0.9.2 -C 1
}
devices() { rdma link show; ip netns list | cut -d' ' -f1 | while read -r name; do ip netns exec "$name" rdma link show; done; }
left() {
	local kind
	for kind in qp cq mr pd cm_id ctx srq; do rdma resource show $kind; done | grep ' pid '
}
# gone PATTERN: soon, no device has such a name, and no process has an object. The device of a namespace stays as long as that.
gone() {
	local end=$((SECONDS + 58))
	while { devices | grep "link $1"; left; } >/tmp/left; [ -s /tmp/left ]; do [ $SECONDS -lt $end ] || { cat /tmp/left; return 1; }; sleep 0.1; done
}
# Programs that go on until they are killed: of either container, one that only has a context, and a connection between them.
at_work() {
	inside two rping -s -P -a 10.0.9.2 -S 1000 >/dev/null 2>&1 &
	inside one rping -s -P -a 10.0.9.1 -S 1000 >/dev/null 2>&1 &
	listens_in two 7174 && listens_in one 7174 || return
	: >/tmp/pinger.log
	inside one rping -c -v -a 10.0.9.2 -S 1000 >/tmp/pinger.log 2>&1 &
	local pinger=$! tries=300
	until [ "$(wc -c </tmp/pinger.log)" -gt 20000 ]; do
		if ! ((--tries)) || ! kill -0 $pinger; then
			tail -n 5 /tmp/pinger.log
			return 1
		fi
		sleep 0.1
	done
}
killed() {
	local name tries=100
	for name in one two; do
		until [ -z "$(ip netns pids "$name")" ]; do
			ip netns pids "$name" | xargs -r kill -KILL
			((--tries)) || return 1
			sleep 0.1
		done
	done
}
# The processes end first, then the namespaces.
killed_end() { at_work && killed && ip netns del one && ip netns del two && gone iw-; }
# The names go first: the namespaces are there as long as processes are in them.
nameless_end() {
	at_work || return
	local processes
	processes=$(ip netns pids one; ip netns pids two)
	ip netns del one && ip netns del two || return
	sleep 1
	kill -0 "${processes%%$'\n'*}" || { echo "they have ended"; return 1; }
	# shellcheck disable=SC2086 # each is one
	kill -KILL $processes && gone iw-
}
# The network devices go under the programs.
unplugged_end() { at_work && ip netns exec one ip link del v0 && gone iw- && killed && ip netns del one && ip netns del two; }

# There is no path between them when the processes end, so neither learns of the other's end.
pathless_end() {
	at_work && ip netns exec one ip route add blackhole 10.0.9.2 && ip netns exec two ip route add blackhole 10.0.9.1 && killed &&
		ip netns del one && ip netns del two && gone iw-
}

# Each container sees its own device only, and nobody outside sees one.
apart() {
	! rdma link show | grep iw- && ip netns exec one rdma link show | grep 'link iw-one/1' && ! ip netns exec one rdma link show | grep iw-two
}
# In exclusive mode each namespace has its own directory of devices, so the numbers are looked for where the device is.
number_of() { ip netns exec "$1" sh -c "grep -lx $2 /sys/class/infiniband_verbs/uverbs*/ibdev" | sed 's/.*uverbs\([0-9]*\).*/\1/'; }
opened_by_its_own() {
	local number
	number=$(number_of one iw-one) && [ -n "$number" ] || return
	inside one bash -c "exec 3<>/dev/infiniband/uverbs$number" || return
	not inside outside bash -c "exec 3<>/dev/infiniband/uverbs$number" && not inside two bash -c "exec 3<>/dev/infiniband/uverbs$number"
}

add() { ip link add u0 type dummy && ip address add 10.10.0.1/24 dev u0 && ip link set u0 up && rdma link add iw9 type $type netdev u0; }
works() { DEVICE=iw9 ADDRESS=10.10.0.1 inside "$1" "$user" run accepting_end_sends_first; }
# moves COMMAND...: the device goes to another namespace while a process has it, which is told that the device has gone.
moves() {
	local process tries=600 status=0
	# Another test of this boot may have left one.
	: >/tmp/device-goes.log
	DEVICE=iw9 ADDRESS=10.10.0.1 inside outside "$user" device-goes >/tmp/device-goes.log 2>&1 &
	process=$!
	until grep -qx runs /tmp/device-goes.log; do ((--tries)) || { cat /tmp/device-goes.log; return 1; }; sleep 0.1; done
	timeout 20 "$@" || { kill $process; return 1; }
	wait $process || status=$?
	cat /tmp/device-goes.log
	return $status
}
moved() { ip netns exec one rdma link show | grep 'link iw9/1' && ! rdma link show | grep iw9; }
# Without its network device it connects nobody, and nobody waits for it.
unusable() { local start=$SECONDS; not works one && not works outside && [ $((SECONDS - start)) -lt "$limit" ]; }
# With that it goes, and another one is made there.
follows() {
	ip link set u0 netns one && gone iw9 || return
	ip netns exec one sh -ec "ip link set lo up; ip address add 10.10.0.1/24 dev u0; ip link set u0 up; rdma link add iw9 type $type netdev u0" && works one
}
# A device whose namespace ends comes back to the initial one; if its network device is there, it works as before.
comes_back() {
	local tries=300
	rdma dev set iw9 netns one && ip netns del one || return
	until rdma link show | grep 'link iw9/1'; do ((--tries)) || { rdma link show; return 1; }; sleep 0.1; done
	works outside
}
# A module without user verbs has devices that can be moved as well: consumers in the kernel leave them.
moves_without_programs() {
	rdma link del iw9 && load user=0 && rdma link add iw9 type $type netdev u0 && ip netns add one && rdma dev set iw9 netns one && moved &&
		ip netns del one
}
ends() { local tries=300; until rdma link show | grep 'link iw9/1'; do ((--tries)) || return 1; sleep 0.1; done; rdma link del iw9 && ip link del u0 && load; }

plan 26
check "two namespaces have a device each" containers
check "programs in them connect" pings
check "other namespaces do not reach them" alone
check "programs are killed, and then the namespaces are removed" killed_end
check "two namespaces have a device each again" containers
check "namespaces are removed, and then programs in them are killed" nameless_end
check "two namespaces have a device each again" containers
check "network devices are removed while programs use them" unplugged_end
check "the third namespace is removed" ip netns del three
check "two namespaces have a device each again" containers
check "programs are killed when there is no path between them" pathless_end
check "RDMA namespaces become exclusive" mode exclusive
check "two namespaces have a device each again" containers
check "each sees its own" apart
check "a program opens that of its own namespace" opened_by_its_own
check "programs in them connect" pings
check "programs are killed, and then the namespaces are removed" killed_end
check "the initial namespace has a device" add
check "programs there use it" works outside
check "it is moved to a namespace, and a process with it is told that it has gone" eval "ip netns add one && moves rdma dev set iw9 netns one && moved"
check "it is of no use where its network device is not" unusable
check "it goes with its network device, and another one works there" follows
check "the namespace ends" eval "ip netns del one && gone iw9"
check "a device comes back from a namespace that ends" eval "add && ip netns add one && comes_back"
check "a device without user verbs is moved as well" eval "moves_without_programs && ends"
check "RDMA namespaces become shared" mode shared
finish
