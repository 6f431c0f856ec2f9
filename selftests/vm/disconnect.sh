#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The connection breaks in the middle of I/O, each time another way, and nothing is lost.
#
# DISCONNECTS, RESTARTS and REMOVALS say how often; `make check-all` asks for more.

. ./lib.sh
need_pair

load=(--size=24M --numjobs=2)

often() { for _ in $(seq "$1"); do sleep 1; "${@:2}" || return; done; }

# survives COUNT COMMAND...: breaks the connection so often while verified I/O runs, and wants data whole and the
# connection made anew. It need not stand again when it is broken the next time.
survives() {
	local before
	before=$(counter connect_count)
	in_spite often "$@" || return
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" -ge $((before + ($1 + 3) / 4)) ]
}

remove_server_device() { on_server "rdma link del ${RDMA}0; sleep 1; rdma link add ${RDMA}0 type $RDMA netdev eth0"; }
remove_device() { rdma link del "${RDMA}0" && sleep 1 && rdma link add "${RDMA}0" type "$RDMA" netdev eth0; }

# What is kept for the next connection must not keep the device.
remove_idle_device() { kick && sleep 1 && timeout 30 rdma link del "${RDMA}0" && rdma link add "${RDMA}0" type "$RDMA" netdev eth0; }

# Nor may it while the next attempt to connect waits for its time, which comes later after each failure.
remove_waiting_device() {
	local reader
	on_server "$scripts/vm/nfs-server stop"
	kick
	stat "$mnt/." >/dev/null &
	reader=$!
	sleep 20
	timeout 4 rdma link del "${RDMA}0" || return
	rdma link add "${RDMA}0" type "$RDMA" netdev eth0 && on_server "$scripts/vm/nfs-server start" && wait "$reader"
}

# Soft RoCE does not mind where the server is, but the connection manager says that it moved. Nobody sends anything meanwhile.
server_moves() {
	mount_nfs 3 && random_file "$mnt/moved" 100000 && sync && grep CONNECTED <(xprts xprt_state) || return
	ip neigh replace "$SERVER_ADDR" lladdr 02:00:00:00:00:01 dev eth0
	sleep 3
	! grep CONNECTED <(xprts xprt_state)
	local status=$?
	ip neigh del "$SERVER_ADDR" dev eth0
	same_file moved && umount "$mnt" && return $status
}

lose_packets() { go_deaf && sleep 8 && hear; }

plan 10
mount_nfs 4.2 || exit
check "the client drops the connection" survives "${DISCONNECTS:-3}" kick
check "the server restarts" survives "${RESTARTS:-2}" restart_server
check "the server's device goes and comes back" survives 2 remove_server_device
check "the client's device goes and comes back" survives "${REMOVALS:-2}" remove_device
check "the client's device goes while nothing is connected" remove_idle_device
check "and while it waits to connect" remove_waiting_device
check "all packets are lost for 8 seconds" survives 2 lose_packets
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "unmounts" umount "$mnt"
check "a server that moves to other hardware ends the connection" server_moves
finish
