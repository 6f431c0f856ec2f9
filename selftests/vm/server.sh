#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server: listeners are added, threads end and start again during I/O, the module is unloaded and loaded again, and its files in
# /proc/sys have the names, ranges and values of the in-tree module.

. ./lib.sh
need_pair

svc=/proc/sys/sunrpc/svc_rdma

listens() { on_server "grep -qx 'rdma $1' /proc/fs/nfsd/portlist"; }

second_port() {
	on_server "echo 'rdma 20050' >/proc/fs/nfsd/portlist" && listens 20050 && port=20050 serves second mount_nfs 4.2
}

# rpcbind has the port of the server for TCP. A listener for RDMA can have the same port number.
by_rpcbind() { on_server "echo 'rdma 2049' >/proc/fs/nfsd/portlist" && serves bound bound; }
bound() { port=0 mount_nfs 3 && [ "$(counter bind_count)" -gt 0 ] && grep " $mnt nfs" /proc/mounts | grep -q 'proto=rdma'; }

# nfsdctl adds listeners, and takes one away, before there are threads: then the kernel makes the others anew.
by_nfsdctl() {
	on_server "set -e
		nfsdctl threads 0
		nfsdctl listener +rdma:0.0.0.0:20051 +rdma:0.0.0.0:20053
		grep -qx 'rdma 20053' /proc/fs/nfsd/portlist
		nfsdctl listener -rdma:0.0.0.0:20053
		nfsdctl threads 4" &&
		listens 20051 && port=20051 serves third mount_nfs 4.2 && not listens 20053 && not port_answers 20053
	local status=$?
	restart_server && return $status
}

port_answers() { port=$1 mount_nfs 4.2 && umount "$mnt"; }

bonded() { mount -t nfs -o proto=rdma,port=20052,vers=4.2,retry=0 10.0.9.1:/ /mnt && ls /mnt && umount /mnt; }

# When a bond switches to its other device, its address has another hardware address. The listener must accept there.
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
		for _ in {1..30}; do bonded && break; sleep 1; done
		bonded"
	local status=$?
	on_server "$scripts/vm/nfs-server stop; rdma link del rxe-bond; ip link del bond9; $scripts/vm/nfs-server start" && return $status
}

trace=/sys/kernel/tracing/trace
post_send=/sys/kernel/tracing/events/rpcrdma/svcrdma_post_send
setting() { on_server "cat $svc/$1"; }

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
		max_total_requests 0 16777216
		max_total_read_pages 0 16777216
		progress_timeout 3 3600
	END
}

# I/O on the mount increments them; writing anything to such a file sets it to zero.
statistics() {
	local name
	for name in read recv write sq_starve rq_starve rq_poll rq_prod sq_poll sq_prod bad_calls lost rejected stalled; do
		[[ $(setting rdma_stat_$name) =~ ^[0-9]+$ ]] || { echo "no rdma_stat_$name"; return 1; }
	done
	on_server "echo 0 >$svc/rdma_stat_recv"
	[ "$(setting rdma_stat_recv)" -lt 5 ] || return
	stat "$mnt" >/dev/null && ls "$mnt" >/dev/null && random_file "$mnt/counted" 200000 && sync
	[ "$(setting rdma_stat_recv)" -gt 0 ] && [ "$(setting rdma_stat_read)" -gt 0 ] || return
	drop_caches
	cat "$mnt/counted" >/dev/null
	[ "$(setting rdma_stat_write)" -gt 0 ]
}

# Without threads no transport is left, so the module can be unloaded; clients reconnect when it is back.
module_returns() {
	sleep 1
	on_server "cd /src/selftests/vm && . ./lib.sh && $scripts/vm/nfs-server stop && unload &&
		[ ! -e /sys/module/rpcrdma ] && $scripts/vm/nfs-server start"
}

