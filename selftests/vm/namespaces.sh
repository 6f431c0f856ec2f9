# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Network namespaces that have an RDMA device of their own, on the machine whose shell reads this file.

# add_namespace NAME NUMBER [TYPE]: makes a network namespace that has the address 10.0.NUMBER.2 and the RDMA device rdma-NAME, of
# that type or rxe, behind this machine. The other machine needs a route to it.
add_namespace() {
	modprobe -a veth rdma_rxe
	echo 1 >/proc/sys/net/ipv4/ip_forward
	ip netns add "$1" && ip link add "to-$1" mtu 4500 type veth peer name eth0 mtu 4500 netns "$1" &&
		ip address add "10.0.$2.1/24" dev "to-$1" && ip link set "to-$1" up &&
		ip netns exec "$1" sh -ec "ip link set lo up; ip link set eth0 up; ip address add 10.0.$2.2/24 dev eth0
			ip route add default via 10.0.$2.1; rdma link add rdma-$1 type ${3:-rxe} netdev eth0"
}

# mode shared|exclusive: whether a namespace sees the RDMA devices of others. It becomes exclusive while there is no other network
# namespace only, and one that was removed is there as long as a socket of it has something to deliver: 50 seconds at most.
mode() {
	local end=$((SECONDS + 58))
	until rdma system set netns "$1" 2>/tmp/mode; do [ $SECONDS -lt $end ] || { cat /tmp/mode; return 1; }; sleep 0.1; done
	rdma system show | grep -q "netns $1"
}

remove_namespace() { ip netns exec "$1" rdma link del "rdma-$1" && ip netns del "$1"; }
