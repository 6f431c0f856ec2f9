#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# RDMA devices on the kinds of network devices that machines have beside plain Ethernet: VLAN, bridge, bond, macvlan, VXLAN, and a tunnel
# without hardware addresses. Links are lost and paths change during I/O. Link-local addresses.
#
# SHORT_FORMS=yes has a VLAN and a bond only. LONG_FORMS=yes has each kind carry more, and has links lost at the server as well.
#
# What lies below the RDMA device sets limits, which are the same with the in-tree module:
#
# rxe: two devices, one on a network device and one on what lies below it, are in each other's way. ib_core gives the lower one the
# addresses of both, so rdma_cm takes it if it was added first; but rxe gives packets to the device on the upper one. So the device on
# eth0 goes as long as another one is tried. Without another one, a VLAN works, and nothing else, as rxe looks below VLANs only; it
# refuses to be on a VLAN itself ("rxe creation allowed on top of a real device only"). A bridge or bond of VLANs does not work: ib_core
# says of its addresses that they are of the VLAN, and rxe says of packets that they are of none, so ib_cm drops requests to connect. Here
# they are of VXLANs. On a tunnel both ends have the hardware address of zeroes, so rxe takes what it sends for its own. On a macvlan
# requests to connect do not arrive.
#
# iwarp-sctp: the kernel's SCTP listens to a link-local address on one interface only, and a VLAN has that of the device below, as long as
# it has the same hardware address.
#
# siw: its listener hears its own network device only, so a VLAN needs a device of its own.

. ./lib.sh
need_pair

