#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# iwarp-tcp devices in one VM: they come and go, also while somebody uses them, and the module with them.
#
# ROUNDS= how often a device is added and deleted, instead of 20, or 1,000 with LONG_FORMS=yes.

. ./lib.sh
clear_logs

rounds=20
! long_form || rounds=1000
rounds=${ROUNDS:-$rounds}

modprobe -a iwarp rdma_rxe veth && modprobe dummy numdummies=0 || exit
# The network device of iw0, that of rxe0, and a pair between this network namespace and another.
ip link add d0 type dummy && ip address add 10.9.0.1/24 dev d0 && ip address add fd09::1/64 dev d0 nodad && ip link set d0 up || exit
ip link add d1 type dummy && ip link set d1 up && rdma link add rxe0 type rxe netdev d1 || exit
ip netns add other && ip link add v0 type veth peer name v0 netns other && ip address add 10.8.0.1/24 dev v0 && ip link set v0 up || exit
in_other() { ip netns exec other "$@"; }
in_other sh -c 'ip link set lo up; ip link set v0 up; ip address add 10.8.0.2/24 dev v0' || exit

add() { rdma link add iw0 type iwarp-tcp netdev d0; }
delete() { timeout 60 rdma link del iw0; }
comes_and_goes() {
	local round
	for ((round = 0; round < rounds; round++)); do
		if ! add || ! delete; then
			echo "in round $round"
			return 1
		fi
	done
}

# A file goes there and back, by way of the server of this machine.
carries() {
	mount_nfs "$@" || return
	random_file "$mnt/file" 300000 && drop_file "$mnt/file" && cmp "$mnt/file" /export/file
	local status=$?
	umount "$mnt" && return $status
}
timeo=50
[[ $KERNEL != *debug ]] || timeo=200
listeners() { ss -Hltn "sport = :$port" | awk '{ print $4 }' | sort; }
listens_beside_rxe() {
	# Its daemons stay, and must not keep the pipes of the runner, which waits for their end.
	"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- && add || return
	listeners
	[ "$(listeners | grep -cE '^10\.9\.0\.1:|^\[fd09::1\]:|^\[fe80::')" -eq 3 ]
}
deaf_in_other() {
	in_other rdma link add iw2 type iwarp-tcp netdev v0 || return
	in_other ss -Hltn "sport = :$port"
	[ -z "$(in_other ss -Hltn "sport = :$port")" ]
}

# How many connections nobody heard of, over iw0.
lost() { rdma -j -p statistic show link iw0/1 | sed -n 's/.*"request_lost": \([0-9]*\).*/\1/p'; }
# knock TEXT: connects to the listener of iw0 and says that, if anything.
knock() { exec {knocked}<>"/dev/tcp/10.9.0.1/$port" && printf %s "$1" >&"$knocked"; }
hung_up() {
	local before
	before=$(lost)
	knock "$1" || return
	# Nothing is answered: the stream ends, or is reset.
	timeout 20 cat <&"$knocked" >/dev/null
	[ $? -ne 124 ] && [ "$(lost)" -gt "$before" ]
}

# The server's backlog is 64. Peers that say nothing have 5 seconds; on the debug kernel the first are gone before the last have come.
waiting() { ss -Hltn "sport = :$port" | awk '$4 ~ /^10\.9\.0\.1:/ { print $2 }'; }
some_wait() {
	local left=40
	until [ "$(waiting)" -gt 0 ]; do
		sleep 0.1
		((--left)) || { echo "the device took all of them"; return 1; }
	done
}
crowded() {
	local number crowd
	# shellcheck disable=SC2034 # They are open until this function's shell ends.
	for ((number = 0; number < 80; number++)); do exec {crowd}<>"/dev/tcp/10.9.0.1/$port" || return; done
	[[ $KERNEL = *debug ]] || some_wait || return
	carries 3 "" 10.9.0.1 && [ "$(waiting)" -eq 0 ]
}

# The server closes and drains its queues at once.
closes_in_order() {
	../iwpeer/hostile.py --close 10.9.0.1 "$port" "$scripts/vm/nfs-server" stop
	local status=$?
	"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- && return $status
}

# The device goes with a silent peer, and a mount that is being written to.
goes_with_silent_peer() { knock "" && goes_in_use 10.9.0.1 "$timeo"; }

# rdma_cm resolves 127.0.0.1 to the first device that is up, of whatever kind and in whatever namespace. The listener is on `lo`.
over_loopback() {
	rdma link del rxe0 && rdma link del iw2 && rdma link add iw1 type iwarp-tcp netdev lo || return
	carries 3 "" 127.0.0.1 && carries 4.2 "" ::1
	local status=$?
	rdma link del iw1 && return $status
}

