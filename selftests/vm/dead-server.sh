#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A server that is gone for a while. As long as it is, calls of a soft mount fail when their time is over. When it is back, calls are
# answered within seconds, those that waited and new ones: a client that waits longer after each attempt to connect would find the
# server late, or not before the time of its call is over.
#
# LONG_FORMS=yes makes the server go for longer, and also kills processes, unmounts by force, breaks off mounts, and unloads the module
# while it is away.

. ./lib.sh
need_pair

# What a soft mount takes to give up a call is nine seconds: 3, and 3 more after each of two retransmissions.
soft=soft,timeo=30,retrans=2

# How long a call may wait for after the first packet that passes.
BACK=15

# In both directions. Each machine drops what arrives: rxe does not survive a drop of what it sends itself.
mute() { drop_packets && mute_server; }
mute_server() {
	case $RDMA in rxe) packets="udp dport 4791" ;; iwarp-sctp) packets="sctp dport $port" ;; *) packets="tcp dport $port" ;; esac
	on_server "nft 'add table inet mute; add chain inet mute in { type filter hook input priority 0; }
		add rule inet mute in $packets drop'"
}

# first_packet: lets packets pass again, and returns when one of the client has arrived at the server.
first_packet() {
	on_server "nft 'flush chain inet mute in; add rule inet mute in $packets counter'" && pass_packets || return
	on_server "for _ in {1..300}; do nft list chain inet mute in | grep -q 'packets [1-9]' && exit; sleep 0.2; done; exit 1"
}
unmute() { pass_packets; on_server nft delete table inet mute; }

# fails_within FROM TO COMMAND...: the command fails, after so many seconds.
fails_within() {
	local start=$SECONDS status
	timeout -s KILL 120 "${@:3}"
	status=$?
	echo "${*:3}: status $status after $((SECONDS - start)) s"
	[ $status -ne 0 ] && [ $status -ne 137 ] && [ $((SECONDS - start)) -ge "$1" ] && [ $((SECONDS - start)) -le "$2" ]
}

# works_within SECONDS COMMAND...
works_within() {
	local start=$SECONDS status
	timeout -s KILL 120 "${@:2}"
	status=$?
	echo "${*:2}: status $status after $((SECONDS - start)) s"
	[ $status -eq 0 ] && [ $((SECONDS - start)) -le "$1" ]
}

# A server without nfsd refuses connections at once, so attempts to connect could follow each other quickly.
stopped() {
	local reader status=0
	mount_nfs 3 "$soft" && random_file "$mnt/known" 200000 && drop_file "$mnt/known" || return
	on_server "$scripts/vm/nfs-server stop"
	fails_within 5 60 dd if="$mnt/known" of=/dev/null bs=64k status=none &
	reader=$!
	fails_within 5 60 df "$mnt" || status=1
	wait $reader || status=1
	! long_form || fails_within 5 60 df "$mnt" || status=1
	on_server "$scripts/vm/nfs-server start"
	works_within $BACK df "$mnt" && same_file known || status=1
	umount "$mnt" || status=1
	return $status
}

