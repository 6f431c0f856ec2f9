#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Two implementations of iWARP over TCP talk to each other: ours, RDMA=iwarp-tcp, and the kernel's siw, PEER_RDMA=siw; or the other
# way round. With siw on both sides it shows what the test itself is good for. A third one, tshark, reads what they say. In the end
# the same without a CRC, for which siw does not ask, and with FPDUs that are longer than TCP's segments.

. ./lib.sh
. ./wire.sh
need_pair

# A file of each size goes there and back: less than an FPDU, several FPDUs, and several requests.
goes_and_returns() { random_file "$mnt/$1" "$1" && same_file "$1"; }

# Several requests are under way in both directions.
at_once() { verified_io --size=16M --numjobs=2 --iodepth=8 --ioengine=libaio; }

# Either end ends a connection, and the other one notices.
client_ends() { drop_connection && goes_and_returns 4096; }
server_ends() { restart_server && goes_and_returns 4096; }

# tshark takes long for each megabyte.
captured=(0 1 3 1000 4095 4097 100001)
others=(65536 1048576 5000003)

# ours PARAMETER VALUE: sets a parameter of our module, for connections that begin from then on.
ours() {
	[ "$RDMA" = siw ] || echo "$2" >"/sys/module/iwarp/parameters/$1" || return
	[ "$PEER_RDMA" = siw ] || on_server "echo $2 > /sys/module/iwarp/parameters/$1"
}
ours_are() { ours crc "$1" && ours mulpdu "$2"; }

start_capture
mount_nfs 4.2 || exit
plan $((${#captured[@]} + ${#others[@]} + 23))
for size in "${captured[@]}"; do check "a file of $size bytes goes there and back" goes_and_returns "$size"; done
check "the client ends the connection and makes another" client_ends
stop_capture
for size in "${others[@]}"; do check "a file of $size bytes goes there and back" goes_and_returns "$size"; done
check "verified I/O of all sizes" at_once
check "the server ends the connection, and the client makes another" server_ends

starts() {
	local requests replies
	requests=$(packets "iwarp_mpa.req") && replies=$(packets "iwarp_mpa.rep") || return
	echo "$requests Requests, $replies Replies"
	[ "$requests" -ge 2 ] && [ "$replies" -ge 2 ]
}
answered() {
	local requests answers
	requests=$(decode -Y "iwarp_rdma.opcode == 1" -T fields -e iwarp_rdma.sinkstag | tr ',' '\n' | sort -u | grep -c .)
	answers=$(decode -Y "iwarp_rdma.opcode == 2" -T fields -e iwarp_ddp.stag | tr ',' '\n' | sort -u | grep -c .)
	echo "$requests sinks, $answers of them in Responses"
	[ "$requests" -gt 0 ] && [ "$answers" -eq "$requests" ]
}

checks() {
	check "nobody asks for markers" never "iwarp_mpa.marker_flag == 1"
	check "both use revision 2 of MPA" never "iwarp_mpa.rev != 2"
	check "no Request is refused" never "iwarp_mpa.rej_flag == 1"
	# Shows M-3.
	check "no FPDU has a wrong CRC" never "_ws.expert.message contains \"CRC\""
	check "a READ is answered by RDMA Writes of several segments" seen "iwarp_rdma.opcode == 0 && iwarp_ddp.last_flag == 0"
	check "a WRITE is fetched by Read Requests" seen "iwarp_rdma.opcode == 1"
	check "nobody finds a fault with the other" never "iwarp_rdma.opcode == 7 && !(iwarp_rdma.term_layer == 2)"
}
count_packets checks
check "each connection begins with a Request and a Reply" starts
checks
check "each Read Request is answered" answered

check "our module wants no CRC, and makes long FPDUs" ours_are N 64768
umount "$mnt"
counted=()
start_capture
check "a mount without a CRC" mount_nfs 4.2
check "a file of 100001 bytes goes there and back without a CRC" goes_and_returns 100001
stop_capture
check "verified I/O of all sizes without a CRC" at_once
check "the server ends the connection, and the client makes another without a CRC" server_ends

# shellcheck disable=SC2153 # the VM sets them
case $RDMA in siw) us=$SERVER_ADDR ;; *) us=$CLIENT_ADDR ;; esac
parameters() {
	# Shows M-3, M-14.
	check "nobody wants a CRC" never "iwarp_mpa.crc_flag == 1"
	check "there are FPDUs with zeros for a CRC" seen "ip.src == $us && iwarp_mpa.crc == 0"
	check "no FPDU of ours has a CRC" never "ip.src == $us && iwarp_mpa.crc > 0"
	# Shows M-6.
	check "an FPDU of ours is longer than a segment of TCP" seen "ip.src == $us && iwarp_mpa.ulpdulength > 8192"
	check "no stream ends with a fault when it has such FPDUs" never "iwarp_rdma.opcode == 7 && !(iwarp_rdma.term_layer == 2)"
}
count_packets parameters
parameters
check "our module is as it was" ours_are Y 0
finish