netdev_goes() {
	timeout 60 ip link del d0 && ! rdma link show | grep -q iw0
}

# A peer has said something wrong: what limited its time must not outlive the module.
module_goes() {
	knock "no Request" && sleep 0.3 && "$scripts/vm/nfs-server" stop && unload && timeout 60 rmmod iwarp && sleep 6
}
# What frees an id of iw_cm must stay until the module has gone. It does anyway where it is part of the kernel, as in the debug kernel.
iw_cm_stays() { [ ! -e /sys/module/iw_cm/refcnt ] || [ -e /sys/module/iw_cm/holders/iwarp ]; }
module_returns() { modprobe iwarp && iw_cm_stays && add && delete; }

# Devices of both link types, iw3 and iw4, on the network device e0; and one of the kernel's own siw, which has the same driver id.
has() { rdma link show "$1/1" >/dev/null 2>&1; }
add_tcp() { rdma link add iw3 type iwarp-tcp netdev e0; }
add_sctp() { rdma link add iw4 type iwarp-sctp netdev e0; }
add_siw() { rdma link add siw0 type siw netdev e1; }
add_netdevs() { ip link add e0 type dummy && ip link set e0 up && ip link add e1 type dummy && ip link set e1 up; }
# exists TYPE NETDEV: a device of that type is refused there, as there is one.
exists() { rdma link add iw5 type "$1" netdev "$2" 2>&1 | tee /dev/stderr | grep -q "File exists" && ! has iw5; }
each_goes() {
	add_netdevs && add_tcp && add_sctp && exists iwarp-tcp e0 && exists iwarp-sctp e0 || return
	timeout 60 rdma link del iw3 && has iw4 && add_tcp && timeout 60 rdma link del iw4 && has iw3 && add_sctp
}
both_go_with_netdev() { timeout 60 ip link del e0 && ! has iw3 && ! has iw4 && ip link del e1; }
both_go_with_module() {
	add_netdevs && add_tcp && add_sctp && timeout 60 rmmod iwarp && ! has iw3 && ! has iw4 && modprobe iwarp && add_tcp && add_sctp
}
siw_is_elsewhere() {
	modprobe siw && exists siw e0 && add_siw && exists siw e1 && exists iwarp-tcp e1 && exists iwarp-sctp e1
}
# siw removes all devices of its driver id when it goes.
siw_stays() { timeout 60 rmmod iwarp && has siw0 && modprobe iwarp && has siw0 && add_tcp && add_sctp; }
siw_goes() { timeout 60 rmmod siw && ! has siw0 && ! has iw3 && ! has iw4 && add_tcp && add_sctp && has iw3 && has iw4; }
siw_returns() { modprobe siw && add_siw && timeout 60 rmmod iwarp && timeout 60 rmmod siw && ip link del e0 && ip link del e1 && modprobe iwarp; }
# beside_siw DESCRIPTION COMMAND: a check if there is a siw, which the stock kernel lacks (selftests/iwarp/siw.sh builds it).
beside_siw() { if modinfo siw >/dev/null 2>&1; then check "$@"; else skip "$1" "there is no siw"; fi; }

plan 23
check "a device comes and goes $rounds times" comes_and_goes
check "a server that has rxe listens on a device that is added" listens_beside_rxe
check "NFSv3 over IPv4" carries 3 "" 10.9.0.1
check "NFSv4.2 over IPv6" carries 4.2 "" fd09::1
check "a device in another network namespace is deaf to this one's server" deaf_in_other
check "a peer that says something else than a Request is hung up on" hung_up "GET / HTTP/1.0, which is no Request"
check "so is one that says nothing, in time" hung_up ""
check "so is one that says half a Request" hung_up "MPA ID Req"
check "no more silent peers at once than the backlog says, and others have their turn" crowded
check "a server that goes ends a stream in order" closes_in_order
check "the device goes while it is in use, and comes back" goes_with_silent_peer
check "NFSv3 over the new device" carries 3 "" 10.9.0.1
check "NFS over 127.0.0.1 and ::1, with a device on lo" over_loopback
check "the module goes while the time of a peer runs" module_goes
check "the module comes back, and iw_cm with it" module_returns
check "of two devices on one network device, each goes alone" each_goes
check "both go with their network device" both_go_with_netdev
check "both go with the module" both_go_with_module
beside_siw "a siw has devices on other network devices, and neither has one where the other has" siw_is_elsewhere
beside_siw "the device of siw stays when the module goes" siw_stays
beside_siw "siw goes, and devices can be added again" siw_goes
beside_siw "siw returns, and both go in the other order" siw_returns
check "the device goes with its network device" eval "add && netdev_goes"
# RDMA namespaces can become exclusive only while there is one network namespace.
ip netns del other
finish
