#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An independent decoder reads what goes over the wire: one READ, WRITE, READDIR and GETATTR, nothing malformed.

. ./lib.sh
need_pair

capture=/tmp/capture.pcap

decode() { tshark -n -r "$capture" "$@" 2>/dev/null; }

# The NFSv3 procedures are one operation each, so their numbers tell what was captured.
captured() { decode -Y "rpcordma && nfs.procedure_v3 == $1" | grep . ; }

mount_nfs 3 actimeo=0 || exit
mkdir -p "$mnt/capture"
random_file "$mnt/capture/file" 20000
drop_caches

tcpdump -i eth0 -w "$capture" -U udp port 4791 2>/dev/null &
tcpdump=$!
until [ -s "$capture" ]; do sleep 0.1; done
cat "$mnt/capture/file" >/dev/null
dd if=/dev/zero of="$mnt/capture/file" bs=20000 count=1 conv=fsync,notrunc status=none
ls "$mnt/capture" >/dev/null
stat "$mnt/capture/file" >/dev/null
sleep 1
kill "$tcpdump"
wait "$tcpdump"

plan 7
check "RPC-over-RDMA is seen" eval "decode -Y rpcordma | grep ."
check "GETATTR" captured 1
check "READ" captured 6
check "WRITE" captured 7
check "READDIR or READDIRPLUS" eval "captured 16 || captured 17"
check "no packet is malformed" not eval "decode -Y '_ws.malformed || _ws.expert.severity == error' | grep ."
check "credits are asked for and granted" not eval "decode -Y 'rpcordma.flow_control == 0' | grep ."
finish
