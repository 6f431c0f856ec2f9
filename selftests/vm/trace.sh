#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Trace points record what happens: each event that I/O and a lost connection must cause comes, on the side where it happens, and
# with fields that fit what was done. trace-formats.sh compares the formats.

. ./lib.sh
need_pair

here=/vm/trace.txt
there=/tmp/server-trace.txt
tracing=/sys/kernel/tracing

# record COMMAND...: runs it with all trace points of both sides on. The events are in $here and $there then.
record() {
	local status=0
	on_server "echo 0 >$tracing/tracing_on; echo >$tracing/trace; echo 8192 >$tracing/buffer_size_kb
		echo 1 >$tracing/events/rpcrdma/enable; echo 1 >$tracing/tracing_on" || return
	echo 0 >$tracing/tracing_on
	echo >$tracing/trace
	echo 8192 >$tracing/buffer_size_kb
	echo 1 >$tracing/events/rpcrdma/enable
	echo 1 >$tracing/tracing_on
	"$@" || status=$?
	echo 0 >$tracing/events/rpcrdma/enable
	cat $tracing/trace >$here
	on_server "echo 0 >$tracing/events/rpcrdma/enable; cat $tracing/trace >$there" || return
	return $status
}

# here_is EVENT PATTERN, there_is EVENT PATTERN: an event that was recorded has fields which match. If none has, prints some that came.
here_is() { grep -qE " $1: $2" $here || { grep " $1: " $here | head -n 3; return 1; }; }
there_is() { on_server "grep -qE ' $1: $2' $there || { grep ' $1: ' $there | head -n 3; false; }"; }

hex='0x[0-9a-f]{8}'
task='task:[0-9a-f]{8}@[0-9a-f]{8}'
segment="[0-9]+@0x[0-9a-f]{16}:$hex"
server="peer=\[$SERVER_ADDR\]:$port"

io() {
	mount_nfs 4.2 && random_file "$mnt/trace" 300000 && drop_file "$mnt/trace" && cat "$mnt/trace" >/dev/null || return
	drop_connection
	# The module stays: with its trace points the events would go.
	ls -l "$mnt" >/dev/null && umount "$mnt" && sleep 2
}

# A connection that is refused has no other event.
refused() { ! timeout 100 mount -t nfs -o "proto=rdma,port=20050,vers=4.2,retry=0,soft,timeo=50,retrans=1" "$SERVER_ADDR:/" "$mnt"; }

# xids SIDE EVENT: the transaction ids of these events.
xids() {
	if [ "$1" = client ]; then cat $here; else on_server "cat $there"; fi |
		sed -nE "s/.* $2: .* xid=($hex) .*/\1/p; s/.* $2: .* xid=($hex)$/\1/p" | sort -u
}

# Each Call of the client that was answered was decoded by the server.
same_xids() {
	local unknown
	xids client xprtrdma_reply >/tmp/replies
	unknown=$(comm -23 /tmp/replies <(xids server svcrdma_decode_rqst) | wc -l)
	echo "$(wc -l </tmp/replies) replies, $unknown of Calls that the server did not decode"
	[ "$(wc -l </tmp/replies)" -ge 10 ] && [ "$unknown" -eq 0 ]
}

# The time of RDMA Reads is more than nothing, and less than this test takes.
latency() {
	on_server "sed -nE 's/.* svcrdma_wc_read: .*latency-us=([0-9]+)/\1/p' $there" >/tmp/latency
	sort -n /tmp/latency | head -n 3
	awk '$1 <= 0 || $1 > 60000000 { exit 1 } END { exit NR == 0 }' /tmp/latency
}

# The bytes of the RDMA Reads are those of the file, that were not sent inline.
read_bytes() {
	local bytes
	bytes=$(on_server "sed -nE 's/.* svcrdma_wc_read: .*totalbytes=([0-9]+) .*/\1/p' $there" | awk '{ sum += $1 } END { print sum + 0 }')
	echo "$bytes bytes"
	[ "$bytes" -ge 290000 ] && [ "$bytes" -le 400000 ]
}

