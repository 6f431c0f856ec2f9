#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The connection breaks during I/O, in several ways, and no data is lost.
#
# The environment variables DISCONNECTS, RESTARTS, REMOVALS and LOSSES say how often; `make check-all` sets
# higher numbers. LONG_FORMS=yes moves more data at a time.

. ./lib.sh
. ./events.sh
need_pair

load=(--size=12M --numjobs=2)
! long_form || load=(--size=24M --numjobs=2)

often() { for _ in $(seq "$1"); do sleep 1; "${@:2}" || return; done; }

# survives COUNT COMMAND...: runs the command COUNT times during verified I/O. The data must be intact, and the connection must
# have been made again. It need not be there again before the command runs the next time.
survives() {
	local before
	before=$(counter connect_count)
	# The last call of the I/O may have had its reply before the connection was lost. `df` asks the server.
	during_io often "$@" && df "$mnt" || return
	echo "connections: $before before, $(counter connect_count) after"
	[ "$(counter connect_count)" -ge $((before + ($1 + 3) / 4)) ]
}

remove_server_device() { on_server "rdma link del $RDMA_DEVICE; sleep 1; rdma link add $RDMA_DEVICE type $RDMA netdev eth0"; }
remove_device() { rdma link del "$RDMA_DEVICE" && sleep 1 && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }

# What is kept for the next connection must not hold a reference to the device.
remove_idle_device() {
	local begin
	drop_connection && sleep 1 || return
	begin=$EPOCHREALTIME
	timeout 30 rdma link del "$RDMA_DEVICE" || return
	echo $(((${EPOCHREALTIME/./} - ${begin/./}) / 1000)) | tee /tmp/removal-ms
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0
}

# Nor may the next attempt to connect, which waits longer after each failure. How much longer than four seconds the removal may take goes
# by the one above, which has nothing to wait for; ten seconds are the most.
remove_waiting_device() {
	local reader status=0 limit
	limit=$((4000 + 5 * $(cat /tmp/removal-ms || echo 0)))
	limit=$((limit < 10000 ? limit : 10000))
	on_server "$scripts/vm/nfs-server stop"
	drop_connection
	stat "$mnt/." >/dev/null &
	reader=$!
	sleep 20
	timeout "$((limit / 1000)).$((limit % 1000 / 100))" rdma link del "$RDMA_DEVICE" || status=$?
	echo "the removal may take $limit ms, and ends with $status"
	# Also for the tests after this one.
	on_server "$scripts/vm/nfs-server start" || status=1
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && wait "$reader" && return $status
}

# rxe does not notice that the hardware address of the server changes, but the connection manager reports it. It does so for RoCE only:
# below iWARP it is TCP's to find the server. The connection is idle at that time.
moves=ends
[ "$RDMA" = rxe ] || moves="does not end"
connected() { grep CONNECTED <(xprts xprt_state); }
server_moves() {
	mount_nfs 3 && random_file "$mnt/moved" 100000 && sync && connected || return
	ip neigh replace "$SERVER_ADDR" lladdr 02:00:00:00:00:01 dev eth0
	if [ "$moves" = ends ]; then
		for _ in {1..60}; do connected || break; sleep 0.5; done
		! connected
	else
		sleep 3
		connected
	fi
	local status=$?
	ip neigh del "$SERVER_ADDR" dev eth0
	same_file moved && umount "$mnt" && return $status
}

