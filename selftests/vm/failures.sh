#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory allocations of the module fail, and sunrpc breaks the connection, on either side and in the middle of verified
# I/O, and nothing is lost. For a kernel with fault injection, as `make debug-check` has one.
#
# FAILURES=  how many allocations fail in all (1000), and DISCONNECTS= how often each side breaks the connection (50)

. ./lib.sh
. ./faults.sh
need_pair

# on SIDE COMMAND...: runs one of the functions of faults.sh there.
on() {
	if [ "$1" = client ]; then "${@:2}"; else on_server "cd $PWD; . ./faults.sh; ${*:2}"; fi
}

# survives COMMAND...: verified I/O goes on while the command makes things fail.
survives() {
	local guard
	mountpoint "$mnt" || return
	end_of_silence >/vm/silence.log 2>&1 &
	guard=$!
	during_io "$@"
	set -- $?
	kill $guard 2>/dev/null
	cat /vm/silence.log
	clear_faults
	on server clear_faults
	[ "$1" -eq 0 ] || on server rdma resource show qp
	return "$1"
}

# end_of_silence: when nothing was received for five minutes, says what can be seen of that, and ends what waits for it.
end_of_silence() {
	local last='' now start=$SECONDS
	while [ $((SECONDS - start)) -lt 300 ]; do
		sleep 10
		now=$(counted 9)
		[ "$now" = "$last" ] || last=$now start=$SECONDS
	done
	echo "nothing was received for five minutes"
	ping -c 3 "$SERVER_ADDR"
	# Without its GSI queue pair a device makes no connection.
	rdma resource show qp
	cat /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks
	umount -f -l "$mnt"
	pkill -KILL fio
}

# counted FIELD: the sum of that field over all transports of the mount.
counted() {
	awk -v at="on $mnt " -v field="$1" '/^device / { on = index($0, at) } on && $1 == "xprt:" { sum += $field } END { print sum }' \
		/proc/self/mountstats
}

# How many connections the mount made.
connections() { counted 5; }

# Has all connections made anew.
reconnect() {
	local before start=$SECONDS
	before=$(connections)
	drop_connection
	until [ "$(connections)" -ge $((before + transports)) ]; do
		[ $((SECONDS - start)) -lt 240 ] || { echo "not connected again"; return 1; }
		sleep 0.5
	done
}

# connects SIDE SYMBOL KIND COUNT CHANCE: so many allocations fail that this side makes for connections, CHANCE in 100 of them.
connects() {
	local side=$1 kind=$3 left=$4 some
	on "$side" aim "$2" || return
	while [ "$left" -gt 0 ]; do
		some=$((left < transports ? left : transports))
		on "$side" arm "$kind" times="$some" probability="$5"
		reconnect || return
		left=$((left - some + $(on "$side" setting "$kind" times)))
		echo "$SECONDS s: $left are left to fail"
	done
}

# serves SYMBOL KIND COUNT INTERVAL: one in INTERVAL allocations fails there, until so many did.
serves() {
	local start=$SECONDS
	on server aim "$1" || return
	on server arm "$2" times="$3" interval="$4" probability=100
	until [ "$(on server setting "$2" times)" -eq 0 ]; do
		[ $((SECONDS - start)) -lt 3600 ] || { echo "$(on server setting "$2" times) did not come to pass"; return 1; }
		sleep 1
	done
}

# mounts COUNT: so many allocations fail for the buffers of Calls. The first Calls of a mount need them.
mounts() {
	mkdir -p /mnt/other
	aim ops9buf_alloc || return
	arm failslab times="$1" interval=2 probability=100
	until [ "$(setting failslab times)" -eq 0 ]; do
		mount -t nfs -o "proto=rdma,port=$port,vers=3,nolock,retry=0" "$SERVER_ADDR:/export" /mnt/other || return
		cat /mnt/other/* >/dev/null
		umount /mnt/other || return
	done
}

# disconnects SIDE COUNT: sunrpc breaks the connection so often.
disconnects() {
	local before other=server start=$SECONDS
	[ "$1" = client ] || other=client
	before=$(connections)
	on "$1" arm fail_sunrpc "ignore-$1-disconnect=N" "ignore-$other-disconnect=Y" ignore-cache-wait=Y verbose=0 interval=50 \
		times="$2" probability=100
	until [ "$(on "$1" setting fail_sunrpc times)" -eq 0 ]; do
		[ $((SECONDS - start)) -lt 3600 ] || { echo "$(on "$1" setting fail_sunrpc times) did not come to pass"; return 1; }
		sleep 1
	done
	echo "connections: $before before, $(connections) after"
	[ "$(connections)" -gt $((before + $2 / 2)) ]
}

# Hundredths of all failures.
part() { echo $((FAILURES * $1 / 100)); }

# Few slots and credits, so that a connection is made of few allocations and soon.
slots() {
	echo "$1" >/proc/sys/sunrpc/rdma_slot_table_entries && on_server "echo $1 >/proc/sys/sunrpc/svc_rdma/max_requests"
}

plan 12
modprobe rpcrdma
slots 16
# A connection that failed waits before it is tried again. Many of them wait together.
transports=16
mount_nfs 4.2 nconnect=$transports || exit
: "${FAILURES:=1000}" "${DISCONNECTS:=50}"
# First, as the listener keeps the pages that it once pulled Calls to. It allocates more when more and larger Calls come than ever
# before, and after a failure, since the pages that it had for that Call are freed.
load=(--size=16M --numjobs=8 --bsrange=256k-1M)
check "$(part 10) allocations of pages fail while the server receives" survives serves svc9transport8recvfrom fail_page_alloc "$(part 10)" 1
# What takes its time is to connect. I/O that left no moment to itself would only make that slower. Of the allocations one in
# each connection shall fail, or a few. The client has kept its buffers and regions, and makes fewer.
load=(--bsrange=4k-256k --size=8M --thinktime=20000 --numjobs=2)
check "$(part 15) allocations fail while the client connects" survives connects client 14connect_worker failslab "$(part 15)" 5
check "$(part 5) allocations of pages fail there" survives connects client 14connect_worker fail_page_alloc "$(part 5)" 20
check "$(part 5) allocations fail while the server accepts" survives connects server svc9transport6accept failslab "$(part 5)" 1
check "$(part 5) allocations of pages fail there" survives connects server svc9transport6accept fail_page_alloc "$(part 5)" 5
load=(--bsrange=4k-256k --size=4M --numjobs=8)
check "$(part 25) allocations fail while the server receives" survives serves svc9transport8recvfrom failslab "$(part 25)" 20
# Shows S4.5.4-03.
check "$(part 30) allocations fail while the server replies" survives serves svc9transport6sendto failslab "$(part 30)" 20
check "$(part 5) allocations fail for the buffers of Calls" survives mounts "$(part 5)"
check "the client breaks the connection $DISCONNECTS times" survives disconnects client "$DISCONNECTS"
check "the server breaks the connection $DISCONNECTS times" survives disconnects server "$DISCONNECTS"
random_file "$mnt/after" 1000000
check "a file written after all that is the same on both machines" same_file after
check "unmounts" umount "$mnt"
slots 128
finish
