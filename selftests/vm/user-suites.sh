#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs that nobody here wrote, on the device of a pair: perftest, qperf, fio, and TCP programs over rsockets.

. ./lib.sh
. ./programs.sh
. ./suites.sh
need_user_verbs
need_suites
begin perftest qperf fio rsockets

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
# preloaded PORT SERVER CLIENT: programs for TCP sockets, which get rsockets.
preload="env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
preloaded() { between server "$1" "$preload $2" "$preload $3"; }

all=(-n 10 -a) few=(-n 100 -s 8192) fio_size=32M
[[ $KERNEL != *debug ]] || all=(-n 5 -s 1000000) few=(-n 10 -s 8192) fio_size=4M
plan 65
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	in_suite perftest "$program, all sizes" perftest "$program" "${all[@]}"
done
for program in ib_read_bw ib_send_lat ib_read_lat; do in_suite perftest "$program, events" perftest "$program" "${few[@]}" -e; done
# These refuse events at once.
for program in ib_write_bw ib_write_lat; do in_suite perftest "$program, events" timeout "$limit" $program -R -F -e; done
for program in ib_send_bw ib_write_bw ib_read_bw; do
	in_suite perftest "$program, both ways" perftest "$program" "${few[@]}" -b
	in_suite perftest "$program, 8 MiB" perftest "$program" -n 5 -s 8388608
	in_suite perftest "$program, 8 queue pairs" perftest "$program" "${few[@]}" -q 8
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
for test in a b n r; do in_suite rsockets "rstream, test $test" rsockets rstream $test; done
in_suite rsockets riostream rsockets riostream b
in_suite rsockets rcopy copies
in_suite rsockets "NetPIPE over librspreload" preloaded 5002 "NPtcp -i -u 65536 -o /tmp/np.out" \
	"NPtcp -h $SERVER_ADDR -i -u 65536 -o /tmp/np.out"
# Without -4 its server listens at `::`, where a device for iWARP takes connections over IPv6 only.
in_suite rsockets "iperf3 over librspreload" preloaded 5201 "iperf3 -4 -s -1" "iperf3 -4 -c $SERVER_ADDR -n 1M"
check "nothing of a process is left when it has ended" nothing_left
check "each test that does not pass is in the table" counted perftest qperf fio rsockets
show_counts
finish
