#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A second server, in a network namespace of the server's machine with a device of its own.

. ./lib.sh
need_pair
need_peer

address=10.0.3.2

on_station() { on_server "nsenter -t \$(cat /run/three) -m -n sh -ec '$*'"; }

add() {
	on_server "cd $PWD; . ./stations.sh; add_station three 3" && ip route replace 10.0.3.0/24 via "$SERVER_ADDR" &&
		on_server "ip netns exec three sleep infinity & echo \$! >/run/three"
}

# What nfs-server does, for NFSv4. The files of nfsd and its daemons are those of the namespace that mounts them; in the /run of
# the machine is the socket of its rpcbind, which this server has nothing to tell.
start() {
	on_station "umount /proc/fs/nfsd; mount -t nfsd nfsd /proc/fs/nfsd; mount -t tmpfs tmpfs /run
		mkdir -p /run/rpc_pipefs /tmp/three; mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs; nfsdcld -s /tmp/three
		echo 10 >/proc/fs/nfsd/nfsv4gracetime; echo 10 >/proc/fs/nfsd/nfsv4leasetime
		rpc.mountd --no-nfs-version 3; rpc.nfsd --no-nfs-version 3 --rdma=20049 2"
}

# Only here: a namespace that once asked gssproxy asks nobody else, and krb5.sh does without. svcauth_gss copies what of a token
# is in the head of a call to one page.
token_arrives() {
	on_server modprobe auth_rpcgss && on_station "$PWD/gssproxy.py /tmp/tokens" &&
		SERVER_ADDR=$address "$peer" run gss_token_longer_than_a_page &&
		on_server "cat /tmp/tokens; grep -q whole /tmp/tokens && ! grep -q altered /tmp/tokens"
}

stop() { on_station "rpc.nfsd 0; umount /proc/fs/nfsd"; }

remove() {
	on_server "ip netns pids three | xargs kill; until [ -z \"\$(ip netns pids three)\" ]; do sleep 0.1; done
		cd $PWD; . ./stations.sh; remove_station three || exit
		# What asks gssproxy keeps the namespace, and that the link.
		ip link del to-three 2>/dev/null || true"
}

works() { serves "$2" mounted "$1"; }
mounted() { mount_nfs 4.2 "" "$1" && verified_io --size=4M; }

plan 8
check "a station on the server's machine" add
check "serves" start
check "a client of the station" works "$address" station
check "a client of the machine" works "$SERVER_ADDR" machine
check "a GSS token longer than a page arrives whole" token_arrives
check "ends" stop
check "is gone, with its device" remove
check "a client of the machine is served as before" works "$SERVER_ADDR" machine
finish
