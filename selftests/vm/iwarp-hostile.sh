#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Peers that break the rules of MPA or of sessions over SCTP, of DDP and RDMAP, on plain sockets (selftests/iwpeer/hostile.py and
# hostile_sctp.py), against the server's device. Each gets what the RFCs say, and an honest client beside them notices nothing.

. ./lib.sh
need_pair
# The peers, and what prints the connections to the server's port.
# shellcheck disable=SC2153 # the VM sets it
case $PEER_RDMA in
iwarp-tcp)
	peers=../iwpeer/hostile.py
	all="ss -Hnt state all sport = :$port | grep -vE 'LISTEN|TIME-WAIT'"
	;;
iwarp-sctp)
	peers=../iwpeer/hostile_sctp.py
	all="awk '\$12 == $port' /proc/net/sctp/assocs"
	;;
*) cannot_run "the server's device is iwarp-tcp or iwarp-sctp; it is $PEER_RDMA" ;;
esac

connections() { on_server "$all" | wc -l; }
# Ours was among those before. Who cannot count finds none.
all_gone() {
	local left=60
	[ "$1" -ge 1 ] || { echo "$1 connections before"; return 1; }
	until [ "$(connections)" -le "$1" ]; do
		sleep 1
		((--left)) || return
	done
}

# A consumer that does not decide is one of rdma_ucm.
modprobe rdma_ucm || exit
mount_nfs 3 || exit
random_file "$mnt/honest" 2000000
before=$(connections)
while [ ! -e /tmp/over ]; do dd if="$mnt/honest" of=/dev/null bs=64k iflag=direct status=none || touch /tmp/lost; done &
honest=$!

mapfile -t results < <("$peers" "$SERVER_ADDR" "$port")
touch /tmp/over
wait "$honest"
planned=${results[0]#1..} results=("${results[@]:1}")

undisturbed() { [ ! -e /tmp/lost ] && [ "$(counter connect_count)" -eq 1 ] && same_file honest; }

plan $((${#results[@]} + 4))
for result in "${results[@]}"; do
	if [[ $result == ok* ]]; then ktap_test_pass "${result#ok }"; else ktap_test_fail "${result#not ok }"; fi
done
check "all cases ran" [ "${#results[@]}" -eq "$planned" ]
# Shows P5.4-3.
check "why a peer ended its connection is logged" on_server "dmesg | grep 'ended its connection with a Terminate: layer 0, type 0, code 0x00'"
check "an honest client keeps its connection meanwhile" undisturbed
# Shows P7-3.
check "no connection of theirs is left" all_gone "$before"
finish
