#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A second NFS server, in a network namespace of the server's machine that has an RDMA device of its own. It stops, and its namespace
# ends, while a client is busy with it and sunrpc's trace events are on: these look at a transport, and at its server, to the last.
#
# LONG_FORMS=yes has three namespaces end so.

. ./lib.sh
need_pair
need_peer

address=10.0.3.2

in_namespace() { on_server "nsenter -t \$(cat /run/three) -m -n sh -ec '$*'"; }

# The process has entered the namespace when it is `sleep`; the next commands enter those that it is in.
add() {
	on_server "cd $PWD; . ./namespaces.sh; add_namespace three 3" && ip route replace 10.0.3.0/24 via "$SERVER_ADDR" &&
		on_server "ip netns exec three sleep infinity & echo \$! >/run/three
			is_inside() { [ \"\$(cat /proc/\$(cat /run/three)/comm)\" = sleep ]; }
			for _ in {1..600}; do is_inside && break; sleep 0.1; done
			is_inside"
}

# Does what scripts/vm/nfs-server does, for NFSv4 only. The file systems nfsd and rpc_pipefs belong to the namespace that mounts
# them. A new /run hides the socket of the machine's rpcbind, with which this server must not register.
start() {
	in_namespace "umount /proc/fs/nfsd; mount -t nfsd nfsd /proc/fs/nfsd; mount -t tmpfs tmpfs /run
		mkdir -p /run/rpc_pipefs /tmp/three; mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs; nfsdcld -p /run/rpc_pipefs -s /tmp/three
		echo 10 >/proc/fs/nfsd/nfsv4gracetime; echo 10 >/proc/fs/nfsd/nfsv4leasetime
		rpc.mountd --no-nfs-version 3; rpc.nfsd --no-nfs-version 3 --rdma=20049 2"
}

# This test is here because a network namespace that has once used gssproxy never goes back to rpc.svcgssd, which krb5.sh needs.
# svcauth_gss copies the part of a token that is in the head of a Call to one page.
token_arrives() {
	on_server modprobe auth_rpcgss && in_namespace "$PWD/gssproxy.py /tmp/tokens" &&
		SERVER_ADDR=$address "$peer" run gss_token_longer_than_a_page &&
		on_server "cat /tmp/tokens; grep -q whole /tmp/tokens && ! grep -q altered /tmp/tokens"
}

stop() { in_namespace "rpc.nfsd 0; umount /proc/fs/nfsd"; }

remove() {
	on_server "ip netns pids three | xargs kill; until [ -z \"\$(ip netns pids three)\" ]; do sleep 0.1; done
		cd $PWD; . ./namespaces.sh; remove_namespace three || exit
		# The client of gssproxy holds a reference to the namespace, which keeps the link.
		ip link del to-three 2>/dev/null || true"
}

tracing=/sys/kernel/tracing
# The server stops and starts so often, and the client goes on with what it has begun.
restarts() {
	for _ in 1 2 3; do
		sleep 1
		in_namespace "rpc.nfsd 0; sleep 0.$((RANDOM % 5)); rpc.nfsd --no-nfs-version 3 --rdma=20049 2" || return
	done
}
restarts_in_use() {
	local status
	on_server "echo 2048 >$tracing/buffer_size_kb && echo >$tracing/trace && echo 1 >$tracing/events/sunrpc/enable" || return
	mount_nfs 4.2 "" "$address" && during_io restarts
	status=$?
	umount "$mnt" && on_server "grep -c svc_xprt_free: $tracing/trace" && return $status
}

# With its last process a namespace loses its mount of nfsd, which ends the server.
ends_in_use() {
	local busy status
	mount_nfs 4.2 soft,timeo=20,retrans=1 "$address" || return
	while verified_io --size=1M --numjobs=2; do :; done >/vm/ends.log 2>&1 &
	busy=$!
	sleep 1.5
	kill -0 $busy && remove
	status=$?
	# The client would look for the server for longer.
	kill $busy
	pkill -KILL -x fio
	on_server "rm -f /export/verify-*"
	timeout 60 umount -f -l "$mnt" && timeout 60 tail --pid=$busy -f /dev/null && return $status
}
ends() {
	local status=0
	for _ in $rounds; do
		if ! add || ! start || ! ends_in_use; then status=1; break; fi
	done
	on_server "echo 0 >$tracing/events/sunrpc/enable; echo >$tracing/trace" && return $status
}

rounds=1
! long_form || rounds="1 2 3"
load=(--size=1M --numjobs=2)
works() { serves "$2" mounted "$1"; }
mounted() { mount_nfs 4.2 "" "$1" && verified_io --size=4M; }

plan 10
check "a network namespace of the server's machine gets an RDMA device" add
check "an NFS server starts in it" start
check "the server of the namespace serves" works "$address" namespace
check "the server of the machine serves beside it" works "$SERVER_ADDR" machine
check "it stops and starts three times during I/O, with sunrpc's trace events on" restarts_in_use
check "a GSS token longer than a page arrives whole" token_arrives
check "the server of the namespace stops" stop
check "the namespace and its device are removed" remove
check "another one, and its namespace, end during I/O, with these events on" ends
check "the server of the machine serves as before" works "$SERVER_ADDR" machine
finish