# On the machine whose shell reads these. Its end is 1 on the server and 2 on the client.
make_vlan() { modprobe 8021q; ip link add link eth0 name xn type vlan id 11; }
make_bridge() {
	modprobe bridge
	add_vxlan n-port 12 "$1" && ip link add xn type bridge && ip link set n-port master xn && ip link set n-port up
}
make_bond() {
	modprobe bonding
	ip link add xn type bond mode active-backup miimon 100 || return
	for part in n-13 n-14; do
		add_vxlan $part ${part#n-} "$1" && ip link set $part master xn && ip link set $part up || return
	done
	ip link set xn type bond active_slave n-13
}
make_macvlan() { modprobe macvlan; ip link add link eth0 name xn type macvlan mode bridge; }
make_vxlan() { add_vxlan xn 15 "$1"; }
# add_vxlan NAME ID END: each is a wire of its own.
add_vxlan() {
	modprobe vxlan
	ip link add "$1" type vxlan id "$2" dstport 4789 local "10.0.0.$3" remote "10.0.0.$((3 - $3))" dev eth0
}
make_tunnel() {
	modprobe tun
	mkdir -p /dev/net
	[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
	# It must not keep the pipes of the runner, which waits for their end.
	/src/selftests/vm/tunnel.py xn "10.0.0.$1" "10.0.0.$((3 - $1))" </dev/null >/run/tunnel.log 2>&1 3>&- 4>&- &
	echo $! >/run/tunnel
	for _ in {1..100}; do [ -e /sys/class/net/xn ] && break; sleep 0.1; done
	ip link set xn mtu 1400
}
# make KIND END: a network device xn of that kind.
make() { "make_$1" "$2" && ip address add "10.0.8.$2/24" dev xn && ip address add "fd08::$2/64" dev xn nodad && ip link set xn up; }
unmake() {
	[ ! -e /run/tunnel ] || { kill "$(</run/tunnel)"; rm /run/tunnel; }
	for part in xn n-port n-13 n-14; do [ ! -e /sys/class/net/$part ] || ip link del $part; done
	[ ! -e /sys/class/net/xn ]
}
# One that is no candidate any more: it can be used.
link_local_address() {
	local address
	for _ in {1..50}; do
		address=$(ip -6 -o address show dev "$1" scope link -tentative | awk '{ sub("/.*", "", $4); print $4; exit }')
		[ -z "$address" ] || { echo "$address"; return; }
		sleep 0.2
	done
	return 1
}
functions=$(declare -f make make_vlan make_bridge make_bond make_macvlan make_vxlan add_vxlan make_tunnel unmake link_local_address)
there() { on_server "$functions; $*"; }
both() { eval "$*" && on_server "$*"; }

arrives() {
	for _ in {1..20}; do ping -c 1 -W 1 10.0.8.1 >/dev/null && return; done
	return 1
}

# on KIND COMMAND...: a network device of that kind at each end, and the command, for which `device` is the name of the RDMA device that
# the server has for it.
device=$RDMA_DEVICE
on() {
	local status
	there make "$1" 1 && make "$1" 2 && arrives && "${@:2}"
	status=$?
	! mountpoint -q "$mnt" || umount -f "$mnt"
	[ $status -eq 0 ] || { rdma link; rdma resource show cm_id; on_server "rdma link; rdma resource show cm_id"; }
	unmake || status=1
	there unmake || status=1
	return $status
}

# has_own COMMAND...: the command, while xn has an RDMA device nd.
has_own() {
	local status=0 device=nd
	[ "$RDMA" != rxe ] || both rdma link del "$RDMA_DEVICE" || status=1
	both rdma link add nd type "$RDMA" netdev xn && "$@" || status=1
	! mountpoint -q "$mnt" || umount -f "$mnt"
	both rdma link del nd || status=1
	[ "$RDMA" != rxe ] || both rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 || status=1
	return $status
}
over() { on "$1" has_own "${@:2}"; }

# served_by DEVICE: the server has a connection of that RDMA device.
served_by() { on_server "rdma resource show qp link $1/1 | grep 'type RC'"; }

carries() {
	serves over3 mount_nfs 3 "" 10.0.8.1 && mount_nfs 4.2 "" fd08::1 && verified_io --size=2M && served_by "$device" || return
	! long_form || verified_io --size=16M --numjobs=2 || return
	umount "$mnt"
}

# goes_on COMMAND...: so does I/O during that. The connection is kept, if TCP cares for it.
goes_on() {
	local status before load=(--size=4M --numjobs=2)
	mount_nfs 4.2 "" 10.0.8.1 || return
	before=$(counter connect_count)
	during_io "$@"
	status=$?
	echo "connections: $before before, $(counter connect_count) after"
	[ "$RDMA" != iwarp-tcp ] || [ "$(counter connect_count)" = "$before" ] || status=1
	random_file "$mnt/after" 300000 && same_file after && umount "$mnt" && return $status
}
# Both ends change to the other path, and back. What was on its way is lost.
changes_path() {
	for part in n-14 n-13; do
		sleep 2
		both ip link set xn type bond active_slave $part
	done
}
# is_down DEVICE [SIDE]: for five seconds. IPv6 addresses go with it.
is_down() {
	local run=${2:-eval}
	sleep 1 && $run "ip link set $1 down" && sleep 5 && $run "ip link set $1 up"
}
# Of what is below the bridge, so that is as if the cable was out.
loses_link() { is_down n-port; }
goes_down() { is_down xn; }
server_loses_link() { is_down n-port on_server; }
server_goes_down() { is_down xn on_server; }

# link_local DEVICE: a mount of the server's address that only this one of the client's network devices leads to.
link_local() {
	local address
	address=$(there link_local_address "$1") && link_local_address "$1" && serves local mount_nfs 4.2 "" "$address%$1"
}

on_bridge() { carries && goes_on loses_link && { ! long_form || goes_on server_loses_link; }; }
on_bond() { { ! long_form || carries; } && goes_on changes_path; }
on_macvlan() { { ! long_form || carries; } && goes_on goes_down && { ! long_form || goes_on server_goes_down; }; }
on_vlan() { carries && { [ "$RDMA" = iwarp-sctp ] || link_local xn; }; }

if short_form; then
	plan 2
	check "a VLAN without a device of its own" on vlan carries
	check "a device on a bond, which changes its path during I/O" over bond on_bond
	finish
fi

checks=8
case $RDMA in rxe) checks=5 ;; siw) checks=7 ;; esac
plan $checks
check "the link-local address of eth0" link_local eth0
[ "$RDMA" = siw ] || check "a VLAN without a device of its own, and its link-local address" on vlan on_vlan
check "a device on a VXLAN" over vxlan carries
check "a device on a bridge, which loses its link for 5 seconds during I/O" over bridge on_bridge
check "a device on a bond, which changes its path during I/O" over bond on_bond
if [ "$RDMA" != rxe ]; then
	check "a device on a VLAN, and its link-local address" over vlan on_vlan
	check "a device on a tunnel without hardware addresses" over tunnel carries
	check "a device on a macvlan, which is down for 5 seconds during I/O" over macvlan on_macvlan
fi
finish