# removal_needs_no_thread OPTIONS: the only nfsd thread waits for a file system, with a call of a mount with these options. The removal
# of the server's device waits neither for it nor for another: not for a connection that is idle, nor for one whose call that is, nor for
# a client that waits to be accepted, nor for a listener at an address of the device. The call is answered over the next connection.
removal_needs_no_thread() {
	local stuck waiting status=0
	export_freezable sec=sys && on_server "set -e
		echo 0 >/proc/fs/nfsd/threads
		$PWD/listeners.py rdma:$SERVER_ADDR:$port tcp:0.0.0.0:2049
		echo 4 >/proc/fs/nfsd/threads" || return
	mkdir -p /mnt/frozen /mnt/waiting
	mount_nfs 3 && mount -t nfs -o "vers=3,nolock,$1" "$SERVER_ADDR:/export/frozen" /mnt/frozen && ls "$mnt" || return
	on_server "echo 1 >/proc/fs/nfsd/threads && fsfreeze -f /export/frozen"
	touch /mnt/frozen/file &
	stuck=$!
	sleep 1
	mount -t nfs -o "proto=rdma,port=$port,vers=4.2,retry=0" "$SERVER_ADDR:/" /mnt/waiting &
	waiting=$!
	sleep 2
	# What waits in the kernel cannot be killed.
	on_server "rdma resource
		rdma link del $RDMA_DEVICE >/tmp/removal 2>&1 &
		for _ in {1..40}; do [ -z \"\$(jobs -r)\" ] && break; sleep 0.5; done
		jobs
		cat /tmp/removal
		[ -z \"\$(jobs -r)\" ] && ! rdma link show $RDMA_DEVICE/1" || status=1
	kill -0 $stuck || { echo "a thread was free"; status=1; }
	on_server "fsfreeze -u /export/frozen; sleep 1; rdma link add $RDMA_DEVICE type $RDMA netdev eth0; $scripts/vm/nfs-server stop
		$scripts/vm/nfs-server start"
	wait $stuck && on_server "test -e /export/frozen/file" || status=1
	wait $waiting && umount /mnt/waiting
	umount /mnt/frozen "$mnt" || status=1
	unexport_freezable || status=1
	return $status
}

# rxe gives up the connection, if it waits for an acknowledgement then. The log of a machine where it says so has the reason, though
# requests that are flushed may complete before the one that failed. TCP gives up nothing.
drop_packets_for_8_seconds() { drop_packets && sleep 8 && pass_packets; }
# gave_reason LINES: of the log behind so many lines.
gave_reason() {
	! dmesg | tail -n "+$(($1 + 1))" | grep 'rxe.*non-flush error status = 12' || [ ! -e /sys/module/rpcrdma/version ] ||
		dmesg | tail -n "+$(($1 + 1))" | grep 'lost: transport retry counter exceeded'
}
loses_packets() {
	local here there
	if [ "$RDMA" != rxe ]; then
		during_io often "$@"
		return
	fi
	here=$(dmesg | wc -l) there=$(on_server "dmesg | wc -l")
	survives "$@" && gave_reason "$here" && on_server "$(declare -f gave_reason); gave_reason $there"
}

plan 14
mount_nfs 4.2 || exit
record_events here xprtrdma_device_removal && record_events there svcrdma_device_removal || exit
# Shows S2.3.2-05, S4.5.5-01, SEC-18.
check "the client drops the connection" survives "${DISCONNECTS:-3}" drop_connection
check "the server restarts" survives "${RESTARTS:-2}" restart_server
check "the server's device goes and comes back" survives "${REMOVALS:-2}" remove_server_device
# Shows SEC-18.
check "the client's device goes and comes back" survives "${REMOVALS:-2}" remove_device
check "the client's device goes while nothing is connected" remove_idle_device
check "the client's device goes while the client waits to connect" remove_waiting_device
# Shows S4.5.5-01, N-17.
check "all packets are lost for 8 seconds" loses_packets "${LOSSES:-1}" drop_packets_for_8_seconds
end_events here && end_events there
removed="device $RDMA_DEVICE to be removed, disconnecting"
check "xprtrdma_device_removal" event_came here xprtrdma_device_removal "$removed $SERVER_ADDR:$port"
check "svcrdma_device_removal" event_came there svcrdma_device_removal "$removed $CLIENT_ADDR:[0-9]+"
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "the file system unmounts" umount "$mnt"
no_thread="the server's device goes while no nfsd thread is free"
executed="the server's device goes while it executes a call of a client there"
if on_server "test -e /sys/module/rpcrdma/version"; then
	check "$no_thread" removal_needs_no_thread proto=tcp
	check "$executed" removal_needs_no_thread "proto=rdma,port=$port"
else
	ktap_test_skip "$no_thread: the in-tree module needs one"
	ktap_test_skip "$executed: the in-tree module waits for it"
fi
check "a server that moves to other hardware $moves the connection" server_moves
finish
