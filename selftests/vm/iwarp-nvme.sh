#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another consumer of kernel verbs than NFS: NVMe over Fabrics of the kernel itself, with the host (nvme-rdma) on the client and the
# target (nvmet-rdma) on the server. The disk is one in memory. The connections break during I/O, and the devices go.

. ./lib.sh
. ./disks.sh
. ./nvme.sh
need_pair

# Requests for polled queues are completed by who waits for them.
polled() {
	[ "$(cat "/sys/block/$(basename "$(disk)")/queue/io_poll")" = 1 ] && verified_io --ioengine=pvsync2 --hipri=1 --size=4M
}

flushes_and_discards() {
	local disk
	disk=$(disk) && random_file /tmp/random 65536 && dd if=/tmp/random of="$disk" conv=fsync status=none || return
	blkdiscard --length 65536 "$disk" && cmp --bytes=65536 <(dd if="$disk" bs=64k count=1 iflag=direct status=none) /dev/zero
}

# reconnects COMMAND...: the command breaks the connections, and the host makes others.
more_than() { [ "$(reconnected)" -gt "$1" ]; }
reconnected() { dmesg | grep -c 'Successfully reconnected'; }
reconnects() {
	local before
	before=$(reconnected)
	"$@" || return
	if ! comes_true more_than "$before"; then
		echo "the controller is $(attribute state)"
		return 1
	fi
}

resets() {
	for _ in 1 2 3; do
		sleep 1
		timeout 240 tee /sys/class/nvme/nvme*/reset_controller <<<1 || return
	done
}

# The most that a queue of the host has at once are 98 requests. An answer to one of these is 7 RDMA Writes and a Send, and the queue
# pair of the target has room for 512 requests: they are 64 answers, without a place left for what drains the queue.
reads_deeply() {
	local reader status
	fio --name=deep --filename="$(disk)" --rw=randread --bs=896k --direct=1 --ioengine=libaio --iodepth=98 --time_based --runtime=600 \
		>/tmp/deep.log 2>&1 &
	reader=$!
	reconnects renew_at_target && sleep 2
	status=$?
	kill $reader
	timeout 240 tail --pid=$reader -f /dev/null || { echo "the reader does not end"; return 1; }
	return $status
}

device_returns() { add_device && connects "$SERVER_ADDR" && goes_and_returns 65536; }

refused() { not connects "$SERVER_ADDR" trsvcid=4421; }
# shellcheck disable=SC2153 # the VM sets it
over_ipv6() { connects "$SERVER_ADDR6" && goes_and_returns 65536 && disconnects; }
modules_go() {
	timeout 120 modprobe -r nvme-rdma && comes_true not disk && at_target target_ends && rdma link del "$RDMA_DEVICE" || return
	[[ $RDMA != iwarp-* ]] || { timeout 60 rmmod iwarp && modprobe iwarp; } || return
	rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0
}

modprobe nvme-rdma || exit
# An emulated machine may take long for a queue that is full.
echo 240 >/sys/module/nvme_core/parameters/io_timeout

blocks=(4096 16384 20480 65536 1048576 4194304)
plan $((${#blocks[@]} + 20))
check "there is a target" serves
check "a host connects, with two queues for I/O and two that are polled" connects "$SERVER_ADDR" nr_io_queues=2,nr_poll_queues=2
check "each queue has a connection over the device" has_connections 5
for block in "${blocks[@]}"; do
	check "random bytes go there and back in blocks of $block bytes" goes_and_returns "$block"
done
place=("--filename=$(disk)")
load=(--size=12M --offset_increment=12M --numjobs=2 --ioengine=libaio --iodepth=8)
check "verified I/O of all sizes, in several queues" verified_io "${load[@]}"
check "verified I/O in queues that are polled" polled
check "a flush, and a discard" flushes_and_discards
check "the host resets the controller during I/O" during_io resets
check "the connections are reset during I/O" reconnects during_io breaks
check "all packets are lost for 8 seconds" during_io drop_packets_for_8_seconds
check "the target's device goes during I/O, and comes back" reconnects during_io renew_at_target
check "the host disconnects" disconnects
check "nobody listens at another port" refused
check "a host connects over IPv6, and disconnects" over_ipv6
check "a host connects whose queues are not as deep" connects "$SERVER_ADDR" nr_io_queues=1,queue_size=100
check "the target's device goes while its send queue is full" reads_deeply
check "the host disconnects during I/O" cuts_off disconnects
check "a host connects again" connects "$SERVER_ADDR"
check "the host's device goes during I/O" cuts_off delete_device
check "it comes back, and a host connects again" device_returns
check "the modules go, and the device's comes back" modules_go
finish
