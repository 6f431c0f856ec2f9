#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Races of connections that are made and dropped with devices that come and go, with addresses that move, and with readers of what the
# kernel says about them. Each mount works or fails; nothing waits for ever, and at the end a mount works.
#
# LONG_FORMS=yes has each race last for a minute, instead of some seconds.

. ./lib.sh
need_pair

lasts=5
! long_form || lasts=60
soft=soft,timeo=30,retrans=1
# The NFS client does not repeat RECLAIM_COMPLETE if that fails (nfs4_state_end_reclaim_reboot in fs/nfs/nfs4state.c), and then nfsd answers
# each OPEN of the mount with NFS4ERR_GRACE for ever. So a call of NFSv4 has a minute and a half, for which no race stops a connection.
soft4=soft,timeo=300,retrans=1
# What one step may take. That of a soft mount which meets no answer takes half a minute; rdma_cm gives up a connection after longer.
LIMIT=150

# Where the tasks of this machine are that wait for NFS, and what its transports and its device have.
waits() {
	local stack
	for stack in /proc/[0-9]*/stack; do
		! grep -qE 'rpc|nfs|xprt|rdma' "$stack" || head -v -n 12 "${stack%stack}comm" "$stack"
	done
	head -v -n 40 /sys/kernel/debug/sunrpc/rpc_{clnt/*/tasks,xprt/*/info} /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/xprt_{info,state}
	rdma resource show
	rdma resource show qp
	rdma resource show cm_id
	ss -nta
} 2>/dev/null

# bounded COMMAND...: whatever it says, it ends.
bounded() {
	local status=0 watch waits=/run/waits.$BASHPID
	{ sleep $((LIMIT - 10)) && waits; } >"$waits" 2>&1 &
	watch=$!
	timeout -s KILL $LIMIT "$@" || status=$?
	pkill -P $watch
	wait $watch
	[ $status -ne 137 ] || { echo "$*: killed after $LIMIT s; before that:"; cat "$waits"; return 1; }
}

# beside FUNCTION...: each runs again and again, beside the others, until the time is over. Only one that hangs, or could not do what
# nothing prevents, fails. Each function is a word or several.
beside() {
	local end=$((SECONDS + lasts)) job jobs=() each status=0
	for each; do
		(
			rounds=0
			while [ $SECONDS -lt $end ] && [ ! -e /run/failed ]; do
				$each || { echo "$each failed"; touch /run/failed; exit 1; }
				rounds=$((rounds + 1))
			done
			echo "${0##*/} $each: $rounds rounds" | tee -a /vm/times
		) &
		jobs+=($!)
	done
	for job in "${jobs[@]}"; do wait "$job" || status=1; done
	rm -f /run/failed
	return $status
}

# mounts VERSION [OPTIONS]: each version has a connection of its own.
mounts() {
	local at=/mnt/race-$1 how=proto=rdma,port=$port,vers=$1,retry=0${2:+,$2} path=/
	mkdir -p "$at"
	if [ "$1" = 3 ]; then path=/export how+=,nolock,$soft; else how+=,$soft4; fi
	bounded mount -t nfs -o "$how" "$SERVER_ADDR:$path" "$at" || return
	mountpoint -q "$at" || return 0
	bounded dd if=/dev/zero of="$at/race-$1" bs=64k count=2 conv=fsync status=none || return
	bounded umount "$at" || return
	# A call that has just failed may keep it busy.
	! mountpoint -q "$at" || bounded umount -f -l "$at"
}

# Those of sunrpc's connections that there are at the moment.
drops() {
	local file
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		timeout -s KILL 0.3 sh -c "echo '$SERVER_ADDR' >'$file'"
	done 2>/dev/null
	sleep 0.2
}

# What is added can be deleted, and the other way round.
readds() { timeout -s KILL 60 rdma link del "$RDMA_DEVICE" && sleep "0.$((RANDOM % 8))" && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && sleep "0.$((RANDOM % 8))"; }
readds_there() { on_server "timeout -s KILL 60 rdma link del $RDMA_DEVICE; sleep 0.$((RANDOM % 8)); rdma link add $RDMA_DEVICE type $RDMA netdev eth0" && sleep "1.$((RANDOM % 8))"; }

