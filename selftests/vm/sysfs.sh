#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What sunrpc lets an administrator do with transports in sysfs, and mounts whose server has several addresses: transports are added
# and go offline during I/O, are removed, and connect to another address of the server.
#
# SHORT_FORMS=yes has fewer of them change during I/O.

. ./lib.sh
need_pair

switches=/sys/kernel/sunrpc/xprt-switches
second=10.0.0.11
load=(--size=4M --numjobs=4 --bsrange=4k-128k)
mkdir -p /mnt/second

# Prints the directory of each transport over RDMA, that of the main one, which the others cannot go without, last.
transports() {
	local file
	for file in "$switches"/*/xprt-*-rdma; do
		if grep -q '^main_xprt=0' "$file/xprt_info"; then echo "$file"; fi
	done
	for file in "$switches"/*/xprt-*-rdma; do
		if grep -q '^main_xprt=1' "$file/xprt_info"; then echo "$file"; fi
	done
}
count() { transports | wc -l; }
other() { transports | head -n 1; }

# put FILE TEXT: a writer that waits for a busy transport is not woken when that is idle, so it is killed, and a new one tries again. Each
# has longer than the one before, as a machine may be too slow for the first ones.
put() {
	local left=60 tenths=5
	until timeout --signal=KILL "$((tenths / 10)).$((tenths++ % 10))" sh -c "echo $2 >$1"; do
		[ -e "$1" ] && ((--left)) || return
	done 2>/dev/null
}
# is_gone TRANSPORT: its directory goes when sunrpc has freed it, which is some time after it was removed.
is_gone() {
	local left=60
	while [ -e "$1" ]; do
		((--left)) || { echo "it is still there"; return 1; }
		sleep 0.5
	done
}

# I/O goes on over what is left, or over all of them again.
goes_offline() {
	local file
	file=$(other)/xprt_state
	sleep 1 && put "$file" offline && grep OFFLINE "$file" && sleep 2 && put "$file" online && not grep OFFLINE "$file"
}
# Not during I/O: sunrpc dereferences a null pointer, whichever transport it is, when a call leaves a removed transport that connects
# (call_connect_status() goes on to rpc_check_timeout() without a request).
is_removed() {
	local gone
	gone=$(other)
	put "$gone/xprt_state" offline || return
	# Of a writer that was killed the file may be gone: it waits for the end of the connection.
	put "$gone/xprt_state" remove
	is_gone "$gone"
}
is_deleted() {
	local gone
	gone=$(other)
	put "$gone/del_xprt" 1
	is_gone "$gone"
}
is_added() {
	local before switch
	before=$(transports) switch=$(dirname "$(other)")
	sleep 1 && echo 1 >"$switch/add_xprt" || return
	sleep 2
	printf '%s\n' "before:" "$before" "after:" "$(transports)"
	[ "$(count)" = $(($(wc -l <<<"$before") + 1)) ]
}
main_stays() { not sh -c "echo offline >$(transports | tail -n 1)/xprt_state"; }
# Each has its own connection, and none is left of those that are gone.
queue_pairs() { rdma resource show qp link "$RDMA_DEVICE/1" | grep -c 'type RC'; }
are_freed() {
	local left=40
	until [ "$(queue_pairs)" -le "$(count)" ]; do
		sleep 0.5
		((--left)) || { queue_pairs; count; return 1; }
	done
}

# The transports connect to the other address of the server, and back.
moves() {
	local file address
	for address in $second "$SERVER_ADDR"; do
		for file in "$switches"/*/xprt-*-rdma/dstaddr; do put "$file" "$address" || return; done
		sleep 2
	done
}
is_elsewhere() {
	local file
	for file in "$switches"/*/xprt-*-rdma/dstaddr; do put "$file" $second || return; done
	random_file "$mnt/elsewhere" 300000 && sync "$mnt/elsewhere" && xprts dstaddr && on_server "cat /proc/net/rpc/nfsd >/dev/null" || return
	sees_address $second
}
# The server has connections at that address.
sees_address() { on_server "rdma resource show cm_id" | grep -q "src-addr $1:$port.*dst-addr"; }

mounts_both() {
	mount_nfs 4.2 "$1" || return
	mount -t nfs -o "proto=rdma,port=$port,vers=4.2,retry=0,$1" $second:/ /mnt/second || return
	xprts dstaddr
	[ "$(xprts dstaddr | sort -u | xargs)" = "$SERVER_ADDR $second" ]
}
# Both addresses carry calls: each transport has sent some.
both_are_used() {
	verified_io "${load[@]}" && sees_address "$SERVER_ADDR" && sees_address $second
}
# The server has it no more for a while: I/O goes on over the other one, and what was on its way there when it is back.
address_goes() {
	sleep 1 && on_server ip address del $second/24 dev eth0 && sleep 5 && on_server ip address add $second/24 dev eth0
}
nothing_left() { umount "$mnt" && are_freed; }

modprobe rpcrdma
plan "$(if short_form; then echo 8; else echo 13; fi)"
on_server "ip address add $second/24 dev eth0" || exit
mount_nfs 4.2 nconnect=3 || exit
verified_io "${load[@]}" || exit
check "the main transport cannot go offline" main_stays
short_form || check "a transport goes offline during I/O, and returns" during_io goes_offline
check "a transport is removed" is_removed
check "a transport is deleted" is_deleted
short_form || check "a transport is added during I/O" during_io is_added
# Else it is seen at the end.
short_form || check "those that are gone have no queue pair any more" are_freed
check "transports change to another address during I/O, and back" during_io moves
check "they stay there" is_elsewhere
short_form || check "a file is the same on both machines" same_file elsewhere
umount "$mnt" || exit
check "a mount of either address is one client with both" mounts_both max_connect=4
check "both addresses are used" both_are_used
short_form || check "one of them goes during I/O, and comes back" during_io address_goes
umount /mnt/second
check "the file system unmounts, and nothing is left" nothing_left
on_server "ip address del $second/24 dev eth0"
finish