# The event names the Send buffers of the client's queue, which its completions have.
one_queue() {
	local queues
	queues=$(grep -oE ' (xprtrdma_post_send|xprtrdma_wc_receive): .*cq.id=[0-9]+' $here | grep -oE '[0-9]+$' | sort -u | wc -l)
	echo "$queues completion queues for two connections"
	[ "$queues" -ge 1 ] && [ "$queues" -le 2 ]
}

# Writes a file that needs RDMA Reads.
long_write() { mount_nfs 4.2 && random_file "$mnt/long" 300000 && umount "$mnt"; }

# The script of docs/observability.md, on the server: the RDMA Reads of the file are in what it prints.
bpftrace_recipe() {
	local status=0
	on_server "rm -f /tmp/reads; setsid bpftrace /src/docs/rdma-read-latency.bt >/tmp/reads 2>&1 & sleep 1
		until grep -q '^Attach' /tmp/reads; do pgrep -x bpftrace >/dev/null || { cat /tmp/reads; exit 1; }; sleep 0.5; done; sleep 2" || return
	long_write || status=1
	on_server 'pkill -INT -x bpftrace; while pgrep -x bpftrace >/dev/null; do sleep 0.2; done; cat /tmp/reads' >/tmp/reads
	cat /tmp/reads
	awk '$1 == "@bytes:" { bytes = $2 } $1 == "@reads:" { reads = $2 } $1 == "@longest_us:" { longest = $2 } /@latency_us:/ { histogram = 1 }
		END { exit !(reads > 0 && bytes >= 290000 && longest > 0 && histogram) }' /tmp/reads && return $status
}

# reported FILE EVENT...: the recording in FILE has each of these events.
reported() {
	local event file=$1
	shift
	trace-cmd report -i "$file" >/tmp/report || return
	for event; do
		echo "$event: $(grep -c " $event: " /tmp/report)"
		grep -q " $event: " /tmp/report || return
	done
}

# record_with FILE EVENTS...: what trace-cmd records of a mount and a long WRITE, with these options.
record_with() {
	local file=$1
	shift
	trace-cmd record -o "$file" "$@" bash -c "$(declare -f mount_nfs random_file long_write); $(declare -p mnt port); long_write"
}

# The commands of docs/observability.md.
trace_cmd_transport() {
	record_with /vm/trace.dat -e rpcrdma -e sunrpc -e rdma_core -e rdma_cma || return
	reported /vm/trace.dat xprtrdma_marshal xprtrdma_reply rpc_task_begin cq_process cm_send_req || return
	# A field of which trace-cmd reads the format for itself.
	grep -qE "xprtrdma_marshal: +$task xid=$hex hdr=[0-9]+ xdr=[0-9/]+ .*list" /tmp/report
}

trace_cmd_calls() {
	record_with /vm/trace.dat -e nfs4 -e sunrpc:rpc_task_\* -e sunrpc:xprt_\* || return
	reported /vm/trace.dat nfs4_write rpc_task_begin xprt_transmit
}

trace_cmd_server() {
	on_server "cd /tmp; rm -f recorded
		setsid trace-cmd record -o trace.dat -e nfsd -e sunrpc:svc_\\* sh -c 'until [ -e recorded ]; do sleep 0.2; done' >record.log 2>&1 &
		for _ in {1..100}; do [ \$(cat /sys/kernel/tracing/events/nfsd/enable) = 1 ] && break; sleep 0.2; done"
	long_write
	local status=$?
	on_server "touch /tmp/recorded"
	[ $status -eq 0 ] || return
	on_server "cd /tmp; while pgrep -x trace-cmd >/dev/null; do sleep 0.2; done; trace-cmd report -i trace.dat" >/tmp/report || return
	for event in nfsd_compound svc_xprt_enqueue svc_process; do
		echo "$event: $(grep -c " $event: " /tmp/report)"
		grep -q " $event: " /tmp/report || return
	done
}

