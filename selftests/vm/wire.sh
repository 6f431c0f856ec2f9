# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Captures the packets on the wire and has tshark, an independent decoder, read them.

capture=/vm/capture.pcap

# tshark follows a connection only if the capture has its beginning, so the capture starts before the mount. RoCEv2 is UDP.
start_capture() {
	local packets="udp port 4791"
	# shellcheck disable=SC2154 # lib.sh sets it
	case $RDMA in rxe) ;; iwarp-sctp) packets="sctp port $port" ;; *) packets="tcp port $port" ;; esac
	modprobe rpcrdma
	rm -f "$capture"
	# shellcheck disable=SC2086 # words
	tcpdump -i eth0 -w "$capture" -U -B 65536 $packets 2>/dev/null &
	tcpdump=$!
	trap 'kill "$tcpdump" 2>/dev/null' EXIT
	until [ -s "$capture" ]; do sleep 0.1; done
}

# Returns when tcpdump has written all packets to the file: its size has not changed for two seconds.
stop_capture() {
	local size=0
	until [ "$size" = "$(stat -c %s "$capture")" ]; do
		size=$(stat -c %s "$capture")
		sleep 2
	done
	kill "$tcpdump"
	wait "$tcpdump"
}

decode() { tshark -n -r "$capture" "$@" 2>/dev/null; }

# How many packets match a display filter, as far as count_packets has counted them.
declare -A counted

# count_packets FUNCTION: the function has lines `check DESCRIPTION seen|never FILTER`. Counts the packets of all these filters in
# one run of tshark, which takes seconds to start. A filter must have no comma in it.
count_packets() {
	local filters numbers number
	mapfile -t filters < <(
		# shellcheck disable=SC2317 # the function calls it
		check() { case $2 in seen | never) echo "$3" ;; esac; }
		"$1"
	)
	mapfile -t numbers < <(
		IFS=,
		decode -q -z "io,stat,0,${filters[*]}" | awk -F '|' '/ <> / { for (i = 3; $i ~ /[0-9]/; i += 2) print $i + 0 }'
	)
	# If tshark failed, each check runs it for itself, and says so.
	[ ${#numbers[@]} -eq ${#filters[@]} ] || return
	for number in "${!filters[@]}"; do counted[${filters[number]}]=${numbers[number]}; done
}

# Prints how many packets match the filter. Fails if tshark does: one that fails prints nothing either.
packets() {
	local lines
	if [ -n "${counted[$1]:-}" ]; then echo "${counted[$1]}"; return; fi
	lines=$(decode -Y "$1") || { echo "tshark failed with $1" >&2; return 1; }
	grep -c . <<<"$lines" || true
}

seen() {
	local number
	number=$(packets "$1") || return
	echo "$number packets match $1"
	[ "$number" -gt 0 ]
}

never() {
	local number
	number=$(packets "$1") || return
	echo "$number packets match $1"
	[ "$number" -eq 0 ]
}
