#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What may lie between two iWARP devices. iwarp-tcp: a path that loses, delays, reorders and doubles packets, that becomes narrow, and
# receivers with hardly any memory. iwarp-sctp: a path that SCTP does not pass, so that it goes over UDP (RFC 6951). I/O is compared, no
# operation takes long, and TCP keeps the connection. What else a path may do to SCTP is in iwarp-sctp.sh.
#
# SHORT_FORMS=yes has packets lost, and the path become narrow and wide again; over SCTP, one address and a connection that breaks.
# LONG_FORMS=yes moves more data, has more packets lost, and does all of that at once.

. ./lib.sh
need_pair

both() { eval "$*" && on_server "$*"; }
# The server's device makes its listeners anew: sockets that are there keep what they had.
remake_listeners() { on_server "rdma link del $RDMA_DEVICE && rdma link add $RDMA_DEVICE type $RDMA netdev eth0"; }

load=(--size=8M --numjobs=2)
! long_form || load=(--size=64M --numjobs=4)

# A stall ends fio, and that is before a call is sent again.
carries() { verified_io "${load[@]}" --max_latency=20s && random_file "$mnt/file" 300000 && same_file file; }
mounts() { mount_nfs "$@" && carries && umount "$mnt"; }

# number NAME: a counter of IP or TCP on the machine whose shell reads this.
number() {
	awk -v name="$1" '
		$1 == kind { for (i = 2; i <= NF; i++) if (names[i] == name) sum += $i; kind = ""; next }
		{ kind = $1; split($0, names) }
		END { print sum + 0 }' /proc/net/snmp /proc/net/netstat
}
# numbers NAME: that of both machines.
numbers() { echo $(($(number "$1") + $(on_server "$(declare -f number); number $1"))); }

# shape NETEM...: what the path does to packets, in both directions. It sees each by itself.
shape() { both ip link set eth0 gso_max_segs 1 && both tc qdisc add dev eth0 root netem limit 10000 "$@"; }
unshape() { both tc qdisc del dev eth0 root && both ip link set eth0 gso_max_segs 65535; }

# keeps_connection COMMAND...
keeps_connection() {
	local before
	before=$(counter connect_count)
	"$@" || return
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" = "$before" ]
}
# through COUNTER NETEM...: while the path does that to packets, which the counter tells of.
through() {
	local before status
	before=$(numbers "$1")
	shape "${@:2}" && keeps_connection carries
	status=$?
	unshape || status=1
	echo "$1: $before before, $(numbers "$1") after"
	[ "$(numbers "$1")" -gt "$before" ] && return $status
}

# mtu OCTETS: of the path between the two, from then on; 0 is that of the network device.
mtu() { both ip route change 10.0.0.0/24 dev eth0 proto kernel scope link mtu "$1"; }
narrows() { sleep 1 && mtu 576 && sleep 4; }
# value NAME: the greatest one of that name that ss tells of the mount's TCP socket, here and there.
value() {
	both "ss -Htinm state established '( sport = :$port or dport = :$port )'" | grep -oE "\b$1:?[0-9]+" | tr -d -c '0-9\n' | sort -n |
		tail -n 1
}
begins_narrow() {
	drop_connection && carries && echo "segments of $(value mss) octets" && [ "$(value mss)" -le 536 ]
}
widens() { mtu 0 && drop_connection && carries && echo "segments of $(value mss) octets" && [ "$(value mss)" -gt 1000 ]; }

# receive_memory OCTETS: for sockets that are made from then on. The mount has one of them.
receive_memory() { both sysctl -qw "net.ipv4.tcp_rmem='$*'" && remake_listeners && df "$mnt"; }
# little COMMAND...: the command, with memory for a few packets. With 4 KiB, and now and then with 8, TCP itself takes 200 ms for each
# window, also with NFS over TCP: the window is shorter than what would be sent at once, so the sender waits, and asks.
little() {
	local memory status
	memory=$(</proc/sys/net/ipv4/tcp_rmem)
	receive_memory 4096 16384 16384 && "$@" && echo "$(value rb) octets" && [ "$(value rb)" -le 65536 ]
	status=$?
	receive_memory "$memory" && return $status
}

