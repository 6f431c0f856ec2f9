# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What goes over the wire, as an independent decoder reads it.

capture=/vm/capture.pcap

# The decoder follows a connection only if it sees it being made, so this comes before the mount. Soft RoCE is UDP.
listen_in() {
	local packets="udp port 4791"
	# shellcheck disable=SC2154 # lib.sh sets it
	[ "$RDMA" != siw ] || packets="tcp port $port"
	modprobe rpcrdma
	rm -f "$capture"
	# shellcheck disable=SC2086 # words
	tcpdump -i eth0 -w "$capture" -U -B 65536 $packets 2>/dev/null &
	tcpdump=$!
	trap 'kill "$tcpdump" 2>/dev/null' EXIT
	until [ -s "$capture" ]; do sleep 0.1; done
}

# Ends when what was sent is written.
hang_up() {
	local size=0
	until [ "$size" = "$(stat -c %s "$capture")" ]; do
		size=$(stat -c %s "$capture")
		sleep 2
	done
	kill "$tcpdump"
	wait "$tcpdump"
}

decode() { tshark -n -r "$capture" "$@" 2>/dev/null; }
seen() { decode -Y "$1" | grep .; }

# A decoder that fails has seen nothing, too.
never() {
	local packets
	packets=$(decode -Y "$1") && [ -z "$packets" ]
}