# Five changes within 0.3 s, then the truth for a while.
moves() {
	local number
	for number in 1 2 3 4 5; do
		echo "neighbour replace $SERVER_ADDR lladdr 02:00:00:00:00:0$number dev eth0"
		sleep 0.04
	done | ip -batch - || return
	ip neighbour del "$SERVER_ADDR" dev eth0
	sleep "0.$((RANDOM % 8))"
}

# Another device, whose network device goes under it.
netdev_goes() {
	ip link add race type dummy && ip address add 10.7.0.1/24 dev race && ip link set race up && rdma link add race0 type "$RDMA" netdev race &&
		sleep "0.$((RANDOM % 4))" && timeout -s KILL 60 ip link del race || return
	until [ ! -e /sys/class/infiniband/race0 ]; do sleep 0.05; done
}

reads_netlink() {
	rdma link show
	rdma dev show
	rdma resource show
	for what in qp cm_id cq pd mr; do rdma resource show $what; done
	rdma statistic show
	return 0
} >/dev/null 2>&1
reads_files() {
	cat /sys/class/infiniband/*/ports/1/{state,phys_state,rate,lid,link_layer,gids/*,gid_attrs/*/*,hw_counters/*} /sys/class/infiniband/*/{node_guid,fw_ver}
	cat /sys/kernel/debug/sunrpc/rpc_xprt/*/info /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks
	cat /sys/kernel/sunrpc/xprt-switches/*/xprt-*/{xprt_info,xprt_state,srcaddr,dstaddr} /proc/self/mountstats
	return 0
} >/dev/null 2>&1

tracing=/sys/kernel/tracing
events="cd $tracing && echo 0 >tracing_on && echo >trace && echo 1024 >buffer_size_kb && for name in rpcrdma rdma_cma; do
	[ ! -e events/\$name ] || echo 1 >events/\$name/enable; done && echo 1 >tracing_on && [ -e events/rpcrdma ]"
# traced FUNCTION...: with all events of the transport and of rdma_cm on, on both machines, until `recorded`.
traced() { bash -c "$events" && on_server "$events" && beside "$@"; }
# The races may have made no connection at all, or overwritten what was recorded of one; this mount makes one.
recorded() {
	serves traced mount_nfs 4.2 && grep -c "$1" $tracing/trace && echo 0 >$tracing/events/enable && on_server "echo 0 >$tracing/events/enable"
}

# Of each RDMA device how many objects it has.
objects() { rdma resource show | cut -d' ' -f2-; }
nothing_left() {
	local left=600
	until [ "$(objects)" = "$usual" ]; do
		sleep 0.1
		((--left)) || { echo "usual: $usual"; rdma resource show; rdma resource show qp; return 1; }
	done
}

# Transports of tests before this one may be there for a moment; without the module none is.
unload && modprobe rpcrdma || exit
usual=$(objects)
plan 9
check "mounts, beside the client's device that goes and comes back, traced" traced readds "mounts 3" "mounts 4.2"
check "mounts, beside the server's device that goes and comes back, traced" traced readds_there "mounts 3" "mounts 4.2"
check "a mount works after that, and its connection is in the trace" recorded xprtrdma_connect
check "connections are made and dropped while the server's hardware address changes" beside moves drops "mounts 3 nconnect=4" "mounts 4.2"
check "readers, beside a device that goes and comes back" beside readds "mounts 4.1" reads_netlink reads_files
check "readers, beside a network device that goes under its RDMA device" beside netdev_goes reads_netlink reads_files
check "many connections are made and dropped at the same time" beside drops drops "mounts 3 nconnect=8" "mounts 4.0 nconnect=8" "mounts 4.1 nconnect=8" "mounts 4.2 nconnect=8"
check "a mount works after that" serves after mount_nfs 4.2
check "no queue pair is left" nothing_left
finish
