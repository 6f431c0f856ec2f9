#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# NFS over DDP over SCTP (RFC 5043) in one VM, whose server and client share an iwarp-sctp device: mounts, peers that break the rules, a
# network that loses, delays, reorders and doubles packets, addresses that come and go, and a device that goes.
#
# LONG_FORMS=yes has it lose more of them, do all that at once, and has peers vanish.

. ./lib.sh
clear_logs

# In a pair the device is in the way: it has listeners, too. It comes back in the end.
[ -z "${SERVER_ADDR:-}" ] || rdma link del "$RDMA_DEVICE" || exit
modprobe -a iwarp rdma_ucm veth sch_netem && modprobe dummy numdummies=0 || exit
ip link add d0 type dummy && ip address add 10.9.0.1/24 dev d0 && ip address add fd09::1/64 dev d0 nodad && ip link set d0 up || exit
# Packets to its own addresses take this way. They are as long as on Ethernet.
ip link set lo mtu 1500

add() { rdma link add sctp0 type iwarp-sctp netdev d0; }
delete() { timeout 60 rdma link del sctp0; }
count() { rdma -j -p statistic show link sctp0/1 | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"; }

# Addresses at which SCTP listens to the port.
listeners() { awk -v port="$port" '$6 == port { print $9 }' /proc/net/sctp/eps | sort; }
listens_at() {
	local left=20
	until [ "$(listeners | xargs)" = "$*" ]; do
		sleep 0.5
		((--left)) || { listeners; return 1; }
	done
}
serves() {
	# Its daemons stay, and must not keep the pipes of the runner, which waits for their end.
	"$scripts/vm/nfs-server" start >/vm/nfs-server.log 2>&1 3>&- 4>&- && add
}

# A file goes there and back, by way of the server of this machine. The function `before_end` is called then.
before_end=true
carries() {
	mount_nfs "$@" || return
	random_file "$mnt/file" 3000000 && drop_file "$mnt/file" && cmp "$mnt/file" /export/file && $before_end
	local status=$?
	umount "$mnt" && return $status
}

# The same, and more of it, while the network does that to packets.
carries_through() {
	tc qdisc add dev lo root netem limit 10000 "$@" || return
	mount_nfs 4.2 "" 10.9.0.1 && verified_io --size=4M --numjobs=2 --iodepth=4
	local status=$?
	umount "$mnt"
	tc -s qdisc show dev lo
	tc qdisc del dev lo root
	return $status
}
# longest_now: the length of the longest packet that comes by in a while.
longest_now() {
	timeout 60 tcpdump -i lo -w /tmp/now.pcap -c 300 sctp port "$port" 2>/dev/null && chmod 644 /tmp/now.pcap &&
		capture=/tmp/now.pcap decode -T fields -e ip.len | tr ',' '\n' | sort -n | tail -n 1
}
# becomes MTU: the path does, and so do the packets, and then each chunk is whole. What was cut before is still sent.
becomes() {
	local longest left=20
	ip link set lo mtu "$1" || return
	until longest=$(longest_now) && [ "$longest" -le "$1" ] && [ "$longest" -gt $(($1 - 40)) ] &&
		capture=/tmp/now.pcap chunks_are_whole; do
		echo "packets of up to $longest octets"
		((--left)) || return
	done
	echo "packets have up to $longest octets with an MTU of $1"
}
narrows() { sleep 1 && becomes 1500 && becomes 1280 && becomes 1500; }
narrow_during_io() {
	local status load=(--size=4M --numjobs=2 --iodepth=4)
	mount_nfs 4.2 "" 10.9.0.1 && during_io narrows
	status=$?
	ip link set lo mtu 1500
	umount "$mnt" && return $status
}

# established NUMBER SECONDS: so many ends of associations are, before that time is over. An association has both here.
established() {
	local left=$2
	until [ "$(awk '$5 == 3' /proc/net/sctp/assocs | wc -l)" -eq "$1" ]; do
		sleep 1
		((--left)) || { cat /proc/net/sctp/assocs; return 1; }
	done
	echo "$1 ends after $(($2 - left)) s"
}
# vanishes SECONDS COMMAND...: no packet arrives from then on. The command begins then; it ends when packets pass again. The end of the
# client, who asks, gives up; that of the server may take longer.
vanishes() {
	local status busy
	mount_nfs 3 "" 10.9.0.1 && random_file "$mnt/file" 300000 && drop_file "$mnt/file" && established 2 60 || return
	nft -f - <<<"table inet lost { chain in { type filter hook input priority 0; meta l4proto sctp drop; }; }" || return
	"${@:2}" &
	busy=$!
	established 1 "$1"
	status=$?
	nft delete table inet lost
	wait "$busy" && timeout 180 cmp "$mnt/file" /export/file || status=1
	umount "$mnt" && return $status
}
write_more() { timeout 300 dd if=/dev/zero of="$mnt/more" bs=64k count=20 conv=fsync status=none; }
# Heartbeats find it out, which come so often here that the test need not wait for several minutes.
idle_vanishes() {
	local status interval
	interval=$(cat /proc/sys/net/sctp/hb_interval)
	echo 2000 >/proc/sys/net/sctp/hb_interval
	vanishes 240 true
	status=$?
	echo "$interval" >/proc/sys/net/sctp/hb_interval
	return $status
}

places_out_of_order() {
	local before after
	before=$(count placed_out_of_order)
	carries_through "$@" || return
	after=$(count placed_out_of_order)
	echo "$((after - before)) segments were placed before their turn"
	[ "$after" -gt "$before" ]
}

# The packets of a mount with several connections, its I/O and its end, when those of the peer come so late that the queue pairs have gone.
# tshark reads no script for root.
capture=/tmp/sctp.pcap
delay() { tc qdisc add dev lo root netem delay 100ms; }
captures() {
	local tcpdump status
	tcpdump -i lo -w $capture -U -B 65536 sctp port "$port" 2>/dev/null &
	tcpdump=$!
	until [ -s $capture ]; do sleep 0.1; done
	before_end=delay carries 3 nconnect=8 10.9.0.1
	status=$?
	sleep 3
	tc qdisc del dev lo root
	kill $tcpdump
	wait $tcpdump
	cp ../iwpeer/ddp-sctp.lua /tmp && chmod 644 $capture /tmp/ddp-sctp.lua && return $status
}
decode() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp tshark -n -X lua_script:/tmp/ddp-sctp.lua -r "$capture" "$@" 2>/dev/null; }
# found FIELD FILTER: what values the field has in packets that match, each once.
found() { decode -Y "$2" -T fields -e "$1" | tr ',' '\n' | sort -u | xargs; }
# Both in INIT and in INIT ACK.
announces() {
	local kind value
	for kind in 1 2; do
		value=$(found sctp.adaptation_layer_indication "sctp.chunk_type == $kind")
		echo "chunk type $kind: adaptation layer $value"
		[ -n "$value" ] && [ $((value)) -eq 1 ] || return
	done
}
chunks_are_whole() {
	local bit
	for bit in u b e; do
		echo "$bit bit: $(found sctp.data_${bit}_bit 'sctp.chunk_type == 0')"
		found sctp.data_${bit}_bit 'sctp.chunk_type == 0' | grep -qxE '1|True' || return
	done
}
# Of stream 0 alone.
are_of_stream_0() {
	local stream
	stream=$(found sctp.data_sid 'sctp.chunk_type == 0')
	echo "stream $stream"
	[ -n "$stream" ] && [ $((stream)) -eq 0 ]
}
# Neither INIT nor INIT ACK has an address; that of the packet is the one. They have the adaptation layer, which tells that parameters are found.
have_one_address() {
	local kind parameters
	for kind in 1 2; do
		parameters=$(found sctp.parameter_type "sctp.chunk_type == $kind")
		echo "chunk type $kind: parameters $parameters"
		[[ " $parameters " = *" 0xc006 "* && " $parameters " != *" 0x0005 "* && " $parameters " != *" 0x0006 "* ]] || return
	done
}
# 1500 octets less the headers of IPv4 and SCTP, and less the room for a SACK; with the header of the chunk.
leave_room() {
	local longest fragments
	longest=$(decode -Y 'sctp.chunk_type == 0' -T fields -e sctp.chunk_length | tr ',' '\n' | sort -n | tail -n 1)
	fragments=$(decode -Y 'ip.flags.mf == 1 || ip.frag_offset > 0' | wc -l)
	echo "the longest chunk has $longest octets, $fragments fragments of IP"
	[ "$longest" -eq $((1500 - 20 - 12 - 16)) ] && [ "$fragments" -eq 0 ]
}
# The numbers of each direction of each association are those from 0 to the last, whatever was sent twice.
numbers_have_no_gap() {
	decode -Y ddp_sctp -T fields -e sctp.srcport -e sctp.dstport -e ddp_sctp.ssn | awk -F '\t' '
		{ way = $1 " to " $2; count = split($3, numbers, ",") }
		{ for (i = 1; i <= count; i++) if (!seen[way, numbers[i]]++) { all[way]++; if (numbers[i] > last[way]) last[way] = numbers[i] } }
		END {
			for (way in all) { ways++; if (all[way] != last[way] + 1) { print way ": " all[way] " numbers up to " last[way]; bad = 1 } }
			print ways + 0 " directions"
			exit bad || ways < 16
		}'
}
# Each Initiate is accepted, with the private data of RPC-over-RDMA version 1, and with no more Reads than the client takes.
both_begin() {
	decode -Y 'ddp_sctp.function == 5 || ddp_sctp.function == 6' -T fields -e ddp_sctp.function -e sctp.srcport -e ddp_sctp.ird \
		-e ddp_sctp.ord -e ddp_sctp.private_data | awk -F '\t' -v port="$port" '
		$1 == 5 { begun++; takes = $3 }
		$1 == 6 && $2 == port { accepted++; sends = $4 }
		$5 !~ /^f6:?ab:?0e:?18/ { print; bad = 1 }
		END {
			print begun + 0 " sessions begin, " accepted + 0 " are accepted: the client takes " takes " Reads, the server sends " sends
			exit bad || begun < 8 || accepted != begun || sends < 1 || sends > takes + 0
		}'
}
chunks_are_known() {
	found sctp.data_payload_proto_id 'sctp.chunk_type == 0'
	[ "$(found sctp.data_payload_proto_id 'sctp.chunk_type == 0')" = "16 17" ]
}
carries_rdma() {
	local packets
	packets=$(decode -Y iwarp_rdma | wc -l)
	echo "$packets packets of RDMAP, $(decode -Y rpcordma | wc -l) of RPC-over-RDMA"
	[ "$packets" -gt 10 ]
}

