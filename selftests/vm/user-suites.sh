#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Further programs that nobody here wrote, on the device of a pair: perftest in all sizes, qperf, fio, rsockets, libfabric.

. ./lib.sh
. ./programs.sh
need_user_verbs
need_suites

# fio VERB DEPTH
rdma_fio() {
	local common="--name=rdma --ioengine=rdma --port=7470 --bs=64k --size=32M --iodepth=$2"
	between server 7470 "fio $common --rw=read" "fio $common --hostname=$SERVER_ADDR --verb=$1 --rw=write"
}
# rsockets PROGRAM TEST: the data are verified.
rsockets() { between server 7471 "$1 -b $SERVER_ADDR -T v -T $2 -C 20 -S 65536" "$1 -s $SERVER_ADDR -T v -T $2 -C 20 -S 65536"; }
copies() {
	random_file /tmp/here 3000000 && chmod 644 /tmp/here && served 7427 rcopy "rcopy /tmp/here $SERVER_ADDR:/tmp/there" &&
		[ "$(sha256sum </tmp/here)" = "$(on_server "sha256sum </tmp/there")" ]
}
# rdma-core's own tests, of these files. (A GID of an iWARP device ends with zeros, and so has to be named.)
pyverbs() { (cd /usr/share/rdma-core/tests && timeout 600 python3 -B run_tests.py --dev "$RDMA_DEVICE" --port 1 --gid 0 -v "$@" 2>&1); }
fabric() { between server 47592 "fi_pingpong -p verbs -e msg -c -I 20 -S $1" "fi_pingpong -p verbs -e msg -c -I 20 -S $1 $SERVER_ADDR"; }

sizes=(-n 10 -a)
[[ $KERNEL != *debug ]] || sizes=(-n 5 -s 1000000)
plan 38
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat; do
	check "$program, many sizes" perftest "$program" "${sizes[@]}"
done
# It has no events for Writes. With events, ib_send_bw may wait for ever on iWARP: it sleeps until a completion, but waits for memory
# that its peer writes.
for program in ib_read_bw ib_send_lat ib_read_lat; do check "$program, events" perftest "$program" -n 100 -s 8192 -e; done
for test in rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat; do
	check "qperf $test" qperf $test
done
for verb in write read send; do
	check "fio, $verb" rdma_fio $verb 1
	check "fio, $verb, 16 at a time" rdma_fio $verb 16
done
for test in a b n; do check "rstream, test $test" rsockets rstream $test; done
check "riostream" rsockets riostream b
check "rcopy" copies
for size in 64 65536; do check "libfabric, $size octets" fabric $size; done
for file in device pd mr cq qp fork rdmacm; do check "rdma-core: test_$file" pyverbs "test_$file"; done
check "nothing of a process is left when it has ended" nothing_left
finish
