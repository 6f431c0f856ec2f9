#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the device says about connections: trace points, lines in the log, and events of queue pairs, on the side where it happens. A mount
# has connections that begin and end in order; a consumer of kernel verbs (selftests/iwarp/consumer) has others.

. ./lib.sh
need_pair

consumer=/src/build/${KERNEL:+$KERNEL-}consumer/consumer.ko
[ -e "$consumer" ] || cannot_run "there is no $consumer, which selftests/iwarp/consumer.sh builds"
here=/vm/trace.txt
there=/tmp/server-trace.txt
tracing=/sys/kernel/tracing
begin="echo 0 >$tracing/tracing_on; echo >$tracing/trace; echo 8192 >$tracing/buffer_size_kb
	echo 1 >$tracing/events/iwarp/enable && echo 1 >$tracing/tracing_on"
end="echo 0 >$tracing/events/iwarp/enable; cat $tracing/trace"

# record COMMAND...: runs it with all trace points of both sides on. The events are in $here and $there then.
record() {
	local status=0
	on_server "$begin" && eval "$begin" || return
	"$@" || status=$?
	# The server's end of a connection may be later.
	sleep 0.5
	eval "$end" >$here
	on_server "{ $end; } >$there" && return $status
}
# here_is EVENT PATTERN, there_is EVENT PATTERN: an event that was recorded has fields which match. If none has, prints some that came.
here_is() { grep -qE " $1: $2" $here || { grep " $1: " $here | head -n 3; return 1; }; }
there_is() { on_server "grep -qE ' $1: $2' $there || { grep ' $1: ' $there | head -n 3; false; }"; }
# logged PATTERN, logged_there PATTERN
logged() { dmesg | grep -E "$1" || { dmesg | tail -n 5; return 1; }; }
logged_there() { on_server "dmesg | grep -E '$1' || { dmesg | tail -n 5; false; }"; }

qp='dev=[0-9]+ qp=[1-9][0-9]*'
# From here, and from there.
out="$CLIENT_ADDR:[0-9]+ -> $SERVER_ADDR"
in="$SERVER_ADDR:7306 -> $CLIENT_ADDR:[0-9]+"

mounts() { mount_nfs 3 && random_file "$mnt/trace" 300000 && drop_file "$mnt/trace" && cat "$mnt/trace" >/dev/null && umount "$mnt" && has_ended; }
# sunrpc closes a connection in a work item, some time after its last mount is gone.
has_ended() {
	local left=60
	until grep -q ' iwarp_end: ' $tracing/trace && on_server "grep -q ' iwarp_end: ' $tracing/trace"; do
		((--left)) || { echo "no end on both sides"; return 1; }
		sleep 0.5
	done
}
listens() { on_server "modprobe rdma_cm; insmod $consumer"; }
# fails NUMBER: a consumer that does something wrong comes, and goes.
fails() { insmod "$consumer" connect="$SERVER_ADDR" qps=1 fails="$1" && rmmod consumer; }
received() {
	here_is iwarp_terminate_received "$qp $out:7306 layer=0 type=1 code=0x00" &&
		logged "iwarp: $SERVER_ADDR:7306 ended its connection with a Terminate: layer 0, type 1, code 0x00"
}
sent() {
	there_is iwarp_terminate_sent "$qp $in layer=0 type=1 code=0x00" &&
		logged_there "iwarp: the connection of $CLIENT_ADDR:[0-9]+ was ended with a Terminate: layer 0, type 1, code 0x00"
}
events() { logged "queue pair: QP fatal error" && logged_there "queue pair: QP access error"; }
refused() { not insmod "$consumer" connect="$SERVER_ADDR" port=7307 qps=1; }

modprobe rdma_cm
plan 23
check "a mount with I/O is recorded" record mounts
check "iwarp_connect" here_is iwarp_connect "$qp $out:$port"
check "iwarp_established" here_is iwarp_established "$qp $out:$port ird=[1-9][0-9]* ord=[0-9]+"
check "iwarp_qp_state, of a connection that is made" here_is iwarp_qp_state "$qp RTR -> RTS"
check "iwarp_qp_state, of one that ends" here_is iwarp_qp_state "$qp CLOSING -> ERROR"
check "iwarp_end, of the side that closes" here_is iwarp_end "$qp $out:$port half-closed: closed by the consumer \(0\)"
check "iwarp_request_indicated" there_is iwarp_request_indicated "$SERVER_ADDR:$port -> $CLIENT_ADDR:[0-9]+"
check "iwarp_established, of the other side" there_is iwarp_established "$qp $SERVER_ADDR:$port -> $CLIENT_ADDR:[0-9]+ ird="
check "iwarp_end, of the other side" there_is iwarp_end "$qp $SERVER_ADDR:$port -> $CLIENT_ADDR:[0-9]+ half-closed: closed by the (peer|consumer) \(0\)"
check "an end in order is not logged" not logged "iwarp: .*$SERVER_ADDR:$port"
check "a consumer listens" listens
check "a connection that is refused is recorded" record refused
check "iwarp_connect_err" here_is iwarp_connect_err "$qp $out:7307 refused"
# Shows P5.4-3.
check "an access to memory that there is not is recorded" record fails 3
check "iwarp_terminate_received, and the log has it" received
check "iwarp_terminate_sent, and the log has it" sent
check "the consumers of both sides have an event" events
check "a request of a kind that there is not is recorded" record fails 5
check "iwarp_wr_refused" here_is iwarp_wr_refused "$qp queue=send wr_id=0x[0-9a-f]+ opcode=[0-9]+ error=-22"
check "requests that are posted while nobody polls are recorded" record fails 6
check "iwarp_wr_refused, as completions that nobody takes keep their places" here_is iwarp_wr_refused "$qp queue=send wr_id=0x[0-9a-f]+ opcode=0 error=-12"
check "the connection ends in order all the same" here_is iwarp_end "$qp $out:7306 half-closed: closed by the consumer \(0\)"
check "the consumer goes" on_server "rmmod consumer"
finish