# is_locked FILE: a process of the server cannot have a lock of that file.
is_locked() {
	on_server "python3 -c 'import fcntl
try:
    fcntl.lockf(open(\"/export/$1\", \"r+\"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    exit()
exit(\"nobody has the lock of $1\")'"
}

# The connections that the server has.
queue_pairs() { on_server "rdma resource show qp" | grep -c 'type RC'; }
queue_pairs_are() {
	local left=60
	until [ "$(queue_pairs)" -eq "$1" ]; do
		sleep 1
		((--left)) || { echo "the server has $(queue_pairs) queue pairs, not $1"; return 1; }
	done
	echo "the server has $1 queue pairs after $((60 - left)) s"
}

# With the default of timeo, a minute, a call that was sent before the outage waits until that is over, if the server's device gave up the
# connection meanwhile (docs/tuning.md): no bound of seconds is right then, so mounts here have a shorter one.
#
# waits VERSION: the call of a hard mount waits as long as it takes, and the server then has no connection more than before. With NFSv4
# that is longer than the lease, which is 10 seconds, and a lock that the client has is still its own after that.
waits() {
	local call start took before lock status=0 away=12
	! long_form || away=100
	mount_nfs "$1" timeo=30 && random_file "$mnt/waited" 200000 && drop_file "$mnt/waited" || return
	if [ "$1" != 3 ]; then exec {lock}>"$mnt/locked" && flock -n "$lock" && is_locked locked || return; fi
	before=$(queue_pairs) && drop_packets || return
	cat "$mnt/waited" >/dev/null &
	call=$!
	# The call arrives, and nothing after it. A server that waits for no acknowledgement does not find that its client is gone.
	sleep 1
	mute_server || status=1
	sleep $away
	[ -n "$(jobs -r)" ] || { echo "the call did not wait"; status=1; }
	first_packet || status=1
	start=$EPOCHREALTIME
	timeout 120 tail --pid=$call -f /dev/null
	wait $call || status=1
	took=$(((${EPOCHREALTIME/./} - ${start/./}) / 100000))
	echo "answered $((took / 10)).$((took % 10)) s after the first packet" | tee -a /vm/times
	[ $took -le $((10 * BACK)) ] || status=1
	on_server nft delete table inet mute
	if [ "$1" != 3 ]; then
		is_locked locked && echo still >&"$lock" && sync "$mnt/locked" || status=1
		exec {lock}>&-
		not is_locked locked || status=1
	fi
	same_file waited && queue_pairs_are "$before" && umount "$mnt" || status=1
	return $status
}

unloads_within() {
	local left=$1
	until rmmod rpcrdma 2>/dev/null; do
		sleep 1
		((--left)) || { rmmod rpcrdma; rdma resource; cat /sys/kernel/debug/sunrpc/rpc_xprt/*/info; return 1; }
	done
	echo "unloaded after $(($1 - left)) s"
	modprobe rpcrdma
}

# gives_up VERSION
gives_up() {
	local status=0
	mount_nfs "$1" "$soft" && random_file "$mnt/known" 200000 && sync || return
	mute && sleep 1
	fails_within 5 60 df "$mnt" || status=1
	fails_within 5 90 dd if=/dev/zero of="$mnt/known" bs=64k count=1 oflag=direct conv=notrunc status=none || status=1
	fails_within 5 90 dd if="$mnt/known" of=/dev/null bs=64k count=1 iflag=direct status=none || status=1
	works_within 90 umount -f "$mnt" || status=1
	! mountpoint -q "$mnt" || umount -l "$mnt"
	unloads_within 180 || status=1
	unmute
	return $status
}

# killed VERSION: processes of a hard mount. The unmount of NFSv4 sends DESTROY_SESSION and waits for its reply until one major time-out is
# over: three times ten seconds here, three minutes by default, with the in-tree module as well.
killed() {
	local victim start status=0
	mount_nfs "$1" timeo=100,retrans=2 && random_file "$mnt/known" 200000 && sync || return
	mute && sleep 1
	dd if="$mnt/known" of=/dev/null bs=64k count=1 iflag=direct status=none &
	victim=$!
	dd if=/dev/zero of="$mnt/dirty" bs=64k count=32 conv=fsync status=none &
	sleep 15
	start=$SECONDS
	kill -KILL $victim $!
	wait $victim $!
	echo "killed after $((SECONDS - start)) s"
	[ $((SECONDS - start)) -le 30 ] || status=1
	works_within 120 umount -f -l "$mnt" || status=1
	sleep 5
	unmute
	# Dirty data of a hard mount is written back when the server answers, unless that was given up by force.
	unloads_within 240 || status=1
	return $status
}

# broken_off VERSION: a mount that waits for a server which does not answer is interrupted.
broken_off() {
	local start waiting status=0
	mute
	mount_nfs "$1" &
	waiting=$!
	sleep 8
	pkill -KILL -x mount.nfs
	start=$SECONDS
	while pgrep -x mount.nfs >/dev/null; do
		[ $((SECONDS - start)) -lt 90 ] || { cat "/proc/$(pgrep -xo mount.nfs)/stack"; status=1; break; }
		sleep 1
	done
	echo "broken off after $((SECONDS - start)) s"
	kill $waiting 2>/dev/null
	! mountpoint -q "$mnt" || status=1
	unloads_within 180 || status=1
	unmute
	return $status
}

tests=3
! long_form || tests=10
plan $tests
check "soft: calls fail in time while nfsd is stopped, and work when it is back" stopped
check "hard: a call is answered within $BACK s after the first packet that passes" waits 3
if long_form; then
	check "NFSv4.2, hard: the same for longer than the lease, and a lock stays" waits 4.2
	for version in 3 4.2; do
		check "NFSv$version, soft: calls fail in time, and it unmounts" gives_up $version
		check "NFSv$version, hard: processes are killed, and it unmounts by force" killed $version
		check "NFSv$version: a mount that waits is broken off" broken_off $version
	done
fi
check "the server mounts after that" serves one mount_nfs 4.2
finish
