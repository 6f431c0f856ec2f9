#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server side: listeners come and go, threads end and start again under load, the module leaves and returns, and its
# files under /proc/sys have the names, ranges and values that administrators know.

. ./lib.sh
need_pair

svc=/proc/sys/sunrpc/svc_rdma

listens() { on_server "grep -qx 'rdma $1' /proc/fs/nfsd/portlist"; }

second_port() {
	on_server "echo 'rdma 20050' >/proc/fs/nfsd/portlist" && listens 20050 && port=20050 serves second mount_nfs 4.2
}

# rpcbind knows the port of TCP. The ports of RDMA are others, and the same one is free.
by_rpcbind() { on_server "echo 'rdma 2049' >/proc/fs/nfsd/portlist" && serves bound bound; }
bound() { port=0 mount_nfs 3 && [ "$(counter bind_count)" -gt 0 ] && grep " $mnt nfs" /proc/mounts | grep -q 'proto=rdma'; }

# nfsdctl names listeners before there are threads.
by_nfsdctl() {
	on_server "nfsdctl threads 0 && nfsdctl listener +rdma:0.0.0.0:20051 && nfsdctl threads 4" && listens 20051 &&
		port=20051 serves third mount_nfs 4.2
	local status=$?
	restart_server && return $status
}

bonded() { mount -t nfs -o proto=rdma,port=20052,vers=4.2,retry=0 10.0.9.1:/ /mnt && ls /mnt && umount /mnt; }

# An address goes to the other part of a bond, and with it to another hardware address. The listener follows.
address_moves() {
	on_server "set -e
		modprobe -a bonding dummy rdma_rxe
		ip link add bond9 type bond mode active-backup fail_over_mac active
		for part in part1 part2; do ip link add \$part type dummy; ip link set \$part master bond9; done
		ip link set bond9 up
		ip address add 10.0.9.1/24 dev bond9
		rdma link add rxe-bond type rxe netdev bond9
		nfsdctl threads 0
		nfsdctl listener +rdma:10.0.9.1:20052
		nfsdctl threads 4
		$(declare -f bonded)
		bonded
		before=\$(cat /sys/class/net/bond9/address)
		ip link set bond9 type bond active_slave part2
		[ \$before != \$(cat /sys/class/net/bond9/address) ]
		sleep 3
		bonded"
	local status=$?
	on_server "$scripts/vm/nfs-server stop; rdma link del rxe-bond; ip link del bond9; $scripts/vm/nfs-server start" && return $status
}

knob() { on_server "cat $svc/$1"; }

ranges() {
	local name low high
	while read -r name low high; do
		on_server "cd $svc && old=\$(cat $name) &&
			echo $low >$name && echo $high >$name && [ \$(cat $name) = $high ] &&
			! echo $((low - 1)) >$name && ! echo $((high + 1)) >$name && [ \$(cat $name) = $high ] &&
			echo \$old >$name" || { echo "$name: not $low to $high"; return 1; }
	done <<-END
		max_requests 4 16384
		max_req_size 4096 65536
		max_outbound_read_requests 1 255
	END
}

# Reading through the mount moves them; writing anything to a file sets it to zero.
statistics() {
	local name
	for name in read recv write sq_starve rq_starve rq_poll rq_prod sq_poll sq_prod; do
		[[ $(knob rdma_stat_$name) =~ ^[0-9]+$ ]] || { echo "no rdma_stat_$name"; return 1; }
	done
	on_server "echo 0 >$svc/rdma_stat_recv"
	[ "$(knob rdma_stat_recv)" -lt 5 ] || return
	stat "$mnt" >/dev/null && ls "$mnt" >/dev/null && random_file "$mnt/counted" 200000 && sync
	[ "$(knob rdma_stat_recv)" -gt 0 ] && [ "$(knob rdma_stat_read)" -gt 0 ] || return
	drop_caches
	cat "$mnt/counted" >/dev/null
	[ "$(knob rdma_stat_write)" -gt 0 ]
}

