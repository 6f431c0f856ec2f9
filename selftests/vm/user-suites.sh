#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs that nobody here wrote, on the device of a pair: perftest, qperf, fio, and TCP programs over rsockets.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin perftest qperf fio rsockets librdmacm

# quick_perf TEST: qperf's server tells its port before it listens. A client that is faster is refused, and begins again.
quick_perf() {
	local left=3
	until served 19765 qperf "qperf -cm 1 -t 1 $SERVER_ADDR $1" >/tmp/qperf 2>&1; do
		cat /tmp/qperf
		grep -q 'unexpected event from RDMA CM' /tmp/qperf && ((--left)) || return
	done
	cat /tmp/qperf
}
# fio VERB DEPTH SIZE
rdma_fio() {
	local common="--name=rdma --ioengine=rdma --port=7470 --bs=$3 --size=$fio_size --iodepth=$2"
	between server 7470 "fio $common --rw=read" "fio $common --hostname=$SERVER_ADDR --verb=$1 --rw=write"
}
# rsockets PROGRAM TEST: the data are verified.
rsockets() { between server 7471 "$1 -b $SERVER_ADDR -T v -T $2 -C 20 -S 65536" "$1 -s $SERVER_ADDR -T v -T $2 -C 20 -S 65536"; }
copies() {
	random_file /tmp/here 3000000 && chmod 644 /tmp/here && served 7427 rcopy "rcopy /tmp/here $SERVER_ADDR:/tmp/there" &&
		[ "$(sha256sum </tmp/here)" = "$(on_server "sha256sum </tmp/there")" ]
}
# pipes OPTION...: NetPIPE, a program for TCP sockets, which gets rsockets.
pipes() {
	local program="env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so NPtcp"
	between server 5002 "$program $*" "$program -h $SERVER_ADDR $*"
}
# alone PROGRAM: a client whose server is not there, as it does not come to that.
alone() { bash -c "$as_nobody $*"; }
ping() { between server 7174 "rping -s -a $SERVER_ADDR $*" "rping -c -a $SERVER_ADDR $*"; }
connects() { between server 7471 "ucmatose -b $SERVER_ADDR $*" "ucmatose -s $SERVER_ADDR $*"; }

many=100
all=(-n 10 -a) few=(-n 100 -s 8192) fio_size=32M
[[ $KERNEL != *debug && $KERNEL != uml ]] || all=(-n 5 -s 1000000) few=(-n 10 -s 8192) fio_size=4M many=20
plan 69
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	in_suite perftest "$program, all sizes" perftest "$program" "${all[@]}"
done
for program in ib_read_bw ib_send_lat ib_read_lat; do in_suite perftest "$program, events" perftest "$program" "${few[@]}" -e; done
# These refuse events at once.
for program in ib_write_bw ib_write_lat; do in_suite perftest "$program, events" timeout "$limit" $program -R -F -e; done
for program in ib_send_bw ib_write_bw ib_read_bw; do
	in_suite perftest "$program, both ways" perftest "$program" "${few[@]}" -b
	in_suite perftest "$program, 8 MiB" perftest "$program" -n 5 -s 8388608
	# Not ib_send_bw, for the reason in user-verbs.sh.
	[ "$program" = ib_send_bw ] || in_suite perftest "$program, 8 queue pairs" perftest "$program" "${few[@]}" -q 8
	# The number of requests has to be a multiple of the list's length.
	in_suite perftest "$program, a list of requests" perftest "$program" -n 48 -s 8192 -l 8
done
for program in ib_send_lat ib_write_lat ib_send_bw ib_write_bw; do
	in_suite perftest "$program, inline" perftest "$program" -n 100 -s 64 -I 80
done
in_suite perftest "ib_read_bw, 16 Reads at once" perftest ib_read_bw "${few[@]}" -o 16
in_suite perftest "ib_send_bw, 2 seconds" perftest ib_send_bw -D 2 -s 8192
in_suite perftest "ib_send_bw, shared Receives" perftest ib_send_bw "${few[@]}" --use-srq
in_suite perftest "ib_write_bw, immediate data" perftest ib_write_bw "${few[@]}" --write_with_imm
for program in ib_atomic_bw ib_atomic_lat; do in_suite perftest "$program" perftest "$program" -n 100; done
for test in rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat \
	rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
	in_suite qperf $test quick_perf $test
done
for verb in write read; do
	for size in 4k 64k 1m; do in_suite fio "$verb of $size" rdma_fio $verb 16 $size; done
	for depth in 1 64; do in_suite fio "$verb of 64k, $depth at once" rdma_fio $verb $depth 64k; done
done
for test in b n r; do in_suite rsockets "rstream, test $test" rsockets rstream $test; done
in_suite rsockets riostream rsockets riostream b
in_suite rsockets rcopy copies
in_suite rsockets "NetPIPE over librspreload" pipes -i -u 65536 -o /tmp/np.out
in_suite librdmacm "rping, many rounds" ping -C "$((10 * many))" -S 65000 -V
in_suite librdmacm "ucmatose, many connections" connects -c $many -C $many -S 4096
in_suite librdmacm "rping -q" ping -C 10 -q
in_suite librdmacm udaddy alone udaddy -s "$SERVER_ADDR"
in_suite librdmacm udpong alone udpong -s "$SERVER_ADDR"
in_suite librdmacm mckey alone mckey -b "$CLIENT_ADDR" -m 239.1.1.1
in_suite librdmacm rdma_xclient alone rdma_xclient -s "$SERVER_ADDR" -c x
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted perftest qperf fio rsockets librdmacm
show_counts
finish
