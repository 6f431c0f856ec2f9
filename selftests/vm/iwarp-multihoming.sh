#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Associations with two addresses at each end, which the module's parameter `sctp_addresses` names, in one VM: two wires lead to a network
# namespace whose client mounts over the first one. That dies under load and returns, then the other one dies, then
# both do.

. ./lib.sh
clear_logs

# The list is for both namespaces, and each has one of the addresses; one is in none.
! grep -q '^iwarp ' /proc/modules || rmmod iwarp || exit
modprobe -a veth sch_netem && modprobe iwarp sctp_addresses=10.7.1.1,10.7.1.2,10.7.9.9 || exit
ip netns add far && ip netns exec far ip link set lo up || exit
for wire in 0 1; do
	ip link add "w$wire" mtu 1500 type veth peer name "w$wire" mtu 1500 netns far && ip address add "10.7.$wire.1/24" dev "w$wire" &&
		ip link set "w$wire" up && ip netns exec far sh -ec "ip link set w$wire up; ip address add 10.7.$wire.2/24 dev w$wire" || exit
done

in_far() { nsenter --net=/run/netns/far "$@"; }
refused() { not modprobe iwarp "sctp_addresses=$1"; }
mounts() {
	# Its daemons stay, and must not keep the pipes of the runner, which waits for their end.
	"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- && rdma link add iw0 type iwarp-sctp netdev w0 &&
		in_far rdma link add iw1 type iwarp-sctp netdev w0 && in_far bash -c '. ./lib.sh; mount_nfs 3 nconnect=2 10.7.0.1'
}

# The addresses of both ends, of each association of the mount.
have_two_addresses() {
	local seen
	seen=$(in_far sed 1d /proc/net/sctp/assocs | while read -r line; do grep -oE '10\.7\.[0-9.]+' <<<"$line" | sort | xargs; done)
	echo "$seen"
	[ "$(wc -l <<<"$seen")" -eq 2 ] && [ "$(sort -u <<<"$seen")" = "10.7.0.1 10.7.0.2 10.7.1.1 10.7.1.2" ]
}

# SCTP knows of each path that it works, at either end.
paths_are_active() {
	local left=60 states
	until states=$(sed 1d /proc/net/sctp/remaddr && in_far sed 1d /proc/net/sctp/remaddr) && [ "$(wc -l <<<"$states")" -eq 8 ] &&
		[ "$(awk '{ print $NF }' <<<"$states" | sort -u)" = 2 ]; do
		sleep 1
		((--left)) || { echo "$states"; return 1; }
	done
}

# kill_wire NUMBER, revive_wire NUMBER: nothing passes there, in either direction; or all does again.
kill_wire() { tc qdisc add dev "w$1" root netem loss 100% && in_far tc qdisc add dev "w$1" root netem loss 100%; }
revive_wire() { tc qdisc del dev "w$1" root && in_far tc qdisc del dev "w$1" root; }

# carried NUMBER: how many bytes came over that wire until now.
carried() { echo $(($(cat "/sys/class/net/w$1/statistics/rx_bytes") + $(cat "/sys/class/net/w$1/statistics/tx_bytes"))); }

# carries NUMBER: I/O that goes on uses that wire, or will: SCTP probes a path that did not answer, at intervals that grow to 45 s.
carries() {
	local before left=90
	before=$(carried "$1")
	until [ $(($(carried "$1") - before)) -gt 1000000 ]; do
		sleep 1
		((--left)) || { echo "$(($(carried "$1") - before)) bytes over wire $1"; return 1; }
	done
	echo "wire $1 carries I/O after $((90 - left)) s"
}
first_dies() { sleep 2 && carries 0 && kill_wire 0 && carries 1; }
# The second one dies while it has all I/O.
other_dies() { sleep 2 && kill_wire 0 && carries 1 && revive_wire 0 && kill_wire 1 && carries 0; }

is_used_again() {
	local before left=60
	revive_wire "$1" || return
	until before=$(carried "$1") && random_file "$mnt/file" 2000000 && drop_file "$mnt/file" && cmp "$mnt/file" /export/file &&
		[ $(($(carried "$1") - before)) -gt 2000000 ]; do
		sleep 2
		((--left)) || { in_far cat /proc/net/sctp/remaddr; return 1; }
	done
}

# Of all RPCs of the mount.
timeouts() { awk -v at="on $mnt " '/^device / { on = index($0, at) } on && /^\t *[A-Z_]+: / { sum += $4 } END { print sum + 0 }' /proc/self/mountstats; }
no_timeout() {
	echo "$(timeouts) timeouts, $(connections) connections"
	[ "$(timeouts)" -eq 0 ] && [ "$(connections)" -eq 2 ]
}
# That the two transports have made.
connections() { awk -v at="on $mnt " '/^device / { on = index($0, at) } on && $1 == "xprt:" { sum += $5 } END { print sum }' /proc/self/mountstats; }

second_returns() { revive_wire 1 && paths_are_active; }

# For longer than the longest time between two repetitions, which is 10 s.
both_die() { sleep 2 && kill_wire 0 && kill_wire 1 && sleep 12 && revive_wire 0 && revive_wire 1; }
both_have_died() { during_io both_die && no_timeout && umount "$mnt"; }

# offers ADDRESS...: those of the server that a client which connects now is told of, at once or soon.
offers() {
	local left=20 seen
	# shellcheck disable=SC2016 # the shell in the namespace expands it
	until seen=$(in_far bash -c '. ./lib.sh; mount_nfs 3 nosharecache 10.7.0.1 &&
			grep -oE "10[.]7[.][01][.]1\b" /proc/net/sctp/assocs | sort -u | xargs && umount "$mnt"') && [ "$seen" = "$*" ]; do
		sleep 0.5
		((--left)) || { echo "offered: $seen"; return 1; }
	done
}
are_followed() { ip address del 10.7.1.1/24 dev w1 && offers 10.7.0.1 && ip address add 10.7.1.1/24 dev w1 && offers 10.7.0.1 10.7.1.1; }

# A device of its own on the second wire, whose address the first listener has.
serves_over_both() {
	rdma link add iw2 type iwarp-sctp netdev w1 && in_far rdma link add iw3 type iwarp-sctp netdev w1 &&
		in_far bash -c '. ./lib.sh; mount_nfs 3 nosharecache 10.7.1.1' && cmp "$mnt/file" /export/file && umount "$mnt"
}
goes() {
	"$scripts/vm/nfs-server" stop && in_far rdma link del iw1 && unload && timeout 60 rmmod iwarp && ip netns del far
}

load=(--size=8M --numjobs=2 --iodepth=4)
plan 14
check "a mount over two wires" mounts || exit
check "each association has two addresses at either end" have_two_addresses
check "all paths are active" paths_are_active
# Shows S7.2-4.
check "the first wire dies during I/O, and the second one takes over" during_io first_dies
check "no RPC has timed out, and no connection broke" no_timeout
check "the first wire returns, and is used again" is_used_again 0
check "during I/O the first wire dies and returns, and then the second one dies" during_io other_dies
check "no RPC has timed out then, and no connection broke" no_timeout
check "the second wire returns, and all paths are active" second_returns
check "both wires die for 12 seconds during I/O, and return: no RPC times out, and no connection breaks" both_have_died
check "an address of the list that the server loses is not offered any more, and offered again when it is back" are_followed
check "with a device on each wire, clients come over both" serves_over_both
check "all of it goes" goes
check "a list with something that is no address is refused" refused 10.7.1.1,v1
finish