# The client ends the connection while the server works on its requests.
clients_disconnect() {
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

# Prints KiB of vmalloc memory: the queues of the device, and other memory that is too large for a slab.
queues() { on_server "awk '/^VmallocUsed:/ { print \$2 }' /proc/meminfo"; }

# Prints KiB of the slab that Receive and Send buffers come from, after it has been shrunk. Each CPU caches a few free objects, so
# the lowest of five readings counts.
buffers() {
	on_server "for _ in 1 2 3 4 5; do
		echo 1 >/sys/kernel/slab/kmalloc-8k/shrink
		awk '/^kmalloc-8k / { print \$2 * 8 }' /proc/slabinfo
		sleep 0.1
	done | sort -n | head -n 1"
}

connections() { on_server "rdma resource show qp" | grep -c 'type RC'; }

# Mounts with sixteen connections that do hardly anything.
idle_connections() {
	local before each
	while [ "$(connections)" -gt 0 ]; do sleep 0.5; done
	before=$(($(buffers) + $(queues)))
	mount_nfs 4.2 nconnect=16 || return
	# One RPC at a time, to each connection in turn.
	dd if=/dev/zero of="$mnt/turns" bs=4k count=128 oflag=direct status=none || return
	[ "$(connections)" = 16 ] || { echo "$(connections) connections"; return 1; }
	# What they do not need for now is given back, within a few seconds.
	for _ in {1..10}; do
		sleep 1
		each=$((($(buffers) + $(queues) - before) / 16))
		[ "$each" -ge 192 ] || break
	done
	echo "$each KiB each"
	[ "$each" -lt 192 ] && [ "$each" -gt 128 ]
}

# The credits of the first connection, as the client sees them.
credits() { echo $(($(xprts xprt_info | sed -n 's/^cong_win=//p' | head -n 1) / 256)); }

# The grant, and the number of Receives with it, doubles while half of the credits are in use.
busy_connection() {
	local idle seldom few often status
	idle=$(buffers)
	verified_io --bsrange=4k-4k --size=1M || return
	few=$(credits)
	# Completions may be late, and Send buffers come back with them.
	for _ in 1 2 3; do
		seldom=$(buffers)
		[ $((seldom - idle)) -ge 192 ] || break
		sleep 1
	done
	# A server that replies as fast as Calls arrive never has many at a time, so it gets only one thread.
	on_server "echo 1 >/proc/fs/nfsd/threads"
	verified_io --bsrange=4k-4k --size=2M --ioengine=libaio --iodepth=64
	status=$?
	on_server "echo 4 >/proc/fs/nfsd/threads"
	[ $status -eq 0 ] || return
	often=$(buffers)
	echo "$idle KiB at first, $seldom and $few credits after one RPC at a time, $often after many"
	# The former has no more Receives, and up to 17 Send buffers, as one Send in sixteen asks for a completion.
	[ "$few" -eq 8 ] && [ $((seldom - idle)) -lt 192 ] && [ $((often - seldom)) -gt 512 ]
}

read_slowly() { dd if="$mnt/slow" of=/dev/null bs=4k count="$1" iflag=direct status=none; }

# sinks_to CREDITS: within 45 s, while one RPC at a time is sent, the grant is no higher than that.
sinks_to() {
	for _ in {1..45}; do
		sleep 1
		read_slowly 1 || return
		[ "$(credits)" -gt "$1" ] || return 0
	done
	echo "$(credits) credits after 45 s, not $1"
	return 1
}

# Half a minute after a client was busy, and goes on with one RPC at a time, it loses the credits that it does not use; or half a minute
# later, as the end of what it did before may be less than a quarter of its credits. The Receives for them go as its Calls arrive.
unused_credits() {
	local many few least before after
	many=$(credits) before=$(buffers)
	random_file "$mnt/slow" 1048576 && sync
	# It may take two steps.
	for least in $((many - 1)) 8; do
		sinks_to "$least" || return
	done
	few=$(credits)
	# What was sent under the higher grant arrives within some seconds.
	for _ in {1..8}; do
		sleep 1
		read_slowly 1 || return
	done
	read_slowly 200 || return
	sleep 3
	after=$(buffers)
	echo "$many credits became $few, and $before KiB $after"
	[ "$many" -ge 64 ] && [ "$few" -le 8 ] && [ $((before - after)) -gt 512 ]
}

# If too few Receives were left, iWARP would end the connection.
busy_again() {
	local lost
	lost=$(setting rdma_stat_lost)
	verified_io --bsrange=4k-4k --size=2M --ioengine=libaio --iodepth=64 || return
	echo "$(credits) credits"
	[ "$(credits)" -ge 16 ] && [ "$(setting rdma_stat_lost)" = "$lost" ]
}

# Prints how many replies were posted by completions, which run in a kernel worker, and how many by threads.
posted() {
	on_server "grep 'svcrdma_post_send:' $trace | awk '/^ *kworker/ { worker++ } /^ *nfsd/ { thread++ } END { print worker + 0, thread + 0 }'"
}
# A few are calls to the client, which a kernel worker makes, too.
many_by_both() { [ "${1% *}" -gt 50 ] && [ "${1#* }" -gt 50 ]; }

# Over a long path with quick replies few calls are on the server at the same time, but many on the way. A slow server may have none
# that wait for the Send queue, so there are several rounds; each is recorded alone.
long_path() {
	local credits status
	mount_nfs 4.2 || return
	on_server "echo 1 >$post_send/enable" || return
	modprobe sch_netem && tc qdisc add dev eth0 root netem limit 10000 delay 20ms || return
	for _ in {1..5}; do
		on_server "echo >$trace"
		verified_io --bsrange=4k-4k --size=2M --ioengine=libaio --iodepth=64
		status=$?
		if [ $status -ne 0 ] || many_by_both "$(posted)"; then break; fi
	done
	tc qdisc del dev eth0 root
	on_server "echo 0 >$post_send/enable"
	credits=$(credits)
	umount "$mnt"
	echo "$credits credits"
	[ $status -eq 0 ] && [ "$credits" -ge 64 ]
}

# Over the long path, more replies were on the way than the Send queue has room for.
completions_post() {
	local counts
	counts=$(posted)
	echo "posted by completions and by threads: $counts"
	many_by_both "$counts"
}

# No credits are left for all connections together, so each has its own share.
no_credits_left() {
	local credits status
	on_server "echo 0 >$svc/max_total_requests"
	mount_nfs 4.2 && verified_io --bsrange=4k-4k --size=2M --ioengine=libaio --iodepth=64
	status=$?
	on_server "echo 16384 >$svc/max_total_requests"
	credits=$(credits)
	umount "$mnt"
	echo "$credits credits"
	[ $status -eq 0 ] && [ "$credits" -eq 8 ]
}

# No pages are left for all connections together, so each has one call at a time read, and the others wait without a thread. Calls of a
# client that is slow may not meet at the server, so it may try again.
no_pages_left() {
	local status before waited=0 tries=5
	before=$(setting max_total_read_pages)
	on_server "echo 0 >$svc/max_total_read_pages; echo 0 >$svc/rdma_stat_sq_starve"
	while [ "$waited" -eq 0 ] && ((tries--)); do
		verified_io --rw=write --bs=16k --size=4M --ioengine=libaio --iodepth=16
		status=$?
		waited=$(setting rdma_stat_sq_starve)
	done
	on_server "echo $before >$svc/max_total_read_pages"
	echo "$waited calls and replies waited"
	[ $status -eq 0 ] && [ "$waited" -gt 0 ]
}

plan 18
check "the listener is shown" listens 20049
# Shows S9-03.
check "a second listener serves" second_port
# Shows S5-03.
check "a client asks rpcbind for the port" by_rpcbind
check "a listener made by nfsdctl serves, and one that it took away does not" by_nfsdctl
check "a listener follows its address" address_moves
check "a busy connection over a long path gets more credits" long_path
check "replies that waited are posted by completions" completions_post
check "every connection gets its own share of credits" no_credits_left
mount_nfs 4.2 || exit
check "a busy connection gets more credits" busy_connection
check "a connection gives back the credits that it does not use" unused_credits
check "it gets them again" busy_again
check "calls that are read one at a time arrive whole" no_pages_left
check "the sysctls accept their ranges" ranges
check "the statistics count, and can be reset" statistics
load=(--size=8M)
check "the module is unloaded and loaded again during I/O" during_io module_returns
random_file "$mnt/large" 4000000 && sync
check "clients disconnect during READs" clients_disconnect
umount "$mnt"
check "sixteen idle connections have under 192 KiB each" idle_connections
random_file "$mnt/many" 3000000
check "a file over sixteen connections is the same on both machines" same_file many
finish
