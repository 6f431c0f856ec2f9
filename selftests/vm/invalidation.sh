#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A reply alone does not complete an RPC: first its memory is invalidated, so that the server cannot access it any more. rxe completes
# a local invalidation after the Send before it, and a Send when the server has acknowledged it. So this test drops the server's
# acknowledgements for a while.

. ./lib.sh
need_pair

drop_acks() {
	on_server "nft -f - <<-END
		table inet drop_acks { chain out { type filter hook output priority 0; udp dport 4791 @ih,0,8 17 drop; }; }
	END"
}
pass_acks() { on_server nft delete table inet drop_acks; }

# reply_comes COMMAND...: lists a directory whose READDIR takes a Reply chunk of several regions, which one Send With Invalidate
# cannot invalidate. Runs the command when the reply has come. In the end the list must be complete.
reply_comes() {
	local before lister left=100 status=1
	drop_caches
	before=$(counter local_inv_needed) connections=$(counter connect_count)
	drop_acks || return
	ls "$mnt/listed" >/tmp/list &
	lister=$!
	while [ $((left--)) -gt 0 ]; do
		if [ "$(counter local_inv_needed)" -gt "$before" ]; then
			"$@" "$lister"
			status=$?
			break
		fi
		sleep 0.05
	done
	pass_acks
	wait "$lister" && [ "$(wc -l </tmp/list)" = 300 ] && return $status
}

# The status is 2 if the RPC does not wait because the connection is lost: this machine was not scheduled for seconds.
waits() {
	sleep 0.3
	kill -0 "$1" && return
	return $(($(counter connect_count) > connections ? 2 : 1))
}

an_rpc_waits() {
	local left=3 status=2
	while [ $status -eq 2 ] && [ $((left--)) -gt 0 ]; do
		reply_comes waits
		status=$?
	done
	return $status
}

# Without an acknowledgement the Send fails in the end, and the invalidation with it.
loses_the_connection() {
	local left=100
	until [ "$(counter connect_count)" -gt "$connections" ]; do
		kill -0 "$1" && [ $((left--)) -gt 0 ] || return
		sleep 0.1
	done
}

# Prints how often READDIR and READDIRPLUS were retransmitted.
retransmissions() {
	awk -v at="on $mnt " '/^device / { on = index($0, at) } on && /^[ \t]*READDIR/ { sent_again += $3 - $2 } END { print sent_again + 0 }' \
		/proc/self/mountstats
}

plan 4
mount_nfs 3 || exit
mkdir -p "$mnt/listed"
# shellcheck disable=SC2016 # the server expands it
on_server 'for i in {1..300}; do printf -v name %0100d $i; : >/export/listed/$name; done'
# Shows S4.4.1-01, S4.4.1-02, S8.1.3-03, SEC-08, SEC-09.
check "an RPC waits for the invalidation of its memory" an_rpc_waits
before=$(retransmissions)
# Shows S4.5.4-02, SEC-11.
check "an RPC is not completed if the invalidation fails" reply_comes loses_the_connection
# Shows S4.5.4-02, SEC-11.
check "that RPC is retransmitted" test "$(retransmissions)" -gt "$before"
check "the file system unmounts" umount "$mnt"
finish
