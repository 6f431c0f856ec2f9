#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The connection breaks during I/O, in several ways, and no data is lost.
#
# The environment variables DISCONNECTS, RESTARTS, REMOVALS and LOSSES say how often; `make check-all` sets
# higher numbers. LONG_FORMS=yes moves more data at a time.

. ./lib.sh
need_pair

load=(--size=12M --numjobs=2)
! long_form || load=(--size=24M --numjobs=2)

often() { for _ in $(seq "$1"); do sleep 1; "${@:2}" || return; done; }

# survives COUNT COMMAND...: runs the command COUNT times during verified I/O. The data must be intact, and the connection must
# have been made again. It need not be there again before the command runs the next time.
survives() {
	local before
	before=$(counter connect_count)
	during_io often "$@" || return
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" -ge $((before + ($1 + 3) / 4)) ]
}

remove_server_device() { on_server "rdma link del $RDMA_DEVICE; sleep 1; rdma link add $RDMA_DEVICE type $RDMA netdev eth0"; }
remove_device() { rdma link del "$RDMA_DEVICE" && sleep 1 && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }

# What is kept for the next connection must not hold a reference to the device.
remove_idle_device() { drop_connection && sleep 1 && timeout 30 rdma link del "$RDMA_DEVICE" && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }

# Nor may the next attempt to connect, which waits longer after each failure.
remove_waiting_device() {
	local reader
	on_server "$scripts/vm/nfs-server stop"
	drop_connection
	stat "$mnt/." >/dev/null &
	reader=$!
	sleep 20
	timeout 4 rdma link del "$RDMA_DEVICE" || return
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && on_server "$scripts/vm/nfs-server start" && wait "$reader"
}

# rxe does not notice that the hardware address of the server changes, but the connection manager reports it. It does so for RoCE only:
# below iWARP it is TCP's to find the server. The connection is idle at that time.
moves=ends
[ "$RDMA" = rxe ] || moves="does not end"
connected() { grep CONNECTED <(xprts xprt_state); }
server_moves() {
	mount_nfs 3 && random_file "$mnt/moved" 100000 && sync && connected || return
	ip neigh replace "$SERVER_ADDR" lladdr 02:00:00:00:00:01 dev eth0
	sleep 3
	if [ "$moves" = ends ]; then ! connected; else connected; fi
	local status=$?
	ip neigh del "$SERVER_ADDR" dev eth0
	same_file moved && umount "$mnt" && return $status
}

# rxe gives up the connection. TCP does not.
drop_packets_for_8_seconds() { drop_packets && sleep 8 && pass_packets; }
loses_packets() { if [ "$RDMA" = rxe ]; then survives "$@"; else during_io often "$@"; fi; }

plan 10
mount_nfs 4.2 || exit
check "the client drops the connection" survives "${DISCONNECTS:-3}" drop_connection
check "the server restarts" survives "${RESTARTS:-2}" restart_server
check "the server's device goes and comes back" survives "${REMOVALS:-2}" remove_server_device
check "the client's device goes and comes back" survives "${REMOVALS:-2}" remove_device
check "the client's device goes while nothing is connected" remove_idle_device
check "the client's device goes while the client waits to connect" remove_waiting_device
check "all packets are lost for 8 seconds" loses_packets "${LOSSES:-1}" drop_packets_for_8_seconds
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "the file system unmounts" umount "$mnt"
check "a server that moves to other hardware $moves the connection" server_moves
finish