over_tcp() {
	local checks=7
	if short_form; then
		plan 3
		check "1 % of the packets is lost" through RetransSegs loss 1%
		check "the path becomes as narrow as 576 octets during I/O" keeps_connection during_io narrows
		check "a connection begins when the path is wide again" widens
		return
	fi
	! long_form || checks=9
	plan $checks
	check "1 % of the packets is lost" through RetransSegs loss 1%
	check "packets are reordered" through TCPOFOQueue delay 5ms reorder 60%
	check "packets come twice" through TCPDSACKOldSent duplicate 5%
	check "TCP has 16 KiB for what it receives" little keeps_connection carries
	! long_form || check "all of that" little through RetransSegs delay 5ms 2ms loss 3% duplicate 2% corrupt 1% reorder 60%
	check "the path becomes as narrow as 576 octets during I/O" keeps_connection during_io narrows
	check "a connection begins there" begins_narrow
	! long_form || check "which also loses packets, to receivers with 16 KiB" little through RetransSegs loss 2%
	check "a connection begins when the path is wide again" widens
}

# The ports of UDP. The server answers to that which packets come from, so the client's may be another one.
here=9898 there=9899
# counts_packets: both machines drop SCTP as such, and count that, and what comes in UDP.
counts_packets() {
	both "nft -f - <<<'add table inet path; delete table inet path; table inet path { chain in {
		type filter hook input priority 0; meta l4proto sctp counter drop; udp dport { $here, $there } counter; }; }'"
}
# packets: how many, of SCTP and of UDP here, and there.
packets() { both "nft list chain inet path in | sed -n 's/.*counter packets \([0-9]*\) .*/\1/p'" | xargs; }
# fragments: how many of IP were sent by both.
fragments() {
	local count
	count=$(both "awk '/^Ip6FragCreates/ { print \$2 }' /proc/net/snmp6" | xargs)
	echo $((${count// / + } + $(numbers FragCreates)))
}

# Else the kernel sends several packets of SCTP in one, which are cut behind SCTP, and with UDP around them all of that is dropped: 163 kB
# in 5 s between plain sockets, and 4 MB in 3 s when nothing is to be cut.
cuts_nothing() { both ip link set eth0 gso_max_size 4500; }
sends_udp() {
	both modprobe sctp && cuts_nothing || return
	sysctl -qw net.sctp.udp_port=$here net.sctp.encap_port=$there && on_server sysctl -qw net.sctp.udp_port=$there && remake_listeners
}
sends_none() {
	both ip link set eth0 gso_max_size 65536 && both sysctl -qw net.sctp.udp_port=0 net.sctp.encap_port=0 && remake_listeners
}

does_not_pass() {
	local start=$SECONDS
	counts_packets && not mount_nfs 3 soft,timeo=50,retrans=1 || return
	echo "it failed after $((SECONDS - start)) s"
}
passes() { sends_udp && counts_packets && mounts 3; }
was_udp() {
	local counts
	read -r -a counts < <(packets)
	echo "here ${counts[0]} of SCTP and ${counts[1]} of UDP, there ${counts[2]} and ${counts[3]}"
	[ "${counts[0]}" -eq 0 ] && [ "${counts[1]}" -gt 1000 ] && [ "${counts[2]}" -eq 0 ] && [ "${counts[3]}" -gt 1000 ]
}
# What is made for the path as it is without UDP is longer than the path takes.
whole() {
	echo "fragments: $before before, $(fragments) after"
	[ "$(fragments)" = "$before" ]
}
breaks() {
	local status
	mount_nfs 3 && during_io drop_connection
	status=$?
	umount "$mnt" && return $status
}
loses() {
	local status
	shape loss 1% && mounts 4.2
	status=$?
	unshape && return $status
}
ends() { sends_none && both nft delete table inet path && mounts 4.2; }

over_sctp() {
	local checks=7 before
	before=$(fragments)
	if short_form; then
		plan 5
		check "it passes over UDP" passes
		check "the connection over UDP breaks during I/O" breaks
		check "all packets were of UDP" was_udp
		check "none of them was sent in parts" whole
		check "without UDP again" ends
		return
	fi
	! long_form || checks=8
	plan $checks
	check "SCTP does not pass" does_not_pass
	check "it does over UDP" passes
	# shellcheck disable=SC2153 # the VM sets it
	check "it does over UDP and IPv6" mounts 4.2 "" "$SERVER_ADDR6"
	check "the connection over UDP breaks during I/O" breaks
	! long_form || check "1 % of the packets of UDP is lost" loses
	check "all packets were of UDP" was_udp
	check "none of them was sent in parts" whole
	check "without UDP again" ends
}

modprobe sch_netem && on_server modprobe sch_netem || exit
case $RDMA in
iwarp-tcp)
	mount_nfs 4.2 || exit
	over_tcp
	;;
iwarp-sctp) over_sctp ;;
*) cannot_run "the device is iwarp-tcp or iwarp-sctp; it is $RDMA" ;;
esac
finish
