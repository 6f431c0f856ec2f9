#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs on two implementations of iWARP over TCP: ours, RDMA=iwarp-tcp, and the kernel's siw, PEER_RDMA=siw; or the other way round.

. ./lib.sh
. ./programs.sh
need_user_verbs

# shellcheck disable=SC2153 # the VM sets them
declare -A address=([server]=$SERVER_ADDR [client]=$CLIENT_ADDR)
pings() { between "$1" 7174 "rping -s -a ${address[$1]} -C 20 -S $2 -V" "rping -c -a ${address[$1]} -C 20 -S $2 -V"; }

# to MACHINE COMMAND...: runs a program whose server is on that machine. siw may lose what arrives while it accepts a connection, and then
# either end waits until its limit: where siw listens, they begin again.
to() {
	local left=3 listener=$RDMA
	if [ "$1" = server ]; then listener=$PEER_RDMA; fi
	until "${@:2}"; do [ "$listener" = siw ] && ((--left)) || return; done
}

plan 17
for size in 64 4096 65000; do
	check "rping to the server, $size octets" to server pings server "$size"
	check "rping from the server, $size octets" to client pings client "$size"
done
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_read_lat; do
	check "$program" to server perftest "$program" -n 20 -s 65536
done
for program in ib_send_bw ib_write_bw ib_read_bw; do check "$program, both ways" to server perftest "$program" -n 20 -s 65536 -b; done
# The servers of these two send first. MPA forbids that to whoever was connected to (RFC 5044, section 7.1.2), unless the other side begins
# with a message for it, which siw does not: so they run on siw's machine, which does not keep to that.
listener=server
if [ "$RDMA" = siw ]; then listener=client; fi
first() { between $listener "$1" "$2" "$3"; }
check "ib_write_lat" to $listener first 18515 "ib_write_lat -R -F -n 20 -s 65536" "ib_write_lat -R -F -n 20 -s 65536 ${address[$listener]}"
check "ucmatose" to $listener first 7471 "ucmatose -b ${address[$listener]} -c 10 -C 10 -S 4096" \
	"ucmatose -s ${address[$listener]} -c 10 -C 10 -S 4096"
check "nothing of a process is left when it has ended" nothing_left
finish
