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

plan 17
for size in 64 4096 65000; do
	check "rping to the server, $size octets" pings server "$size"
	check "rping from the server, $size octets" pings client "$size"
done
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	check "$program" perftest "$program" -n 20 -s 65536
done
for program in ib_send_bw ib_write_bw ib_read_bw; do check "$program, both ways" perftest "$program" -n 20 -s 65536 -b; done
check "ucmatose" between server 7471 "ucmatose -b $SERVER_ADDR -c 10 -C 10 -S 4096" "ucmatose -s $SERVER_ADDR -c 10 -C 10 -S 4096"
check "nothing of a process is left when it has ended" nothing_left
finish