# Each session that begins.
both_terminate() {
	local begun ended side
	begun=$(decode -Y 'ddp_sctp.function == 5' | wc -l)
	for side in srcport dstport; do
		ended=$(decode -Y "ddp_sctp.function == 4 && sctp.$side == $port" | wc -l)
		echo "$begun sessions begin, the server's port is the $side of $ended Terminates"
		[ "$begun" -gt 0 ] && [ "$ended" -ge "$begun" ] || return
	done
}
# With SHUTDOWN COMPLETE, and without ABORT.
ends_in_order() {
	decode -Y 'sctp.chunk_type == 6 || sctp.chunk_type == 14'
	[ -n "$(found sctp.srcport 'sctp.chunk_type == 14')" ] && [ -z "$(found sctp.srcport 'sctp.chunk_type == 6')" ]
}

new_address_listens() {
	ip address add 10.9.0.2/24 dev d0 && listens_at 10.9.0.1 10.9.0.2 fd09:0000:0000:0000:0000:0000:0000:0001 "$link_local" &&
		carries 3 "" 10.9.0.2
}
old_address_does_not() {
	ip address del 10.9.0.2/24 dev d0 && listens_at 10.9.0.1 fd09:0000:0000:0000:0000:0000:0000:0001 "$link_local"
}

