#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A reply alone completes no RPC: the server must not reach its memory any more. Soft RoCE completes an invalidation no sooner than
# the Send before it, and that when the server has acknowledged it. So the server's acknowledgements are dropped for a while.

. ./lib.sh
need_pair

mute() {
	on_server "nft -f - <<-END
		table inet mute { chain out { type filter hook output priority 0; udp dport 4791 @ih,0,8 17 drop; }; }
	END"
}
unmute() { on_server nft delete table inet mute; }

# reply_comes COMMAND...: lists a directory that takes a Reply chunk of several regions, which one Send cannot invalidate. When the
# reply has come runs the command. Then the list must be whole.
reply_comes() {
	local before lister left=100 status=1
	drop_caches
	before=$(counter local_inv_needed) connections=$(counter connect_count)
	mute || return
	ls "$mnt/fence" >/tmp/list &
	lister=$!
	while [ $((left--)) -gt 0 ]; do
		if [ "$(counter local_inv_needed)" -gt "$before" ]; then
			"$@" "$lister"
			status=$?
			break
		fi
		sleep 0.05
	done
	unmute
	wait "$lister" && [ "$(wc -l </tmp/list)" = 300 ] && return $status
}

# The status is 2 if it does not, but the connection is lost by now: this machine stood still for seconds.
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

# The Send fails in the end, and the invalidation with it.
loses_the_connection() {
	local left=100
	until [ "$(counter connect_count)" -gt "$connections" ]; do
		kill -0 "$1" && [ $((left--)) -gt 0 ] || return
		sleep 0.1
	done
}

# How often READDIR and READDIRPLUS were sent again.
again() {
	awk -v at="on $mnt " '/^device / { on = index($0, at) } on && /^[ \t]*READDIR/ { again += $3 - $2 } END { print again + 0 }' \
		/proc/self/mountstats
}

plan 4
mount_nfs 3 || exit
mkdir -p "$mnt/fence"
# shellcheck disable=SC2016 # the server expands it
on_server 'for i in {1..300}; do printf -v name %0100d $i; : >/export/fence/$name; done'
check "an RPC waits for the invalidation of its memory" an_rpc_waits
before=$(again)
check "and is not completed if that fails" reply_comes loses_the_connection
check "but sent again" test "$(again)" -gt "$before"
check "unmounts" umount "$mnt"
finish
