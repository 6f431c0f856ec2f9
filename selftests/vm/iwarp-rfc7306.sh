#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Atomic operations and immediate data (RFC 7306), between two consumers of kernel verbs (selftests/iwarp/consumer): the client's uses
# numbers of the server's. Meanwhile that one uses them by connections of its own, and adds to the first of them. Then requests that fail, and peers that break the rules.
# Over rxe (RDMA=rxe) it shows what the test itself is good for. With a peer that does not know these messages (PEER_RDMA=siw) a request
# fails; as it has no immediate data and no atomic operations to post, RDMA=siw shows nothing but that the consumer listens.

. ./lib.sh
. ./wire.sh
need_pair

consumer=/src/build/${KERNEL:+$KERNEL-}consumer/consumer.ko
[ -e "$consumer" ] || cannot_run "there is $consumer, which selftests/iwarp/consumer.sh builds"
port=7306
qps=6 own=4 rounds=51 few=11 cpu_adds=3001 masked=1
# Whose software has no masks.
[ "$PEER_RDMA" != rxe ] || masked=0

listen() { on_server "modprobe rdma_cm; insmod $consumer cpu_adds=$cpu_adds $*"; }
# Has the server use its numbers as well, as soon as the client does, in the `own` connections from the 32nd.
listen_and_use() { listen "listens=1 connect=$SERVER_ADDR first=32 qps=$own rounds=$rounds masked=$masked"; }
# comes_back ATOMIC: grants atomic operations if that is 1.
comes_back() { cpu_adds=0 && stop_listening && listen "atomic=$1"; }
# use_in_time ROUNDS COMMAND...: uses the numbers so often in each connection. An attempt to connect takes 10 seconds at most, and SCTP sends
# its first packet again after 3 and then after 6: if that was not enough for one of the connections, as on a wire or a machine that
# is busy, all begins anew behind the command. A completion or a message that never comes is another error, ETIME, and fails at once.
use_in_time() {
	local left=3 status
	while :; do
		use qps=$qps rounds="$1" masked=$masked 2>/tmp/use
		status=$?
		cat /tmp/use
		if ! grep -q 'Connection timed out' /tmp/use || ! ((--left)) || ! "${@:2}"; then return "$status"; fi
	done
}
anew() { stop_listening && listen_and_use; }
# Packets are lost, and others come late, in both directions.
use_over_bad_wire() {
	local shape="tc qdisc add dev eth0 root netem loss 2% duplicate 1% delay 1ms reorder 10%" status
	comes_back 1 && $shape && on_server "$shape" || return
	use_in_time $few comes_back 1
	status=$?
	tc qdisc del dev eth0 root && on_server "tc qdisc del dev eth0 root" && return "$status"
}
stop_listening() { on_server "rmmod consumer"; }
# Loads the consumer here, which then unloads: it keeps nothing.
use() { insmod "$consumer" connect="$SERVER_ADDR" "$@" && rmmod consumer; }
# What the server's consumer has counted: immediate data, what was wrong, lengths, and four numbers.
numbers() { on_server "cat /sys/module/consumer/parameters/numbers"; }

# expected ROUNDS ADDS OWN: what has come about then, with so many connections of the server's own. The upper field counts up, the lower one down; the rounds are an odd number.
expected() {
	local fields=0 bits=0 all=$(((qps + $3) * $1)) lengths
	lengths=$all
	# Segments of a Write come in any order, and nobody counts their octets.
	[ "$PEER_RDMA" != iwarp-sctp ] || lengths=0
	if [ "$masked" = 1 ]; then
		fields=$(printf %x $((all << 32 | (0x100000000 - all))))
		bits=$(printf %x $((((1 << $3) - 1) << 32 | ((1 << qps) - 1))))
	fi
	echo "$all 0 $lengths $((all + $2)) $fields $all $bits"
}
come_out() {
	local left=100
	# The last immediate data may be on their way.
	until [ "$(numbers)" = "$(expected "$@")" ]; do
		sleep 0.1
		((--left)) || { echo "$(numbers), and not $(expected "$@")"; return 1; }
	done
}
# Does nothing, and says so.
fails() {
	local before
	before=$(numbers)
	use fails="$1" || return
	[ "$(numbers)" = "$before" ] || { echo "$(numbers), and not $before"; return 1; }
}
logged() {
	dmesg | grep "ended its connection with a Terminate: layer $1, type $2, code $3" && return
	dmesg | tail -n 5
	return 1
}
# fails_with NUMBER LAYER TYPE CODE
fails_with() { fails "$1" && logged "$2" "$3" "$4"; }

