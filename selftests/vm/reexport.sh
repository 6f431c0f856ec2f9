#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A proxy: the client of the pair mounts its server over RDMA and exports that mount over RDMA, and the server of the pair mounts the
# re-export. So both machines are client and server at the same time, over one device, and an nfsd thread that executes a call waits
# for calls of its own machine's client: while connections break, and while the device goes that both of them use.
#
# LONG_FORMS=yes also restarts the proxy's server, and breaks connections more often.

. ./lib.sh
need_pair

# So many seconds may the removal of the proxy's device take.
most=30
far=/mnt/far
breaks=2
! long_form || breaks=6

exports_mount() { exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=77 "*:/export/proxy"; }

starts_server() {
	# Its daemons stay, and must not keep the pipes of the runner, which waits for their end.
	"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&-
}

exports() {
	starts_server || return
	mkdir -p /export/proxy
	mount -t nfs -o "proto=rdma,port=$port,vers=3,nolock,retry=0" "$SERVER_ADDR:/export" /export/proxy && exports_mount
}

# shellcheck disable=SC2153 # the VM sets it
far_mounts() {
	on_server "mkdir -p $far && timeout 100 mount -t nfs -o proto=rdma,port=$port,vers=4.2,retry=0 $CLIENT_ADDR:/proxy $far &&
		grep ' $far ' /proc/mounts | grep proto=rdma"
}

# What the server of the pair writes by way of the proxy is the same there, on the proxy and in what it exports itself.
same_everywhere() {
	local proxy there
	there=$(on_server "head -c 1500000 /dev/urandom >$far/$1 && sync $far/$1 && echo 3 >/proc/sys/vm/drop_caches && sha256sum <$far/$1") || return
	[ "$there" = "$(on_server "sha256sum </export/$1")" ] || { echo "the server has something else"; return 1; }
	proxy=$(sha256sum <"/export/proxy/$1")
	[ "$proxy" = "$there" ]
}

# far_io: I/O by way of the proxy begins, until `far_io_ends`. One command at a time runs on the server.
far_io() {
	local size=6M
	[[ $KERNEL != *debug ]] || size=1M
	on_server "rm -f /tmp/far.{status,over}
		(until [ -e /tmp/far.over ]; do
			fio --name=far --directory=$far --rw=randwrite --bsrange=4k-256k --size=$size --numjobs=2 --direct=1 \
				--verify=crc32c --verify_fatal=1 --fallocate=none --unlink=1 || break
		done; echo \$? >/tmp/far.status) >/tmp/far.log 2>&1 &"
}

far_io_ends() {
	local status
	status=$(on_server "touch /tmp/far.over; for _ in {1..120}; do [ -e /tmp/far.status ] && break; sleep 1; done; cat /tmp/far.status")
	[ "$status" = 0 ] || { on_server "tail -n 20 /tmp/far.log; cat /proc/\$(pgrep -xo fio)/stack"; return 1; }
}

# The proxy's connection to the server, and the one to the proxy, in turn.
connections_break() {
	far_io || return
	for _ in $(seq "$breaks"); do
		sleep 2
		drop_connection
		sleep 2
		on_server "for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
			timeout -s KILL 3 sh -c 'echo $CLIENT_ADDR >'\$file; done; true"
	done
	far_io_ends
}

proxy_restarts() {
	far_io || return
	sleep 3
	"$scripts/vm/nfs-server" stop
	sleep 2
	starts_server && exports_mount && far_io_ends
}

stacks() { for task; do echo "$(<"/proc/$task/comm") $task"; cat "/proc/$task/stack"; done; }

# nfsd threads of the proxy execute calls that wait for the proxy's client, which has no device then.
device_goes() {
	local removal start=$SECONDS
	far_io || return
	sleep 3
	rdma link del "$RDMA_DEVICE" 3>&- 4>&- &
	removal=$!
	while kill -0 $removal 2>/dev/null; do
		if [ $((SECONDS - start)) -gt $((most + 3)) ]; then
			echo "the removal of the device is not over after $most s"
			# shellcheck disable=SC2046 # one word each
			stacks $removal $(pgrep -x nfsd)
			return 1
		fi
		sleep 0.2
	done
	wait $removal || return
	echo "the device was gone after $((SECONDS - start - 3)) s"
	# Long enough for the calls that were under way to find none.
	sleep 3
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && far_io_ends
}

checks=5
! long_form || checks=6
plan $checks
check "a mount over RDMA is exported over RDMA" exports
check "it can be mounted" far_mounts
check "a file is the same on all three" same_everywhere first
check "connections on either side of the proxy break during I/O" connections_break
! long_form || check "the proxy's server starts again during I/O" proxy_restarts
# Last, since a removal that does not end leaves a machine that can do nothing more.
check "the proxy's device goes within $most s during I/O, and comes back" device_goes
on_server "umount -f -l $far"
umount -f -l /export/proxy
"$scripts/vm/nfs-server" stop
finish
