#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An independent decoder reads what goes over the wire of iWARP. There the memory that the server reads to is open to the
# client, by a key that the Read Request names: once, for that Read.

. ./lib.sh
. ./wire.sh
need_pair

start_capture
mount_nfs 3 || exit
dd if=/dev/urandom of="$mnt/iwarp" bs=64k count=20 oflag=direct status=none
drop_caches
cat "$mnt/iwarp" >/dev/null
stop_capture

# The opcodes of RDMAP are 0 for a Write, 1 for a Read Request and 2 for a Read Response.
# shellcheck disable=SC2153 # the VM sets it
server="ip.src == $SERVER_ADDR" client="ip.src == $CLIENT_ADDR"

# What the server's Read Requests name as the place to put the data. The upper 24 bits are the region.
sinks() { decode -Y "$server && iwarp_rdma.opcode == 1" -T fields -e iwarp_rdma.sinkstag | tr ',' '\n'; }
regions() { sinks | sed 's/..$//' | sort -u; }
no_key_twice() { [ "$(sinks | wc -l)" -ge 20 ] && not eval "sinks | sort | uniq -d | grep ."; }

# siw does not register a region that still has a valid key: it would end the connection.
reused() {
	echo "$(sinks | wc -l) keys, $(regions | wc -l) regions, $(counter connect_count) connections"
	[ "$(regions | wc -l)" -lt "$(sinks | wc -l)" ] && [ "$(counter connect_count)" -eq 1 ]
}

# Whatever the headers of the server's messages name is the client's.
handles() { decode -Y "$server && rpcordma" -T fields -e rpcordma.rdma_handle | tr ',' '\n' | grep .; }
names_no_sink() { [ "$(handles | wc -l)" -gt 0 ] && not eval "handles | grep -Fxf <(sinks)"; }

# siw may lose a Read whose connection breaks, and never complete it. The device must be able to go nevertheless.
device_goes() {
	for _ in 1 2 3; do
		sleep 2
		restart_server
		on_server "rdma link del $RDMA_DEVICE & timeout 60 tail --pid=\$! -f /dev/null &&
			sleep 1 && rdma link add $RDMA_DEVICE type $RDMA netdev eth0" || return
	done
}

# It may lose invalidations, too, if it serves Reads when the connection is closed. Their calls must not wait for ever.
closes() { for _ in 1 2 3 4; do sleep 4 && drop_connection || return; done; }

plan 10
# Shows S3.2-02, P3.2-1.
check "a message begins with its RPC-over-RDMA header, without a record mark" seen "rpcordma.version == 1"
# Shows P8.1.1-5.
check "a WRITE is fetched by Read Requests" seen "$server && iwarp_rdma.opcode == 1"
# Shows P8.1.1-5.
check "a READ is answered by RDMA Writes" seen "$server && iwarp_rdma.opcode == 0"
# But for the Write of no octets by which iwarp-tcp announces that it takes long FPDUs: its ULPDU is a header.
announces='iwarp_mpa.ulpdulength == 14 && frame contains "mulpdu"'
check "the client sends no RDMA Write, and no Read Request" never "$client && iwarp_rdma.opcode < 2 && !($announces)"
# Shows SEC-20, P8.1.1-5, P8.1.1-8.
check "no key is given to two Reads" no_key_twice
# Shows SEC-20, P8.1.1-4.
check "a region has no valid key when it is used again" reused
# Shows SEC-20.
check "the server's messages name no memory of the server" names_no_sink
check "the file is the same on both machines" same_file iwarp
load=(--size=24M --numjobs=2)
check "the server restarts while it reads, and its device goes" during_io device_goes
load=(--size=48M --rw=write --direct=0 --end_fsync=1)
check "the client closes the connection while the server reads" during_io closes
finish
