#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Clients that attack the server, for some seconds each, beside an ordinary mount: no nfsd thread is asleep in the module, the mount
# goes on, the server ends connections that stand still, and it gives back what the attackers had. `make hostile` does the same for longer, and with more connections.
# The attackers have an address of their own, so that what the server limits for each address is not the mount's.
#
# ATTACKS='overrun:8 no-receives:8:9' runs only these: name, number of connections, and seconds. ATTACK_SECONDS= says how long those take
# that do not say it themselves.

. ./lib.sh
need_pair
need_peer

seconds=${ATTACK_SECONDS:-4}
# Within so many seconds the server ends a connection whose client takes nothing. A machine that checks each access to memory, and
# waits for a processor, may be slow to take what is its own.
export PROGRESS_TIMEOUT=3
[[ $KERNEL != *debug ]] || PROGRESS_TIMEOUT=8
stalled=$((3 * PROGRESS_TIMEOUT / 2 + 5))
read -r -a attacks <<<"${ATTACKS:-unanswered-reads:2 no-receives:6:$stalled slow-receives:6:$stalled overrun:6 abandoned-grant:6 storm:2 raw-requests:50 mixed:20}"
watch=$(cd ../hostile && pwd)/watch.py

# Calls of the mount until a file is there.
calls() {
	until [ -e /tmp/over ]; do
		stat "$mnt/beside" && dd if="$mnt/beside" of=/dev/null bs=4096 count=1 iflag=direct status=none || return
	done >/dev/null
}

# Attackers that wait for the server longer than it waits for them: it has to end connections of theirs.
is_to_be_ended() { [[ $1 = *-receives ]]; }

# Gives the attackers an address, which the device takes a moment to have.
own_address() {
	export PEER_ADDR=${CLIENT_ADDR%.*}.77
	local gid left=40
	# shellcheck disable=SC2046,SC2183 # one word for each octet
	gid=$(printf 'ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$PEER_ADDR"))
	ip address add "$PEER_ADDR/24" dev eth0
	until grep -qs "$gid" /sys/class/infiniband/*/ports/1/gids/*; do
		[ $((left--)) -gt 0 ] || return
		sleep 0.25
	done
}

# beside NAME CONNECTIONS [SECONDS]: no sample of watch.py finds a thread asleep in the module.
beside() {
	local calls status=0 found said
	on_server "rm -f /tmp/stop /tmp/stop.ready; setsid $watch threads /tmp/stop >/tmp/threads 2>&1 &
		for _ in {1..600}; do [ -e /tmp/stop.ready ] && break; sleep 0.1; done
		[ -e /tmp/stop.ready ] || { touch /tmp/stop; cat /tmp/threads; false; }" || return
	rm -f /tmp/over
	calls &
	calls=$!
	said=$("$peer" attack "$1" "$2" "${3:-$seconds}") || status=1
	echo "$said"
	! is_to_be_ended "$1" || [[ $said =~ lost\ [1-9] ]] || { echo "no connection was ended"; status=1; }
	touch /tmp/over
	wait $calls || status=1
	found=$(on_server 'touch /tmp/stop; until [ -s /tmp/threads ]; do sleep 0.1; done; cat /tmp/threads')
	echo "$found"
	python3 -c 'import json, sys; found = json.loads(sys.argv[1]); sys.exit(found["most"] > 0 or not found["samples"])' "$found" || status=1
	return $status
}

# watch.py would find threads: while they have nothing to do they are asleep in svc_recv. sunrpc may be no module.
sees_sleepers() {
	local found
	found=$(on_server "rm -f /tmp/stop /tmp/stop.ready
		(for _ in {1..600}; do [ -e /tmp/stop.ready ] && break; sleep 0.1; done; sleep 5; touch /tmp/stop) &
		$watch threads /tmp/stop svc_recv")
	echo "$found"
	python3 -c 'import json, sys; found = json.loads(sys.argv[1]); sys.exit(not (found["most"] > 0 and found["longest"] > 0))' "$found"
}

kept_its_connection() {
	echo "connections: $connects before, $(counter connect_count) after"
	[ "$(counter connect_count)" = "$connects" ] && return
	dmesg | grep 'lost: '
	on_server "dmesg | grep 'lost: .*\|connection of $CLIENT_ADDR'" | tail -n 20
	return 1
}

# Clients that all connect at the same time, as after an outage, wait. So many did not.
storm_waits() {
	local before after made
	before=$(on_server "cat /proc/sys/sunrpc/svc_rdma/rdma_stat_rejected")
	made=$("$peer" attack storm 200 1) || return
	after=$(on_server "cat /proc/sys/sunrpc/svc_rdma/rdma_stat_rejected")
	echo "$made; rejected $((after - before))"
	[ "$after" = "$before" ]
}

objects() { on_server 'rdma -j resource'; }

# The server has as many queue pairs and what belongs to them as before.
given_back() {
	local left=60
	until [ "$(objects)" = "$objects" ]; do
		[ $((left--)) -gt 0 ] || { echo "before $objects, after $(objects)"; return 1; }
		sleep 0.5
	done
}

server_unloads() { on_server "$scripts/vm/nfs-server stop; rmmod rpcrdma; $scripts/vm/nfs-server start"; }

own_address || cannot_run "the device has the attackers' address"
# On a machine with little memory nfsd takes no WRITEs of 1 MiB, unless it is told to.
on_server "$scripts/vm/nfs-server stop; echo 1048576 >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start"
mount_nfs 4.2 noac || exit
on_server "head -c 65536 /dev/urandom >/export/peer.dat; cp /export/peer.dat /export/beside; chmod 666 /export/peer.dat
	echo $PROGRESS_TIMEOUT >/proc/sys/sunrpc/svc_rdma/progress_timeout"
stat "$mnt/beside" >/dev/null
follow_connection
objects=$(objects)
plan $((${#attacks[@]} + 5))
check "threads that sleep are found" sees_sleepers
for attack in "${attacks[@]}"; do
	IFS=: read -r name connections long <<<"$attack"
	check "no thread of the server sleeps for $name, and the mount goes on" beside "$name" "$connections" "$long"
	excuse_rxe
done
check "200 clients that connect at the same time wait, and none is rejected" storm_waits
excuse_rxe
check "the mount kept its connection" kept_its_connection
check "the server gives back all that the attackers had" given_back
on_server 'echo 30 >/proc/sys/sunrpc/svc_rdma/progress_timeout'
umount "$mnt"
ip address del "$PEER_ADDR/24" dev eth0
check "the server unloads" server_unloads
finish
