#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server calls back over the connection that the client made: it recalls delegations, and gets them.

. ./lib.sh
. ./wire.sh
need_pair

event=/sys/kernel/tracing/events/nfs4/nfs4_cb_recall
recalls() { grep -c nfs4_cb_recall: /sys/kernel/tracing/trace; }

# Opens the file $1 for reading, which gets a delegation; then the server opens it for writing itself. That waits until
# the delegation is back, or its lease has run out. The status is 2 if there was none, or if soft RoCE gave up the
# connection meanwhile: nfsd forgets a recall that it cannot send.
recalled() {
	local before lost held waited
	random_file "$mnt/$1" 5000 && drop_caches || return
	exec {held}<"$mnt/$1"
	cat <&"$held" >/dev/null
	on_server "grep -q 'type: deleg.*$1\"' /proc/fs/nfsd/clients/*/states" || {
		echo "no delegation was given"
		exec {held}<&-
		return 2
	}
	before=$(recalls) lost=$(given_up)
	waited=$(on_server "printf '\\nmore\\n' >>/export/$1 && echo \$SECONDS") || return
	exec {held}<&-
	[ "$(given_up)" = "$lost" ] || { echo "the connection was given up"; return 2; }
	[ "$waited" -lt 10 ] || { echo "the server waited $waited s"; return 1; }
	# The delegation may be back before the client says that it was recalled.
	for _ in {1..10}; do
		[ "$(recalls)" -le "$before" ] || return 0
		sleep 0.5
	done
	echo "nothing was recalled"
	return 1
}

sees_the_write() { [ "$(tail -n 1 "$mnt/$(</tmp/recalled)")" = more ]; }

# The same with a file of any name. One that was recalled gets no delegation for a while, nor does now and then another one: the
# server remembers them by a few bits of a hash.
any_recalled() {
	local file
	for file in "$1".{1..4}; do
		recalled "$file"
		case $? in
		0) echo "$file" >/tmp/recalled && return ;;
		2) ;;
		*) return 1 ;;
		esac
	done
	return 1
}

five_more() {
	local left=5
	while [ $((left--)) -gt 0 ]; do
		any_recalled "$1.$left" || return
	done
}

# The server cannot connect; it waits for the client, whose next RPC makes the connection.
recalled_later() { kick && sleep 1 && random_file "$mnt/first-$1" 1 && sleep 1 && any_recalled "$1"; }

# Several files over a new connection: with each call that is answered the client grants room for more.
recalled_at_once() {
	local file held delegated waited
	umount "$mnt" && mount_nfs 4.2 || return
	for file in "$mnt"/at-once.{1..8}; do
		random_file "$file" 100 && exec {held}<"$file" && cat <&"$held" >/dev/null || return
	done
	delegated=$(on_server "cat /proc/fs/nfsd/clients/*/states" | grep -c 'type: deleg.*at-once')
	[ "$delegated" -ge 2 ] || { echo "$delegated delegations were given"; return 1; }
	# shellcheck disable=SC2016 # the server expands it
	waited=$(on_server 'for file in /export/at-once.*; do printf more >>"$file" & done; wait; echo $SECONDS') || return
	[ "$waited" -lt 10 ] || { echo "the server waited $waited s"; return 1; }
}

# No connection has a second Call from the server before the reply to the first one.
one_at_first() {
	decode -Y "($call) || ($reply)" -T fields -e rpc.msgtyp -e rpcordma.xid -e infiniband.bth.destqp | awk '
		$1 == 1 { answered[$2]; next }
		!($3 in first) { first[$3] = $2; next }
		$2 != first[$3] && !seconds[$3]++ { some++; early += !(first[$3] in answered) }
		END { print some + 0 " second calls, " early + 0 " of them early"; exit !some || early }'
}

# comes_after PACKETS OTHERS: the first of these comes after the first of those.
first() { decode -Y "$1" -T fields -e frame.number | head -n 1; }
comes_after() { [ "$(first "$1")" -gt "$(first "$2")" ]; }

versions=(4.1 4.2)
plan $((4 * ${#versions[@]} + 6))
listen_in
for version in "${versions[@]}"; do
	mount_nfs "$version" || exit
	echo 1 >"$event/enable"
	# The first mount may be there before lockd's grace period is over.
	[ "$version" != 4.1 ] || sleep 5
	check "NFSv$version: a delegation is recalled" any_recalled "delegated-$version"
	check "NFSv$version: what the server wrote is seen" sees_the_write
	check "NFSv$version: five more are recalled" five_more "delegated-$version"
	check "NFSv$version: one is recalled over the next connection" recalled_later "later-$version"
	echo 0 >"$event/enable"
	umount "$mnt"
done
mount_nfs 4.2 || exit
check "several are recalled at once" recalled_at_once
umount "$mnt"
hang_up

# shellcheck disable=SC2153 # the VM sets it
call="rpcordma && ip.src == $SERVER_ADDR && rpc.msgtyp == 0" reply="rpcordma && ip.src == $CLIENT_ADDR && rpc.msgtyp == 1"
invalidates="infiniband.bth.opcode in {22, 23}"
[ "$RDMA" != siw ] || invalidates="iwarp_rdma.opcode in {4, 6}"
check "the server's Calls are seen" seen "$call"
check "the first one comes after the first session" comes_after "$call" "ip.src == $CLIENT_ADDR && nfs.opcode == 43"
check "the client's replies are" seen "$reply"
check "one has to be answered before there are more" one_at_first
check "neither invalidates anything" never "(($call) || ($reply)) && $invalidates"
finish
