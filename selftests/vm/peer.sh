#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A crafted client sends the server what no correct client sends. An ordinary mount is in use at the same time.
#
# `PEER='adv20 adv46'` in the environment runs only these cases; PEER_CONNECTIONS, PEER_CONNECTS, PEER_ROUNDS and PEER_BITS say
# how much of some (see selftests/peer/src/server_cases/), PEER_THREADS how many threads the server has, PEER_LIMIT how many
# seconds each may take.

. ./lib.sh
. ./events.sh
need_pair
need_peer
peer_cases server
# Those that need a server with messages of 4 MiB.
large=(large_write large_call_in_a_position_zero_chunk large_reads_at_any_offset large_list_of_segments)
if [ -n "${PEER:-}" ]; then
	read -r -a large <<<"$(printf '%s\n' "${cases[@]}" | grep '^large_' | xargs)"
	read -r -a cases <<<"$(printf '%s\n' "${cases[@]}" | grep -v '^large_' | xargs)"
fi

# On a machine with little memory nfsd takes no WRITEs of 1 MiB, unless it is told to.
takes() { on_server "$scripts/vm/nfs-server stop; echo $1 >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start; grep -qx $1 /proc/fs/nfsd/max_block_size"; }
takes 1048576 || exit
mount_nfs 4.2 || exit
# Made on the server, so that the client has no delegation that others must wait for.
on_server "head -c 65536 /dev/urandom >/export/peer.dat; chmod 666 /export/peer.dat
	ln -sf $(printf '%0501d' 7) /export/peer.link"
random_file "$mnt/beside" 3000000
follow_connection

# What a client does not take, or does not answer, ends its connection after so many seconds. The default is 30.
progress_timeout() { on_server "echo $1 >/proc/sys/sunrpc/svc_rdma/progress_timeout"; }

# Whether the server counts and logs that, if the cases are not chosen.
stalls_logged() {
	[ -z "${PEER:-}" ] || return 0
	on_server "cat /proc/sys/sunrpc/svc_rdma/rdma_stat_stalled
		[ \$(cat /proc/sys/sunrpc/svc_rdma/rdma_stat_stalled) -gt 0 ] &&
		dmesg | grep -m 3 'connection of $CLIENT_ADDR:[0-9]* lost: what was posted did not complete in time'"
}

still_connected() {
	echo "connections: $connects before, $(counter connect_count) after"
	[ "$(counter connect_count)" = "$connects" ]
}

# Whether the server counts and logs refused calls, with the client's address, if the cases are not chosen.
refusals_logged() {
	[ -z "${PEER:-}" ] || return 0
	on_server "cat /proc/sys/sunrpc/svc_rdma/rdma_stat_bad_calls
		[ \$(cat /proc/sys/sunrpc/svc_rdma/rdma_stat_bad_calls) -gt 0 ] &&
		dmesg | grep -m 3 'refused the call 0x[0-9a-f]* of $CLIENT_ADDR:[0-9]*: '"
}

# Whether it says so, if somebody replied to a callback that there is not.
replies_logged() {
	[[ " ${cases[*]} " != *" reply_to_no_callback_"* ]] ||
		on_server "dmesg | grep -m 1 'dropped a reply of $CLIENT_ADDR:[0-9]* to the callback 0x[0-9a-f]*, which does not wait for one'"
}

# What the server records of the cases, if they are not chosen.
recorded() { [ -n "${PEER:-}" ] || event_came there "$@"; }

# Whether there are ways to have memory fragmented: allocations of eight pages and more fail for what the server receives.
can_fragment() { [[ $KERNEL = *debug ]] && [ ${#large[@]} -gt 0 ]; }
fragmented() {
	local left
	on_server "cd $PWD; . ./faults.sh; aim svc9transport8recvfrom && arm fail_page_alloc min-order=3 times=1000 probability=100" &&
		timeout 300 "$peer" run large_list_of_segments
	set -- $?
	left=$(on_server "cd $PWD; . ./faults.sh; setting fail_page_alloc times; clear_faults")
	echo "$((1000 - left)) allocations failed"
	[ "$left" -lt 1000 ] && return "$1"
}

server_unloads() { on_server "$scripts/vm/nfs-server stop; rmmod rpcrdma; $scripts/vm/nfs-server start"; }

# A kernel that checks each access to memory is slow, and more so if its processor is emulated.
case $KERNEL in debug | rt-debug) progress_timeout 24 ;; uml-debug) progress_timeout 12 ;; *) progress_timeout 6 ;; esac || exit
plan $((${#cases[@]} + ${#large[@]} + $(can_fragment && echo 1 || echo 0) + 15))
record_events there svcrdma_err_chunk svcrdma_err_vers svcrdma_sq_full svcrdma_wc_{read,recv}_err \
	svcrdma_decode_{short,badvers,badproc,parse}_err || exit
for name in "${cases[@]}"; do
	check_peer "$name"
	excuse_rxe
done
check "a mount beside all that kept its connection" still_connected
check "and its file is whole" same_file beside
check "calls that were refused are counted, and logged with the client's address" refusals_logged
check "replies to no callback are logged" replies_logged
check "connections that stood still are counted and logged" stalls_logged
end_events there
check "svcrdma_err_chunk" recorded svcrdma_err_chunk "xid=$hex$"
check "svcrdma_err_vers" recorded svcrdma_err_vers "xid=$hex$"
check "svcrdma_sq_full" recorded svcrdma_sq_full "$completion sc_sq_avail=[0-9]+/[1-9][0-9]*$"
check "svcrdma_wc_read_err" recorded svcrdma_wc_read_err "$completion status=REM_[A-Z_]+ERR \\([0-9]+/0x[0-9a-f]+\\)"
check "svcrdma_wc_recv_err" recorded svcrdma_wc_recv_err "$completion status=[A-Z_]+_ERR \\([0-9]+/0x[0-9a-f]+\\)"
check "svcrdma_decode_short_err" recorded svcrdma_decode_short_err "$completion hdrlen=[0-9]+$"
check "svcrdma_decode_badvers_err" recorded svcrdma_decode_badvers_err "$completion xid=$hex vers=([02-9]|[1-9][0-9]+) credits=[0-9]+ proc=[0-9]+$"
check "svcrdma_decode_badproc_err" recorded svcrdma_decode_badproc_err "$completion xid=$hex vers=1 credits=[0-9]+ proc=[1-9][0-9]*$"
check "svcrdma_decode_parse_err" recorded svcrdma_decode_parse_err "$completion xid=$hex vers=1 credits=[0-9]+ proc=[01]$"
progress_timeout 30
umount "$mnt"
if [ ${#large[@]} -gt 0 ]; then
	messages=$(on_server cat /proc/sys/sunrpc/svc_rdma/max_req_size)
	on_server "echo 65536 >/proc/sys/sunrpc/svc_rdma/max_req_size" && takes 4194304 || exit
	for name in "${large[@]}"; do
		check_peer "$name"
	done
	! can_fragment || check "large_list_of_segments in fragmented memory" fragmented
	on_server "echo $messages >/proc/sys/sunrpc/svc_rdma/max_req_size" && takes 1048576 || exit
fi
check "the server holds on to none of it and unloads" server_unloads
finish
