#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An independent decoder reads what goes over the wire: one READ, WRITE, READDIR and GETATTR, nothing malformed.

. ./lib.sh
. ./wire.sh
need_pair

# The NFSv3 procedures are one operation each, so their numbers tell what was captured.
captured() { seen "rpcordma && nfs.procedure_v3 == $1"; }

listen_in
mount_nfs 3 || exit
mkdir -p "$mnt/capture"
random_file "$mnt/capture/file" 20000
sync
drop_caches
dd if="$mnt/capture/file" of=/dev/null bs=1000 count=1 iflag=direct status=none
cat "$mnt/capture/file" >/dev/null
ls "$mnt/capture" >/dev/null
stat "$mnt/capture/file" >/dev/null
hang_up

# The decoder does not put the payload of a Write chunk back into its reply, so the reply of a READ seems to end too early
# to it. What stands before the payload it does decode.
reduced="(nfs.procedure_v3 == 6 && rpc.msgtyp == 1 && rpcordma.writes_count > 0)"
wrong="(_ws.malformed || _ws.expert.severity == error)"

# What each end sends; a message type of 0 has its Call or Reply behind the header, 1 has it in chunks.
# shellcheck disable=SC2153 # the VM sets it
mine="rpcordma && ip.src == $CLIENT_ADDR"

# A Call is sent again only over another connection. A packet that the device repeats has the same sequence number.
xids_of_calls() {
	decode -Y "$mine && rpcordma.msg_type < 2" -T fields -e infiniband.bth.destqp -e rpcordma.xid -e infiniband.bth.psn | sort -u
}
no_xid_twice() { [ "$(xids_of_calls | wc -l)" -gt 10 ] && not eval "xids_of_calls | cut -f 1,2 | uniq -d | grep ."; }

plan 21
check "RPC-over-RDMA is seen" seen rpcordma
check "GETATTR" captured 1
check "READ, inline" eval "captured 6 | grep 'READ Reply.*Len: 1000'"
check "READ, with a Write chunk" eval "seen '$reduced' | grep 'READ Reply.*Len: 20000'"
check "WRITE" captured 7
check "READDIR or READDIRPLUS" eval "captured 16 || captured 17"
check "no packet is malformed" never "$wrong && !$reduced"
check "credits are asked for and granted" never "rpcordma.flow_control == 0"
check "no XID is sent twice on one connection" no_xid_twice
check "a Call that wants no data has an empty Write list" never "$mine && nfs.procedure_v3 == 1 && rpcordma.writes_count > 0"
check "a Call without data has an empty Read list" never "$mine && nfs.procedure_v3 == 1 && rpcordma.reads_count > 0"
check "a READ that fits has an empty Write list" \
	seen "$mine && nfs.procedure_v3 == 6 && nfs.count3 == 1000 && rpcordma.writes_count == 0"
check "a READ that does not has one Write chunk" \
	seen "$mine && nfs.procedure_v3 == 6 && rpcordma.writes_count == 1"
check "no READ has two" never "$mine && nfs.procedure_v3 == 6 && rpcordma.writes_count > 1"
check "the client sends no RDMA_MSGP, no RDMA_DONE, no RDMA_ERROR" never "$mine && rpcordma.msg_type > 1"
check "the client sends no RDMA Write or Read" \
	never "ip.src == $CLIENT_ADDR && infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 12"
check "the server does" seen "ip.src == $SERVER_ADDR && infiniband.bth.opcode >= 6 && infiniband.bth.opcode <= 12"
check "no atomics and no immediate data" never "infiniband.bth.opcode in {3, 5, 9, 11, 18, 19, 20}"
# To create a file, the client asks for the ACL that its directory has for new ones.
check "NFSACL shares the connection" seen "rpcordma && rpc.program == 100227"
check "and has no chunks" never "$mine && rpc.program == 100227 && (rpcordma.reads_count > 0 || rpcordma.writes_count > 0)"
check "the server calls nobody who did not agree to it" never "rpcordma && ip.src == $SERVER_ADDR && rpc.msgtyp == 0"
finish
