#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# iWARP devices on several network devices of one machine, of which rdma_cm finds one by an address: VLANs with a device of their own and
# without, both link types on one network device, two network devices on one Ethernet, and a port that somebody else has. In one VM,
# whose client is in another network namespace.
#
# SHORT_FORMS=yes has the fewest of these.

. ./lib.sh
clear_logs

modprobe -a iwarp veth 8021q macvlan || exit
ip netns add far && ip netns exec far ip link set lo up || exit
in_far() { nsenter --net=/run/netns/far "$@"; }
ip link add w0 type veth peer name w0 netns far && ip link set w0 up && in_far ip link set w0 up || exit
ip link add link w0 name w0.11 type vlan id 11 && in_far ip link add link w0 name w0.11 type vlan id 11 || exit
ip link add m1 link w0 type macvlan mode bridge && ip link add m2 link w0 type macvlan mode bridge || exit
ip address add 10.6.0.1/24 dev w0 && in_far ip address add 10.6.0.2/24 dev w0 || exit
ip address add fd06::1/64 dev w0 nodad && in_far ip address add fd06::2/64 dev w0 nodad || exit
ip address add 10.6.1.1/24 dev w0.11 && in_far ip address add 10.6.1.2/24 dev w0.11 || exit
ip address add fd16::1/64 dev w0.11 nodad && in_far ip address add fd16::2/64 dev w0.11 nodad || exit
ip address add 10.6.2.1/24 dev m1 && ip address add 10.6.2.3/24 dev m2 && in_far ip address add 10.6.2.2/24 dev w0 || exit
for name in w0.11 m1 m2; do ip link set "$name" up || exit; done
in_far ip link set w0.11 up || exit
# A test before this one may have left it running.
[ ! -e /proc/fs/nfsd/threads ] || "$scripts/vm/nfs-server" stop || exit
# Its daemons stay, and must not keep the pipes of the runner, which waits for their end.
"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- || exit

# here NAME TYPE NETDEV, there NAME TYPE NETDEV: a device of the server, or of the client.
here() { rdma link add "$1" type "$2" netdev "$3"; }
there() { in_far rdma link add "$1" type "$2" netdev "$3"; }
# carries VERSION ADDRESS: a file goes there and back.
carries() {
	in_far bash -c ". ./lib.sh; mount_nfs $1 '' $2" || return
	random_file "$mnt/file" 300000 && drop_file "$mnt/file" && cmp "$mnt/file" /export/file
	local status=$?
	umount "$mnt" && return $status
}
no_devices() {
	local name
	for name in $(rdma link show | sed -n 's/^link \([^/]*\)\/.*/\1/p'); do rdma link del "$name" || return; done
}
# with_devices COMMAND...: and afterwards there are none.
with_devices() {
	local status
	"$@"
	status=$?
	no_devices && return $status
}
# Over the VLAN, and beside it.
everywhere() { carries 3 10.6.1.1 && carries 4.2 fd16::1 && carries 3 10.6.0.1 && carries 3 fd06::1; }

vlan_without() { here iw0 "$1" w0 && there iw1 "$1" w0 && everywhere; }
vlan_with() { here iw0 "$1" w0 && here iw2 "$1" w0.11 && there iw1 "$1" w0 && there iw3 "$1" w0.11 && everywhere; }
# rdma_cm takes the first device that it could be, in the order in which they were added.
vlan_before() { here iw2 "$1" w0.11 && here iw0 "$1" w0 && there iw3 "$1" w0.11 && there iw1 "$1" w0 && everywhere; }
vlan_of_one_end() { here iw0 "$1" w0 && here iw2 "$1" w0.11 && there iw1 "$1" w0 && everywhere; }
# soon COMMAND...: within 20 seconds.
soon() {
	local left=20
	until "$@"; do
		sleep 1
		((--left)) || return
	done
}
# The address is heard by the one below when the device on the VLAN has gone, although no address has changed.
vlan_loses_its() {
	here iw0 "$1" w0 && here iw2 "$1" w0.11 && there iw1 "$1" w0 && carries 3 10.6.1.1 && rdma link del iw2 && soon carries 3 10.6.1.1
}
beside() { here iw0 "$2" w0 && here iw2 "$1" w0 && there iw1 "$1" w0 && everywhere; }
# What the peer sends to the one arrives at the other.
crossed() {
	here iw0 "$1" m1 && here iw2 "$1" m2 && there iw1 "$1" w0 || return
	in_far ip neighbour replace 10.6.2.3 lladdr "$(cat /sys/class/net/m1/address)" dev w0 nud permanent &&
		in_far ip neighbour replace 10.6.2.1 lladdr "$(cat /sys/class/net/m2/address)" dev w0 nud permanent &&
		carries 3 10.6.2.3 && carries 3 10.6.2.1
}
# The other addresses of the device are heard, and this one is when it is free.
port_in_use() {
	local other
	python3 -c "import socket, time
other = socket.socket()
other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
other.bind(('10.6.0.1', $port))
other.listen()
time.sleep(1000)" >/dev/null 2>&1 3>&- 4>&- &
	other=$!
	for _ in {1..300}; do
		[ -z "$(ss -Hltn src "10.6.0.1:$port")" ] || break
		sleep 0.1
	done
	[ -n "$(ss -Hltn src "10.6.0.1:$port")" ] && here iw0 iwarp-tcp w0 && there iw1 iwarp-tcp w0 && carries 3 10.6.1.1 && carries 3 fd06::1
	local status=$?
	kill $other
	[ $status = 0 ] && soon carries 3 10.6.0.1
}

plan "$(if short_form; then echo 5; else echo 15; fi)"
for type in iwarp-tcp iwarp-sctp; do
	check "$type: a VLAN with a device, which was added first" with_devices vlan_before $type
	check "$type: an address of one device, whose packets arrive at another" with_devices crossed $type
	! short_form || continue
	other=iwarp-tcp
	[ $type = iwarp-sctp ] || other=iwarp-sctp
	check "$type: a VLAN with one, which was added last" with_devices vlan_with $type
	check "$type: a VLAN without a device of its own" with_devices vlan_without $type
	check "$type: a VLAN with one at the server only" with_devices vlan_of_one_end $type
	check "$type: a VLAN that loses its own" with_devices vlan_loses_its $type
	check "$type: beside a device of the other link type" with_devices beside $type $other
done
check "iwarp-tcp: an address whose port somebody else has is deaf until it is free" with_devices port_in_use
# Its end of the wire goes with the namespace, and so does the other one.
"$scripts/vm/nfs-server" stop && ip netns del far
finish