modprobe rdma_cm
if [ "$RDMA" = siw ]; then
	# It posts no such request.
	plan 2
	check "a consumer listens" listen
	check "the consumer goes" stop_listening
	finish
	exit
fi
if [ "$PEER_RDMA" = siw ]; then
	plan 3
	check "a consumer listens over siw" listen
	# It says the code of an unexpected opcode, 0/2/06 (RFC 7306, section 1.1), in the layer below.
	check "an atomic operation fails over a peer that does not know it" fails_with 4 2 0 0x06
	check "the consumer goes" stop_listening
	finish
	exit
fi

# Peers on plain sockets, as honest ones and as others (selftests/iwpeer/hostile_rfc7306.py).
results=()
if [ "$PEER_RDMA" != rxe ]; then
	cpu_adds=0 listen || exit
	mapfile -t results < <(../iwpeer/hostile_rfc7306.py "${PEER_RDMA#iwarp-}" "$SERVER_ADDR" "$port")
	stop_listening || exit
	planned=${results[0]#1..} results=("${results[@]:1}")
fi
all_ran() { [ "${#results[@]}" -eq "$planned" ]; }

start_capture
case $PEER_RDMA in
rxe) plan 5 ;;
iwarp-sctp) plan $((11 + ${#results[@]})) ;;
*) plan $((17 + ${#results[@]})) ;;
esac
if [ "$PEER_RDMA" != rxe ]; then
	for result in "${results[@]}"; do
		if [[ $result == ok* ]]; then ktap_test_pass "${result#ok }"; else ktap_test_fail "${result#not ok }"; fi
	done
	check "all cases ran" all_ran
fi
check "a consumer listens" listen_and_use
# Shows X5.2-3, X5.2.2-3, X6.3-2, X6.4-1, X7-2.
check "$qps connections use the numbers of the peer at once" use_in_time $rounds anew
# Shows X5-1, X5-2.
check "the sums come out, although that machine uses the numbers as well" come_out $rounds $cpu_adds $own
stop_capture
if [ "$PEER_RDMA" = rxe ]; then
	check "an atomic operation with a key that there is not fails" fails 3
else
	# Shows X5.1-3, X8.2-2.
	check "an atomic operation at an address that is not aligned fails" fails_with 1 0 2 0x07
	check "an atomic operation with a key that there is not fails" fails_with 3 0 1 0x00
	check "connections use the numbers although packets are lost, doubled and late" use_over_bad_wire
	check "the sums come out then" come_out $few 0 0
	check "the consumer goes and comes, and grants no atomic operations" comes_back 0
	check "an atomic operation without the right to it fails" fails_with 2 0 1 0x02
fi
check "the consumer goes" stop_listening

checks() {
	# Shows X4.1-1, X4.1-3.
	check "there is immediate data, of eight octets, on queue 0" seen "iwarp_rdma.opcode == 8 && iwarp_ddp.qn == 0 && iwarp_mpa.ulpdulength == 26"
	check "there are Atomic Requests on queue 1" seen "iwarp_rdma.opcode == 0xa && iwarp_ddp.qn == 1 && iwarp_mpa.ulpdulength == 70"
	check "there are Atomic Responses on queue 3" seen "iwarp_rdma.opcode == 0xb && iwarp_ddp.qn == 3 && iwarp_mpa.ulpdulength == 30"
	check "there is nothing else on these queues" never "iwarp_ddp.qn == 3 && iwarp_rdma.opcode != 0xb"
	check "no packet is malformed" never "_ws.malformed"
	check "no FPDU has a wrong CRC" never "_ws.expert.message contains \"CRC\""
}
if [ "$PEER_RDMA" = iwarp-tcp ]; then
	count_packets checks
	checks
fi
finish