plan 30
modprobe rpcrdma
check "a mount, I/O and a lost connection are recorded" record io
check "xprtrdma_op_connect" here_is xprtrdma_op_connect "$server delay=[0-9]+"
check "xprtrdma_createmrs" here_is xprtrdma_createmrs "$server created [1-9][0-9]* MRs"
check "xprtrdma_inline_thresh" here_is xprtrdma_inline_thresh "$CLIENT_ADDR:[0-9]+ -> $SERVER_ADDR:$port neg send/recv=8192/8192, calc send/recv=8192/8192"
check "xprtrdma_connect" here_is xprtrdma_connect "$server rc=0 connection status=1"
check "xprtrdma_disconnect" here_is xprtrdma_disconnect "$server rc=-?[0-9]+ connection status="
check "xprtrdma_marshal, inline" here_is xprtrdma_marshal "$task xid=$hex hdr=28 xdr=[1-9][0-9]*/[0-9]+/[0-9]+ pullup/inline"
check "xprtrdma_marshal, with a Read chunk" here_is xprtrdma_marshal "$task xid=$hex hdr=[0-9]+ xdr=[1-9][0-9]*/[1-9][0-9]*/[0-9]+ read list/inline"
check "xprtrdma_marshal, with a Write chunk" here_is xprtrdma_marshal "$task xid=$hex hdr=[0-9]+ xdr=[1-9][0-9]*/[0-9]+/[0-9]+ pullup/write list"
check "xprtrdma_mr_fastreg" here_is xprtrdma_mr_fastreg "$task mr.id=[0-9]+ nents=[1-9][0-9]* $segment \(TO_DEVICE\)"
check "xprtrdma_mr_reminv" here_is xprtrdma_mr_reminv "$task mr.id=[0-9]+ nents=[1-9][0-9]* $segment \((TO|FROM)_DEVICE\)"
check "xprtrdma_post_send" here_is xprtrdma_post_send "$task cq.id=[0-9]+ cid=[1-9][0-9]* \([1-9][0-9]* SGEs?\) (signaled)?"
check "xprtrdma_wc_receive" here_is xprtrdma_wc_receive "cq.id=[0-9]+ cid=[1-9][0-9]* status=SUCCESS \(0/0x0\) received=[1-9][0-9]+"
check "xprtrdma_wc_receive, of a connection that ends" here_is xprtrdma_wc_receive "cq.id=[0-9]+ cid=[1-9][0-9]* status=WR_FLUSH_ERR"
check "xprtrdma_reply" here_is xprtrdma_reply "$task xid=$hex credits=[1-9][0-9]*"
check "each connection has one completion queue" one_queue
check "svcrdma_wc_recv" there_is svcrdma_wc_recv "cq.id=[0-9]+ cid=[1-9][0-9]* received=[1-9][0-9]+"
check "svcrdma_wc_recv_flush" there_is svcrdma_wc_recv_flush "cq.id=[0-9]+ cid=[1-9][0-9]* status=WR_FLUSH_ERR"
check "svcrdma_decode_rqst" there_is svcrdma_decode_rqst "cq.id=[0-9]+ cid=[1-9][0-9]* xid=$hex vers=1 credits=[1-9][0-9]* proc=RDMA_MSG hdrlen=28"
check "svcrdma_post_read_chunk" there_is svcrdma_post_read_chunk "cq.id=[0-9]+ cid=[1-9][0-9]* sqecount=[1-9][0-9]*"
check "svcrdma_post_write_chunk" there_is svcrdma_post_write_chunk "cq.id=[0-9]+ cid=[1-9][0-9]* sqecount=[1-9][0-9]*"
check "svcrdma_post_send, which invalidates a region" there_is svcrdma_post_send "cq.id=[0-9]+ cid=[1-9][0-9]* num_sge=[1-9] inv_rkey=0x[0-9a-f]*[1-9a-f][0-9a-f]*"
check "svcrdma_wc_read has the time of the RDMA Reads" latency
check "svcrdma_wc_read has their bytes" read_bytes
check "the server decodes the Calls that the client sees answered" same_xids
modprobe rpcrdma
refusal() { record refused && here_is xprtrdma_connect "peer=\[$SERVER_ADDR\]:20050 rc=-[0-9]+ connection status=-[0-9]+"; }
check "xprtrdma_connect, of a connection that is refused" refusal
if [[ $KERNEL = uml* ]]; then
	skip "the bpftrace script sees the RDMA Reads" "a kernel without kprobes has no BPF for trace points"
else
	check "the bpftrace script sees the RDMA Reads" bpftrace_recipe
fi
check "trace-cmd records and reports the events of the transport" trace_cmd_transport
check "trace-cmd shows what became of calls" trace_cmd_calls
check "trace-cmd shows what became of calls on the server" trace_cmd_server
finish