beside_tcp() {
	ip link add d1 type dummy && ip address add 10.9.1.1/24 dev d1 && ip link set d1 up || return
	rdma link add tcp1 type iwarp-tcp netdev d1 && rdma link add sctp1 type iwarp-sctp netdev d1 || return
	carries 3 "" 10.9.1.1 && carries 3 "" 10.9.0.1
}

# A client of each, which find their device by the address.
at_once() {
	local address device client all=0 clients=()
	modprobe rdma_rxe && ip link add d2 type dummy && ip address add 10.9.2.1/24 dev d2 && ip link set d2 up &&
		rdma link add rxe1 type rxe netdev d2 || return
	for address in 10.9.0.1 10.9.1.1 10.9.2.1; do
		mkdir "/mnt/$address" && mnt=/mnt/$address mount_nfs 3 nosharecache "$address" || return
	done
	for address in 10.9.0.1 10.9.1.1 10.9.2.1; do
		fio --name="$address" --directory="/mnt/$address" --rw=randwrite --bsrange=4k-1M --size=8M --direct=1 --verify=crc32c \
			--verify_fatal=1 --fallocate=none --unlink=1 >"/tmp/$address.log" 2>&1 &
		clients+=($!)
	done
	for client in "${clients[@]}"; do wait "$client" || all=1; done
	rdma resource show qp | grep 'type RC'
	[ $all = 0 ] || cat /tmp/10.9.?.1.log
	for device in sctp0 tcp1 rxe1; do
		[ "$(rdma resource show qp link "$device/1" | grep -c 'type RC')" = 2 ] || all=1
	done
	umount /mnt/10.9.?.1 && rdma link del rxe1 && return $all
}