# Without threads no transport is left, so that the module can go; clients come back to the next one.
module_returns() {
	sleep 1
	on_server "cd /src/selftests/vm && . ./lib.sh && $scripts/vm/nfs-server stop && unload &&
		[ ! -e /sys/module/rpcrdma ] && $scripts/vm/nfs-server start"
}

# Requests that nobody reads the reply of: the client goes while the server is at work.
clients_vanish() {
	local reader
	for _ in 1 2 3; do
		while dd if="$mnt/large" of=/dev/null bs=1M iflag=direct; do :; done 2>/dev/null &
		reader=$!
		sleep 0.3
		umount -f -l "$mnt"
		wait "$reader"
		mount_nfs 4.2 || return
	done
	same_file large
}

# KiB of the queues of its devices, and of other pieces that are too large for a slab.
queues() { on_server "awk '/^VmallocUsed:/ { print \$2 }' /proc/meminfo"; }

# KiB that the server has in pieces as long as a Receive or a Send; first it lets go of what it keeps of freed ones.
# Each CPU keeps a few that somebody has just freed, so the least of some readings counts.
buffers() {
	on_server "for _ in 1 2 3 4 5; do
		echo 1 >/sys/kernel/slab/kmalloc-8k/shrink
		awk '/^kmalloc-8k / { print \$2 * 8 }' /proc/slabinfo
		sleep 0.1
	done | sort -n | head -n 1"
}

connections() { on_server "rdma resource show qp" | grep -c 'type RC'; }

# Mounts with sixteen connections, which do little more than to come into being.
idle_connections() {
	local before each
	while [ "$(connections)" -gt 0 ]; do sleep 0.5; done
	before=$(($(buffers) + $(queues)))
	mount_nfs 4.2 nconnect=16 || return
	# One RPC at a time, to each connection in turn.
	dd if=/dev/zero of="$mnt/turns" bs=4k count=128 oflag=direct status=none || return
	[ "$(connections)" = 16 ] || { echo "$(connections) connections"; return 1; }
	each=$((($(buffers) + $(queues) - before) / 16))
	echo "$each KiB each"
	[ "$each" -lt 256 ] && [ "$each" -gt 128 ]
}

# Credits, and the Receives behind them, double while half of them are in use.
busy_connection() {
	local idle seldom often status
	idle=$(buffers)
	verified_io --bsrange=4k-4k --size=1M || return
	seldom=$(buffers)
	# A server that answers as fast as Calls come never has many at a time. One thread is slower.
	on_server "echo 1 >/proc/fs/nfsd/threads"
	verified_io --bsrange=4k-4k --size=4M --ioengine=libaio --iodepth=64
	status=$?
	on_server "echo 4 >/proc/fs/nfsd/threads"
	[ $status -eq 0 ] || return
	often=$(buffers)
	echo "$idle KiB at first, $seldom after one RPC at a time, $often after many"
	[ $((seldom - idle)) -lt 128 ] && [ $((often - seldom)) -gt 512 ]
}

plan 12
check "the listener is shown" listens 20049
check "a second listener serves" second_port
check "a client asks rpcbind for the port" by_rpcbind
check "a listener made by nfsdctl serves" by_nfsdctl
check "a listener follows its address" address_moves
mount_nfs 4.2 || exit
check "a busy connection gets more credits" busy_connection
check "the sysctls take what they should" ranges
check "the statistics count, and start again" statistics
load=(--size=8M)
check "the module goes and comes back under load" in_spite module_returns
random_file "$mnt/large" 4000000 && sync
check "clients vanish in the middle of READs" clients_vanish
umount "$mnt"
check "sixteen idle connections have under 256 KiB of buffers each" idle_connections
random_file "$mnt/many" 3000000
check "a file over sixteen connections is the same on both machines" same_file many
finish
