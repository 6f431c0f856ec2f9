#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The connection breaks in the middle of I/O, each time another way, and nothing is lost.

. ./lib.sh
need_pair

# Runs verified I/O, breaks the connection twice while it runs, and wants data whole and the connection made anew.
survives() {
	local before fio status
	before=$(counter connect_count)
	fio --name=verify --directory="$mnt" --size=24M --rw=randwrite --bsrange=4k-1M --numjobs=2 --direct=1 \
		--verify=crc32c --verify_fatal=1 --time_based=0 --randseed="$RANDOM" --fallocate=none --unlink=1 \
		>/tmp/fio.log 2>&1 &
	fio=$!
	sleep 1
	"$@" || { echo "could not break the connection: $*"; kill "$fio"; return 1; }
	sleep 2
	kill -0 "$fio" 2>/dev/null && "$@"
	wait "$fio"
	status=$?
	[ "$status" -eq 0 ] || { cat /tmp/fio.log; return 1; }
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" -gt "$before" ]
}

# Writing the server's address anew makes sunrpc drop the connection.
kick() {
	local file
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		echo "$SERVER_ADDR" >"$file"
	done
}

remove_server_device() { on_server "rdma link del ${RDMA}0; sleep 1; rdma link add ${RDMA}0 type $RDMA netdev eth0"; }
restart_server() { on_server "$scripts/vm/nfs-server stop; $scripts/vm/nfs-server start"; }

lose_packets() {
	local packets="udp dport 4791"
	[ "$RDMA" != siw ] || packets="tcp sport $port"
	nft -f - <<-END
		table inet lost { chain in { type filter hook input priority 0; $packets drop; }; }
	END
	sleep 8
	nft delete table inet lost
}

plan 6
mount_nfs 4.2 || exit
check "the client drops the connection" survives kick
check "the server restarts" survives restart_server
check "the server's device goes and comes back" survives remove_server_device
check "all packets are lost for 8 seconds" survives lose_packets
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "unmounts" umount "$mnt"
finish