nobody_listens() { not mount_nfs 3 port=20050,soft,timeo=50,retrans=1 10.9.0.1; }
module_goes() { "$scripts/vm/nfs-server" stop && unload && timeout 60 rmmod iwarp; }
module_returns() { modprobe iwarp && add && delete && restore_device; }

check_quietly() { "$@" >/dev/null; }
check_quietly serves || exit
link_local=$(ip -6 -o address show dev d0 scope link | awk '{ split($4, a, "/"); print a[1] }' |
	python3 -c 'import ipaddress; print(ipaddress.ip_address(input()).exploded)')
mapfile -t results < <(../iwpeer/hostile_sctp.py 10.9.0.1 "$port")
planned=${results[0]#1..} results=("${results[@]:1}")
# The other way round: the client's device connects to such a peer. A mount begins when that listens, and leads to nothing.
mapfile -t answers < <(../iwpeer/hostile_sctp_answers.py 10.9.0.1 20050 sh -c "sleep 0.5
	exec mount -t nfs -o proto=rdma,port=20050,vers=4.2,retry=0,soft,timeo=50,retrans=1 10.9.0.1:/ $mnt")
planned=$((planned + ${answers[0]#1..})) results+=("${answers[@]:1}")

plan $((${#results[@]} + 28 + $(long_form && echo 4 || echo 0)))
# Shows S7.2-1, S7.2-2.
check "there is a listener for each address of the device" listens_at 10.9.0.1 fd09:0000:0000:0000:0000:0000:0000:0001 "$link_local"
check "NFSv3 over IPv4" carries 3 "" 10.9.0.1
check "NFSv4.2 over IPv6" carries 4.2 "" fd09::1
for result in "${results[@]}"; do
	if [[ $result == ok* ]]; then ktap_test_pass "${result#ok }"; else ktap_test_fail "${result#not ok }"; fi
done
check "all cases ran" [ "${#results[@]}" -eq "$planned" ]
check "a mount is captured" captures
# Shows S5.1-1.
check "on the wire both sides announce DDP" announces
# Shows S5.2-1.
check "on the wire chunks have the two payload protocols of RFC 5043" chunks_are_known
# Shows S4-2, S9-2, S10-1.
check "on the wire chunks are unordered and whole" chunks_are_whole
# Shows S8-1.
check "on the wire chunks are of stream 0" are_of_stream_0
# Shows S7.2-2.
check "on the wire either end has one address" have_one_address
# Shows S9-1, S9-3.
check "on the wire the longest chunk leaves room for a SACK" leave_room
# Shows S6-1, S6.1-1.
check "on the wire the numbers of each direction begin with 0 and have no gap" numbers_have_no_gap
# Shows S6.2-1.
check "on the wire each session is accepted, with private data and a number of Reads" both_begin
check "on the wire another decoder finds RDMAP in the segments" carries_rdma
# Shows S6.2-1.
check "on the wire both sides terminate a session whose consumer closes" both_terminate
check "on the wire the association ends in order then" ends_in_order
check "an address that is added gets a listener" new_address_listens
check "an address that is removed loses it" old_address_does_not
check "nobody listens at another port" nobody_listens
check "1 % of the packets is lost" carries_through loss 1%
# Shows S10-2.
check "packets are reordered, and placed out of order" places_out_of_order delay 5ms reorder 60%
check "packets come twice" carries_through duplicate 5%
# Shows S9-1, S9-2.
check "the path becomes narrower during I/O, and wider again" narrow_during_io
if long_form; then
	check "a peer that vanishes during I/O is given up, and I/O goes on when it returns" vanishes 240 write_more
	check "a peer that vanishes while nobody needs it is given up, and I/O goes on when it returns" idle_vanishes
	check "5 % of the packets are lost" carries_through loss 5%
	check "all of that" carries_through delay 5ms 2ms loss 1% duplicate 1% reorder 60%
fi
check "the device goes while it is in use, and comes back" goes_in_use 10.9.0.1
check "both link types serve, on one network device" beside_tcp
check "one server has clients over iwarp-sctp, iwarp-tcp and rxe at the same time" at_once
check "the module goes" module_goes
check "the module comes back" module_returns
finish
