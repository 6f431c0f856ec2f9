#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tshark, an independent decoder, reads the packets of one READ, WRITE, READDIR and GETATTR of NFSv3; none is malformed.

. ./lib.sh
. ./wire.sh
need_pair

start_capture
mount_nfs 3 || exit
mkdir -p "$mnt/capture"
random_file "$mnt/capture/file" 20000
sync
drop_caches
dd if="$mnt/capture/file" of=/dev/null bs=1000 count=1 iflag=direct status=none
cat "$mnt/capture/file" >/dev/null
ls "$mnt/capture" >/dev/null
stat "$mnt/capture/file" >/dev/null
stop_capture

# tshark does not put the payload of a Write chunk back into its reply, so to it the reply of a READ ends too early. It does decode
# what comes before the payload.
reduced="nfs.procedure_v3 == 6 && rpc.msgtyp == 1 && rpcordma.writes_count > 0"
wrong="(_ws.malformed || _ws.expert.severity == error)"

# What each end sends. A message type of 0 has its Call or reply behind the header, 1 has it in chunks.
# shellcheck disable=SC2153 # the VM sets it
client="ip.src == $CLIENT_ADDR" server="ip.src == $SERVER_ADDR"
call="rpcordma && $client"

# RDMA Writes and Sends with immediate data, and atomic operations.
atomic_or_immediate="infiniband.bth.opcode in {18..20}"
for opcode in 3 5 9 11; do atomic_or_immediate+=" || infiniband.bth.opcode == $opcode"; done

# A Call is sent again only over another connection. A packet that the device repeats has the same sequence number.
xids_of_calls() {
	decode -Y "$call && rpcordma.msg_type < 2" -T fields -e infiniband.bth.destqp -e rpcordma.xid -e infiniband.bth.psn | sort -u
}
no_xid_twice() {
	xids_of_calls >/tmp/xids
	[ "$(wc -l </tmp/xids)" -gt 10 ] && not eval "cut -f 1,2 /tmp/xids | uniq -d | grep ."
}

# The procedures of NFSv3 are one operation each, so their numbers tell what was captured.
checks() {
	check "RPC-over-RDMA is seen" seen rpcordma
	check "GETATTR" seen "rpcordma && nfs.procedure_v3 == 1"
	# Shows S3.5.1-01.
	check "READ, inline" seen "rpcordma && nfs.procedure_v3 == 6 && rpc.msgtyp == 1 && rpcordma.writes_count == 0 && nfs.count3 == 1000"
	# Shows S4.3.2-03.
	check "READ, with a Write chunk" seen "$reduced && nfs.count3 == 20000"
	check "WRITE" seen "rpcordma && nfs.procedure_v3 == 7"
	check "READDIR or READDIRPLUS" seen "rpcordma && nfs.procedure_v3 in {16..17}"
	# Shows S4.4.2-01.
	check "no packet is malformed" never "$wrong && !($reduced)"
	check "credits are asked for and granted" never "rpcordma.flow_control == 0"
	# Shows S4.3.2-01, N-01.
	check "a Call that wants no data has an empty Write list" never "$call && nfs.procedure_v3 == 1 && rpcordma.writes_count > 0"
	# Shows S4.3.1-03.
	check "a Call without data has an empty Read list" never "$call && nfs.procedure_v3 == 1 && rpcordma.reads_count > 0"
	# Shows S4.3.2.3-01.
	check "a READ that fits has an empty Write list" \
		seen "$call && nfs.procedure_v3 == 6 && nfs.count3 == 1000 && rpcordma.writes_count == 0"
	# Shows S4.3.2.1-01, N-01.
	check "a READ that does not has one Write chunk" \
		seen "$call && nfs.procedure_v3 == 6 && rpcordma.writes_count == 1"
	# Shows S4.3.2.1-01, S4.3.2.2-03, N-11.
	check "no READ has two" never "$call && nfs.procedure_v3 == 6 && rpcordma.writes_count > 1"
	# Shows S4.2.4-08, S4.6.1-01, S4.6.2-01.
	check "the client sends no RDMA_MSGP, no RDMA_DONE, no RDMA_ERROR" never "$call && rpcordma.msg_type > 1"
	# Shows S3.1-02.
	check "the client sends no RDMA Write or Read" never "$client && infiniband.bth.opcode in {6..12}"
	check "the server sends RDMA Writes or Reads" seen "$server && infiniband.bth.opcode in {6..12}"
	# Shows S2.3.2-07.
	check "no atomics and no immediate data" never "$atomic_or_immediate"
	# Before the client creates a file, it asks for the default ACL of the directory.
	# Shows S6.3-02, N-04.
	check "NFSACL shares the connection" seen "rpcordma && rpc.program == 100227"
	# Shows N-04.
	check "a Call of NFSACL has no chunks" never "$call && rpc.program == 100227 && (rpcordma.reads_count > 0 || rpcordma.writes_count > 0)"
	# Shows B-02.
	check "the server calls nobody who did not agree to it" never "rpcordma && $server && rpc.msgtyp == 0"
}

plan 21
count_packets checks
checks
# Shows S2.2.2-04, S3.3.1-17, N-16.
check "no XID is sent twice on one connection" no_xid_twice
finish
