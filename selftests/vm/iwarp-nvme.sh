#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another consumer of kernel verbs than NFS: NVMe over Fabrics of the kernel itself, with the host (nvme-rdma) on the client and the
# target (nvmet-rdma) on the server. The disk is one in memory. The connections break during I/O, and the devices go.

. ./lib.sh
need_pair

nqn=nqn.2014-08.org.example:disk
config=/sys/kernel/config/nvmet
megabytes=48
# What drop_packets drops.
port=4420

# at_target FUNCTION ARGUMENT...: the server runs a function of this script.
at_target() { on_server "$(declare -p nqn config megabytes port); $(declare -f "$1"); set -e; $*"; }

target_begins() {
	modprobe nvmet-rdma
	modprobe brd rd_nr=1 rd_size=$((megabytes * 1024))
	mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config
	mkdir -p "$config/subsystems/$nqn/namespaces/1"
	cd "$config/subsystems/$nqn" || return
	echo 1 >attr_allow_any_host
	echo /dev/ram0 >namespaces/1/device_path
	echo 1 >namespaces/1/enable
}

# listen NUMBER FAMILY ADDRESS
listen() {
	mkdir "$config/ports/$1"
	cd "$config/ports/$1" || return
	echo rdma >addr_trtype
	echo "$2" >addr_adrfam
	echo "$3" >addr_traddr
	echo "$port" >addr_trsvcid
	ln -s "$config/subsystems/$nqn" subsystems/
}

target_ends() {
	rm "$config"/ports/*/subsystems/*
	rmdir "$config"/ports/* "$config/subsystems/$nqn/namespaces/1" "$config/subsystems/$nqn"
	# A queue that was closed is freed some time afterwards.
	for _ in {1..60}; do
		if modprobe -r nvmet-rdma brd; then return; fi
		sleep 0.5
	done
	return 1
}

# The disk as it is there, without what the page cache has of it.
target_hash() { dd if=/dev/ram0 bs=1M count="$1" iflag=direct,count_bytes status=none | sha256sum; }

serves() { at_target target_begins && at_target listen 1 ipv4 0.0.0.0 && at_target listen 2 ipv6 ::; }

# Prints the disk on this machine. Fails if there is none.
disk() {
	local found=(/dev/nvme*n1)
	[ -b "${found[0]}" ] && echo "${found[0]}"
}
comes_true() {
	local left=240
	until "$@"; do
		sleep 0.5
		((--left)) || return 1
	done
}
attribute() { cat /sys/class/nvme/nvme*/"$1"; }

# connects ADDRESS [OPTIONS]: a busy machine may be silent for longer than the 5 seconds that are the default.
connects() {
	local wanted="transport=rdma,traddr=$1,trsvcid=$port,nqn=$nqn,reconnect_delay=1,ctrl_loss_tmo=300,keep_alive_tmo=60${2:+,$2}"
	timeout 120 tee /dev/nvme-fabrics <<<"$wanted" && comes_true disk
}
disconnects() { timeout 120 tee /sys/class/nvme/nvme*/delete_controller <<<1 && comes_true not disk; }

# has_connections COUNT: so many of the host's are over the device.
connections() { rdma resource show cm_id | grep "link $RDMA_DEVICE/1 " | grep nvme_rdma; }
has_connections() {
	connections
	[ "$(connections | grep -c CONNECT)" -eq "$1" ]
}

# goes_and_returns BLOCK: random bytes go there and back in blocks of that size, past the page cache of either machine.
goes_and_returns() {
	local disk count=$(($1 < 262144 ? 1048576 / $1 : 4)) size here there
	size=$((count * $1))
	disk=$(disk) && random_file /tmp/random $size || return
	dd if=/tmp/random of="$disk" bs="$1" oflag=direct status=none || return
	dd if="$disk" of=/tmp/read bs="$1" count=$count iflag=direct status=none && cmp /tmp/random /tmp/read || return
	here=$(sha256sum </tmp/random) there=$(at_target target_hash $size) || return
	[ "$here" = "$there" ] || { echo "host $here, target $there"; return 1; }
}

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

# Both ends are told that the connection is no more. What tells them must pass.
breaks() {
	sleep 2
	nft -f - <<-END
		table inet broken {
			chain in { type filter hook input priority 0; tcp sport $port tcp flags & rst == 0 reject with tcp reset; }
			chain out { type filter hook output priority 0; tcp dport $port tcp flags & rst == 0 reject with tcp reset; }
		}
	END
	sleep 1
	nft delete table inet broken
}
drop_packets_for_8_seconds() { sleep 1 && drop_packets && sleep 8 && pass_packets; }
renew() { timeout 120 rdma link del "$RDMA_DEVICE" && sleep 1 && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }
renew_at_target() { sleep 2 && at_target renew; }

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

# cuts_off COMMAND...: the command takes the disk away, and the I/O that was under way ends.
cuts_off() {
	local user status=0 disk
	disk=$(disk) || return
	fio --name=busy --filename="$disk" --rw=randrw --bsrange=4k-1M --direct=1 --ioengine=libaio --iodepth=16 --time_based --runtime=600 \
		>/tmp/busy.log 2>&1 &
	user=$!
	sleep 3
	"$@" || status=$?
	timeout 120 tail --pid=$user -f /dev/null || { echo "the I/O does not end"; return 1; }
	if wait $user; then echo "it did not fail"; return 1; fi
	comes_true not disk && return $status
}
delete_device() { timeout 120 rdma link del "$RDMA_DEVICE"; }
device_returns() { rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0 && connects "$SERVER_ADDR" && goes_and_returns 65536; }

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
