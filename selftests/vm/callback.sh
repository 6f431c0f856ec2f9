#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server sends Calls to the client over the connection that the client made (RFC 8167): it recalls delegations.
#
# LONG_FORMS=yes tries all minor versions of NFSv4 that have such a backchannel.

. ./lib.sh
. ./wire.sh
. ./events.sh
need_pair

event=/sys/kernel/tracing/events/nfs4/nfs4_cb_recall trace=/sys/kernel/tracing/trace
recalls() { grep -c nfs4_cb_recall: "$trace"; }

# use FILE...: the client returns by itself a delegation that it did not use for five seconds, which can pass on a slow machine.
use() {
	local file
	for file; do [ -e "$file" ] || return; done
}

# recalled FILE: opens the file for reading, which gets a delegation; then a process on the server opens it for writing, which waits
# until the delegation is returned or its lease has expired. The status is 2 if there was no delegation, or if rxe ended the connection
# meanwhile: nfsd does not repeat a recall that it could not send.
recalled() {
	local before lost held waited status
	random_file "$mnt/$1" 5000 && drop_caches || return
	exec {held}<"$mnt/$1"
	cat <&"$held" >/dev/null
	on_server "grep -q 'type: deleg.*$1\"' /proc/fs/nfsd/clients/*/states" || {
		echo "no delegation was given"
		exec {held}<&-
		return 2
	}
	before=$(recalls) lost=$(retries_exceeded)
	use "$mnt/$1" || return
	waited=$(on_server "grep -q 'type: deleg.*$1\"' /proc/fs/nfsd/clients/*/states || exit 3
		SECONDS=0; printf '\\nmore\\n' >>/export/$1 && echo \$SECONDS")
	status=$?
	exec {held}<&-
	[ $status -ne 3 ] || { echo "the delegation was returned by then"; return 2; }
	[ $status -eq 0 ] || return
	[ "$(retries_exceeded)" = "$lost" ] || { echo "the connection was given up"; return 2; }
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

# any COMMAND NAME: runs the command with files whose names begin so, until it succeeds with one. For a while nfsd gives no delegation
# for a file whose delegation was recalled, nor for some others: it remembers them by a few bits of a hash.
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

# Only the client can connect. Its next RPC does, and the server then sends its Calls over the new connection.
recalled_later() { drop_connection && sleep 1 && random_file "$mnt/first-$1" 1 && sleep 1 && any_recalled "$1"; }

# open_together FILE...: for writing, at the same time. Prints for how many whole seconds it waited from there on.
open_together() {
	python3 -c 'if 1:
		import sys, threading, time
		began = []
		start = threading.Barrier(len(sys.argv) - 1, lambda: began.append(time.monotonic()))
		def append(name):
			start.wait()
			open(name, "a").close()
		threads = [threading.Thread(target=append, args=[name]) for name in sys.argv[1:]]
		for thread in threads: thread.start()
		for thread in threads: thread.join()
		print(int(time.monotonic() - began[0]))' "$@"
}

# recalled_together NAME: a process on the server opens eight files at once. A status of 2 has the same reasons as above.
recalled_together() {
	local file held holds=() delegated lost waited status
	for file in "$mnt/$1".{1..8}; do
		random_file "$file" 100 && exec {held}<"$file" && cat <&"$held" >/dev/null || return
		holds+=("$held")
	done
	use "$mnt/$1".{1..8} || return
	delegated=$(on_server "cat /proc/fs/nfsd/clients/*/states" | grep -c "type: deleg.*$1")
	lost=$(retries_exceeded)
	use "$mnt/$1".{1..8} || return
	# The delay lets the server send its second Call before it has the reply to the first.
	echo >"$trace"
	echo 1 >"$event/enable"
	tc qdisc add dev eth0 root netem delay 200ms || return
	waited=$(on_server "$(declare -f open_together); open_together /export/$1.*")
	status=$?
	tc qdisc del dev eth0 root
	echo 0 >"$event/enable"
	[ "$status" -eq 0 ] || return
	for held in "${holds[@]}"; do exec {held}<&-; done
	[ "$(retries_exceeded)" = "$lost" ] || { echo "the connection was given up"; return 2; }
	[ "$delegated" -ge 4 ] || { echo "$delegated delegations were given"; return 2; }
	[ "$waited" -lt 10 ] || { echo "the server waited $waited s"; return 1; }
	recalled_within_200_ms || { echo "no two recalls came at once"; return 2; }
}

# A recall that came so soon after another one came before the server had the reply to that.
recalled_within_200_ms() {
	awk '{ for (i = 2; i <= NF; i++) if ($i == "nfs4_cb_recall:") { at = $(i - 1) + 0; if (last && at - last < 0.2) found = 1; last = at } }
		END { exit !found }' "$trace"
}

# window_full: all credits are taken, and a call waits for one.
window_full() {
	xprts xprt_info | awk -F= '$1 == "cur_cong" { used = $2 } $1 == "cong_win" { all = $2 }
		$1 == "sending_q_len" && used >= all && $2 > 0 { full = 1 } END { exit !full }'
}

# replied_without_credits NAME: more calls than there are credits wait for a file system of the server that is frozen. A delegation of
# another file is recalled, and the server has the reply to that Call, though none of the calls has one.
replied_without_credits() {
	local held file writers=() status=0 calls replies
	random_file "$mnt/$1" 100 && exec {held}<"$mnt/$1" && cat <&"$held" >/dev/null && touch /mnt/frozen/{1..40} || return
	on_server "grep -q 'type: deleg.*$1\"' /proc/fs/nfsd/clients/*/states" || { echo "no delegation was given"; exec {held}<&-; return 2; }
	on_server "fsfreeze -f /export/frozen" || return
	for file in /mnt/frozen/{1..40}; do
		dd if=/dev/zero of="$file" bs=4k count=1 oflag=direct conv=notrunc status=none &
		writers+=($!)
	done
	for _ in {1..40}; do
		window_full && sleep 0.5 && window_full && break
		sleep 0.25
	done
	window_full || { xprts xprt_info; echo "there were credits"; status=2; }
	record_events here xprtrdma_cb_call xprtrdma_cb_reply
	on_server "printf more >>/export/$1 &" || status=1
	for _ in {1..20}; do
		sleep 0.25
		calls=$(grep -c xprtrdma_cb_call: "$trace") replies=$(grep -c xprtrdma_cb_reply: "$trace")
		[ "$calls" = 0 ] || [ "$replies" -lt "$calls" ] || break
	done
	end_events here
	on_server "fsfreeze -u /export/frozen"
	echo "$calls Calls of the server, $replies replies"
	[ "$calls" -gt 0 ] && [ "$replies" -ge "$calls" ] || status=1
	wait "${writers[@]}" || status=1
	exec {held}<&-
	return $status
}

# The server grants 16 credits at most. `max_requests` is of connections that are made after it is written.
with_sixteen_credits() {
	local status requests=/proc/sys/sunrpc/svc_rdma/max_requests before
	before=$(on_server "cat $requests") && on_server "echo 16 >$requests" && export_freezable sec=sys || return
	mkdir -p /mnt/frozen
	mount_nfs 4.2 && mount -t nfs -o "proto=rdma,port=$port,vers=4.2,retry=0" "$SERVER_ADDR:/frozen" /mnt/frozen && any "$@"
	status=$?
	umount /mnt/frozen "$mnt" || status=1
	on_server "echo $before >$requests"
	unexport_freezable && return $status
}

# RFC 8167: until the client has replied, it has granted one credit. nfsd drops a Call after a tenth of its lease time, one second.
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

# comes_after PACKETS OTHERS: the first packet that matches the one filter comes after the first that matches the other.
first() { decode -Y "$1" -T fields -e frame.number | head -n 1; }
comes_after() { [ "$(first "$1")" -gt "$(first "$2")" ]; }

# A segment of iWARP may hold several messages, and the in-tree server assumes that it has two credits at first.
windowed=0
[ "$RDMA" = siw ] || ! on_server "[ -e /sys/module/rpcrdma/version ]" || windowed=1

versions=(4.2)
! long_form || versions=(4.1 4.2)
# The in-tree client lets the reply to a callback wait for the credits of calls.
credits=0
[ "$(loaded)" = c ] || credits=1
plan $((4 * ${#versions[@]} + 5 + windowed + credits))
start_capture
wait_for_grace_period
for version in "${versions[@]}"; do
	mount_nfs "$version" || exit
	echo 1 >"$event/enable"
	# Shows B-01, N-14.
	check "NFSv$version: a delegation is recalled" any_recalled "delegated-$version"
	check "NFSv$version: what the server wrote is seen" sees_the_write
	# Shows B-06.
	check "NFSv$version: five more are recalled" five_more "delegated-$version"
	# Shows B-14.
	check "NFSv$version: one is recalled over the next connection" recalled_later "later-$version"
	echo 0 >"$event/enable"
	umount "$mnt"
done
mount_nfs 4.2 || exit
check "several are recalled at once" any recalled_together together
umount "$mnt"
stop_capture
# Shows B-03.
[ $credits = 0 ] || check "the reply to a callback needs no credit of the calls" with_sixteen_credits replied_without_credits full

# shellcheck disable=SC2153 # the VM sets it
call="rpcordma && ip.src == $SERVER_ADDR && rpc.msgtyp == 0" reply="rpcordma && ip.src == $CLIENT_ADDR && rpc.msgtyp == 1"
invalidates="infiniband.bth.opcode in {22..23}"
[ "$RDMA" != siw ] || invalidates="(iwarp_rdma.opcode == 4 || iwarp_rdma.opcode == 6)"
checks() {
	check "the server's Calls are seen" seen "$call"
	check "the client's replies are seen" seen "$reply"
	# Shows B-16.
	check "Calls of the server and their replies invalidate no memory" never "(($call) || ($reply)) && $invalidates"
}
count_packets checks
checks
# Shows B-02.
check "the server's first Call comes after the first session is made" comes_after "$call" "ip.src == $CLIENT_ADDR && nfs.opcode == 43"
# Shows B-05.
[ "$windowed" = 0 ] || check "the server waits for the reply to its first Call before it sends more" one_at_first
finish
