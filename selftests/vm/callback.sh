#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server calls back over the connection that the client made: it recalls delegations, and gets them.

. ./lib.sh
. ./wire.sh
need_pair

event=/sys/kernel/tracing/events/nfs4/nfs4_cb_recall
recalls() { grep -c nfs4_cb_recall: /sys/kernel/tracing/trace; }

# use FILE...: what the client did not use for five seconds it returns by itself, which a slow machine gives it time for.
use() {
	local file
	for file; do [ -e "$file" ] || return; done
}

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
	use "$mnt/$1" || return
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

# any COMMAND NAME: with a file of any name that begins so. One that was recalled gets no delegation for a while, nor does now and
# then another one: the server remembers them by a few bits of a hash.
any() {
	local file
	for file in "$2".{1..4}; do
		"$1" "$file"
		case $? in
		0) echo "$file" >/tmp/recalled && return ;;
		2) ;;
		*) return 1 ;;
		esac
	done
	return 1
}

any_recalled() { any recalled "$1"; }

five_more() {
	local left=5
	while [ $((left--)) -gt 0 ]; do
		any_recalled "$1.$left" || return
	done
}

# The server cannot connect; it waits for the client, whose next RPC makes the connection.
recalled_later() { kick && sleep 1 && random_file "$mnt/first-$1" 1 && sleep 1 && any_recalled "$1"; }

# open_together FILE...: for writing, at the same time.
open_together() {
	python3 -c 'if 1:
		import sys, threading
		start = threading.Barrier(len(sys.argv) - 1)
		def append(name):
			start.wait()
			open(name, "a").close()
		threads = [threading.Thread(target=append, args=[name]) for name in sys.argv[1:]]
		for thread in threads: thread.start()
		for thread in threads: thread.join()' "$@"
}

# The server opens eight files. A status of 2 is as above.
recalled_together() {
	local file held holds=() delegated lost waited status
	for file in "$mnt/$1".{1..8}; do
		random_file "$file" 100 && exec {held}<"$file" && cat <&"$held" >/dev/null || return
		holds+=("$held")
	done
	use "$mnt/$1".{1..8} || return
	delegated=$(on_server "cat /proc/fs/nfsd/clients/*/states" | grep -c "type: deleg.*$1")
	lost=$(given_up)
	use "$mnt/$1".{1..8} || return
	# So that the first one is not answered before the server has called twice.
	tc qdisc add dev eth0 root netem delay 200ms || return
	waited=$(on_server "$(declare -f open_together); open_together /export/$1.* && echo \$SECONDS")
	status=$?
	tc qdisc del dev eth0 root
	[ "$status" -eq 0 ] || return
	for held in "${holds[@]}"; do exec {held}<&-; done
	[ "$(given_up)" = "$lost" ] || { echo "the connection was given up"; return 2; }
	[ "$delegated" -ge 4 ] || { echo "$delegated delegations were given"; return 2; }
	[ "$waited" -lt 10 ] || { echo "the server waited $waited s"; return 1; }
}

# RFC 8167: until a client has answered, it has granted one. nfsd gives a Call up after a tenth of its lease time, one second.
one_at_first() {
	decode -Y "($call) || ($reply)" -T fields -e rpc.msgtyp -e rpcordma.xid -e infiniband.bth.destqp -e frame.time_epoch | awk '
		$1 == 1 && $2 in to { answered[to[$2]]; delete sent[$2] }
		$1 == 0 && !($2 in to) {
			to[$2] = $3; sent[$2] = $4; open = 0
			for (xid in sent) open += to[xid] == $3 && $4 - sent[xid] < 1
			if (!($3 in answered)) { first++; early += open > 1 } else if (open > 1) more++
		}
		END { print first + 0 " first ones, " early + 0 " too many; later, " more + 0 " times several"; exit !first || !more || early }'
}

# comes_after PACKETS OTHERS: the first of these comes after the first of those.
first() { decode -Y "$1" -T fields -e frame.number | head -n 1; }
comes_after() { [ "$(first "$1")" -gt "$(first "$2")" ]; }

# A segment of iWARP may hold several messages, and the kernel's own server takes its first two credits for granted.
windowed=0
[ "$RDMA" = siw ] || ! on_server "[ -e /sys/module/rpcrdma/version ]" || windowed=1

versions=(4.1 4.2)
plan $((4 * ${#versions[@]} + 5 + windowed))
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
check "several are recalled at once" any recalled_together together
umount "$mnt"
hang_up

# shellcheck disable=SC2153 # the VM sets it
call="rpcordma && ip.src == $SERVER_ADDR && rpc.msgtyp == 0" reply="rpcordma && ip.src == $CLIENT_ADDR && rpc.msgtyp == 1"
invalidates="infiniband.bth.opcode in {22, 23}"
[ "$RDMA" != siw ] || invalidates="iwarp_rdma.opcode in {4, 6}"
check "the server's Calls are seen" seen "$call"
check "the first one comes after the first session" comes_after "$call" "ip.src == $CLIENT_ADDR && nfs.opcode == 43"
check "the client's replies are" seen "$reply"
[ "$windowed" = 0 ] || check "one has to be answered before there are more" one_at_first
check "neither invalidates anything" never "(($call) || ($reply)) && $invalidates"
finish
