#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Containers that end without an unmount: network namespaces of the client, each with an RDMA device, a mount and I/O of its own. Their
# processes are killed, their devices go first, or the server is silent. Then nothing is left of them: no namespace, no RDMA device, no
# queue pair.
#
# LONG_FORMS=yes does each of that with NFSv3 and 4.2, has a server that stays silent, and several containers at the same time.

. ./lib.sh
. ./namespaces.sh
need_pair

# Seconds until nothing is left of a container. An attempt to connect that nobody answers takes one minute, and so does TCP to give up.
GONE=120

# What a call of a soft mount takes to fail is nine seconds.
soft=soft,timeo=30,retrans=1

# container NAME NUMBER VERSION [OPTIONS]: returns when the server has some of what its I/O writes. That goes on until the container is
# killed, on a soft mount also after errors. A client of NFSv4 is known by its host name. The network device end-NAME goes with the
# namespace, whichever device of that goes before.
container() {
	local left=300
	add_namespace "$1" "$2" "$RDMA" && ip link add "end-$1" type veth peer name end netns "$1" &&
		on_server "ip route replace 10.0.$2.0/24 via $CLIENT_ADDR; rm -rf /export/$1" || return
	ip netns exec "$1" unshare --uts bash -c ". ./lib.sh; hostname $1; mount_nfs $3 ${4:-hard} && mkdir -p $mnt/$1 || exit
		place=(--directory=$mnt/$1); while :; do verified_io --size=8M --numjobs=2 --loops=1000000; sleep 1; done" >"/vm/$1.log" 2>&1 3>&- 4>&- &
	until on_server "[ -n \"\$(find /export/$1 -name 'verify-*' -size +0)\" ]"; do
		sleep 0.2
		if ! ((--left)) || ! kill -0 $!; then
			echo "$1 has no I/O"
			cat "/vm/$1.log"
			return 1
		fi
	done
}

# killed NAME: each of its processes has ended, ten seconds later at most. A process may have begun while the others are killed.
killed() {
	local left=100 process
	until [ -z "$(ip netns pids "$1")" ]; do
		ip netns pids "$1" | xargs -r kill -KILL
		sleep 0.1
		((--left)) && continue
		for process in $(ip netns pids "$1"); do tr '\0' ' ' <"/proc/$process/cmdline"; cat "/proc/$process/stack"; done
		return 1
	done
}

# Of each RDMA device how many objects it has.
objects() { rdma resource show | cut -d' ' -f2-; }

# gone NAME...: soon, nothing is left of them, and the other RDMA devices have what they had without them.
gone() {
	local left=$((10 * GONE)) start=$SECONDS name
	for name; do
		while [ -e "/sys/class/net/end-$name" ] || [ -e "/sys/class/infiniband/rdma-$name" ]; do
			sleep 0.1
			((--left > 0)) || { echo "$name is left"; left_over; return 1; }
		done
	done
	until [ "$(objects)" = "$usual" ]; do
		sleep 0.1
		((--left > 0)) || { echo "usual: $usual"; left_over; return 1; }
	done
	echo "${0##*/} $* gone after $((SECONDS - start)) s" | tee -a /vm/times
}
left_over() {
	ip -brief link
	rdma link show
	rdma resource show qp
	rdma resource show cm_id
	cat /sys/kernel/debug/sunrpc/rpc_xprt/*/info /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks
}

# ends HOW NAME NUMBER VERSION [OPTIONS]: the container ends like that. If something is left, it is not in the way of the next one.
ends() {
	local status=0
	container "${@:2}" && "$1" "$2" && gone "$2" || status=1
	pass_packets 2>/dev/null
	if [ $status -ne 0 ]; then
		killed "$2"
		ip netns del "$2"
		[ ! -e "/sys/class/infiniband/rdma-$2" ] || timeout 30 rdma link del "rdma-$2"
	fi
	return $status
}
is_killed() { killed "$1" && ip netns del "$1"; }
# Nothing else knows its processes then.
name_first() { touch "/run/netns/$1-" && mount --bind "/run/netns/$1" "/run/netns/$1-" && ip netns del "$1" && sleep 1 && is_killed "$1-"; }
netdev_first() { timeout 30 ip link del "to-$1" && sleep 2 && is_killed "$1"; }
# A hard mount would wait for it, as it may come back.
rdma_device_first() { timeout 30 rdma link del "rdma-$1" && sleep 2 && is_killed "$1"; }
server_silent() { drop_packets_at forward && sleep 3 && is_killed "$1"; }
# A hard mount waits for its server. Of a container that has ended nothing is left soon after it is back: a call whose reply was lost waits
# for it for `timeo`, which is a minute by default, if the server has given up the connection and could not say so.
patient=hard,timeo=100
server_silent_for_a_while() { server_silent "$1" && sleep 8 && pass_packets; }

# several NAME NUMBER: four at the same time, of which two lose their devices.
several() {
	local each
	container "$1-a" "${2}0" 3 && container "$1-b" "${2}1" 4.2 && container "$1-c" "${2}2" 4.2 "$soft" && container "$1-d" "${2}3" 4.1 &&
		timeout 30 ip link del "to-$1-b" && timeout 30 rdma link del "rdma-$1-c" && sleep 2 || return
	for each in a b c d; do is_killed "$1-$each" || return; done
	gone "$1"-{a,b,c,d}
}

# Transports of tests before this one may be there for a moment; without the module none is.
unload && modprobe rpcrdma || exit
usual=$(objects)
# The first packet filter loads modules, which takes long.
drop_packets_at forward && pass_packets
tests=5
[ "$RDMA" != rxe ] || tests=6
! long_form || tests=15
plan $tests
check "a container is killed during I/O" ends is_killed one 31 4.2
# A TCP connection that cannot be closed any more keeps the namespace for a minute.
if [ $tests -gt 5 ]; then check "its network device goes before it" ends netdev_first two 32 3; fi
check "its server is silent for a while, the mount is hard" ends server_silent_for_a_while three 33 3 $patient
if long_form; then
	check "its RDMA device goes before it, the mount is soft" ends rdma_device_first four 34 4.2 $soft
	check "its server is silent, the mount is soft" ends server_silent five 35 4.2 $soft
	check "its server is silent for a while, the mount is hard, NFSv4.2" ends server_silent_for_a_while six 36 4.2 $patient
	check "NFSv3: a container is killed during I/O" ends is_killed seven 37 3
	check "NFSv3: its name goes before its processes" ends name_first eight 38 3
	check "NFSv4.2: its network device goes before it" ends netdev_first nine 39 4.2
	check "NFSv3: its RDMA device goes before it, the mount is soft" ends rdma_device_first ten 40 3 $soft
	check "NFSv3: its server is silent, the mount is soft" ends server_silent eleven 41 3 $soft
	check "several containers at the same time" several twelve 5
fi
check "a mount outside of them works" serves outside mount_nfs 4.2
check "the module unloads" unload
modprobe rpcrdma
check "it works when it is back" serves again mount_nfs 4.2
finish
