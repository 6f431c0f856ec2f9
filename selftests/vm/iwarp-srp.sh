#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another consumer of kernel verbs: SRP of the kernel itself, with the initiator (ib_srp) on the client and the target (ib_srpt) on the
# server. The disk is one in memory. It has a connection for each CPU, which polls one of its completion queues itself. The connections
# break during I/O, and the devices go.
#
# The target listens on the IPv6 wildcard, which takes no IPv4 connections over iWARP.

. ./lib.sh
. ./disks.sh
need_pair

target=/sys/kernel/config/target
# What drop_packets drops.
port=5555
# The initiator's name: an extension, and the second half of its GID.
initiator=0x0000000000000001$(tr -d : <"/sys/class/infiniband/$RDMA_DEVICE/ports/1/gids/0" | cut -c 17-)
served=$(declare -p target port initiator)

target_begins() {
	modprobe brd rd_nr=1 rd_size=$((megabytes * 1024))
	modprobe -a target_core_iblock ib_srpt
	mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config
	mkdir -p "$target/core/iblock_0/disk"
	echo udev_path=/dev/ram0 >"$target/core/iblock_0/disk/control"
	echo 1 >"$target/core/iblock_0/disk/enable"
	mkdir -p "$target/srpt"
	echo "$port" >"$target/srpt/discovery_auth/rdma_cm_port"
}

# Offers the disk at the device's port, which has the name of its GID.
offer() {
	local gid
	gid=0x$(tr -d : <"/sys/class/infiniband/$RDMA_DEVICE/ports/1/gids/0")
	mkdir -p "$target/srpt/$gid/$gid/lun/lun_0"
	cd "$target/srpt/$gid/$gid" || return
	ln -s "$target/core/iblock_0/disk" lun/lun_0/disk
	mkdir -p "acls/$initiator/lun_0"
	ln -s "$target/srpt/$gid/$gid/lun/lun_0" "acls/$initiator/lun_0/disk"
	echo 1 >enable
}
# The target waits for ever for the end of connections that its initiators have closed, if it is not disabled first: over iWARP it hears
# of the end once, and waits for a second event.
withdraw() {
	cd "$target"/srpt/0x*/0x* || return
	echo 0 >enable
	rm acls/0x*/lun_0/disk lun/lun_0/disk
	rmdir acls/0x*/lun_0 acls/0x* lun/lun_0 "$PWD" "$(dirname "$PWD")"
}
target_ends() {
	echo 0 >"$target/srpt/discovery_auth/rdma_cm_port"
	rmdir "$target/srpt" "$target/core/iblock_0/disk" "$target/core/iblock_0"
	for _ in {1..60}; do
		if modprobe -r ib_srpt target_core_iblock brd; then return; fi
		sleep 0.5
	done
	return 1
}
serves() { at_target target_begins && at_target offer; }
# A target without its device forgets what it offered there.
target_renewed() {
	sleep 2
	on_server "timeout 120 rdma link del $RDMA_DEVICE" && at_target withdraw && on_server "rdma link add $RDMA_DEVICE type $RDMA netdev eth0" &&
		at_target offer
}

# Prints the disk on this machine. Fails if there is none.
disk() {
	local found=(/dev/sd[a-z])
	[ -b "${found[0]}" ] && echo "${found[0]}"
}
service() { on_server "tr -d : </sys/class/infiniband/$RDMA_DEVICE/node_guid"; }
# connects [OPTIONS]
# shellcheck disable=SC2153,SC2120 # the VM sets the address
connects() {
	local id
	id=$(service) || return
	timeout 120 tee "/sys/class/infiniband_srp/srp-$RDMA_DEVICE-1/add_target" \
		<<<"id_ext=$id,ioc_guid=$id,dest=[$SERVER_ADDR6]:$port,initiator_ext=0000000000000001${1:+,$1}" && comes_true disk && return
	on_server "dmesg | tail -n 5"
	return 1
}
disconnects() { timeout 120 tee /sys/class/srp_remote_ports/port-*/delete <<<1 && comes_true not disk; }
connections() { rdma resource show cm_id | grep "link $RDMA_DEVICE/1 " | grep ib_srp; }
has_connections() {
	connections
	[ "$(connections | grep -c CONNECT)" -eq "$1" ]
}

port_state() { cat /sys/class/srp_remote_ports/port-*/state; }
is_running() { [ "$(port_state)" = running ]; }
reconnected() { dmesg | grep -c 'reconnect succeeded'; }
more_than() { [ "$(reconnected)" -gt "$1" ]; }
# reconnects COMMAND...: the command breaks the connections, and the initiator makes others.
reconnects() {
	local before
	before=$(reconnected)
	"$@" || return
	if ! comes_true more_than "$before" || ! comes_true is_running; then
		echo "the port is $(port_state)"
		dmesg | tail -n 5
		return 1
	fi
}
# shellcheck disable=SC2119
device_returns() { add_device && connects && goes_and_returns 65536; }
modules_go() {
	timeout 120 modprobe -r ib_srp && comes_true not disk && at_target withdraw && at_target target_ends
}

modprobe sd_mod && modprobe ib_srp reconnect_delay=2 fast_io_fail_tmo=300 dev_loss_tmo=500 || exit
blocks=(4096 16384 20480 65536 1048576 4194304)
plan $((${#blocks[@]} + 15))
check "there is a target" serves
check "an initiator connects" connects
check "each CPU has a connection over the device" has_connections "$(nproc)"
for block in "${blocks[@]}"; do
	check "random bytes go there and back in blocks of $block bytes" goes_and_returns "$block"
done
place=("--filename=$(disk)")
load=(--size=12M --offset_increment=12M --numjobs=2 --ioengine=libaio --iodepth=8)
check "verified I/O of all sizes, in several queues" disk_io "${load[@]}"
if [ "$RDMA" = iwarp-tcp ]; then
	check "the connections are reset during I/O" reconnects during_io breaks
else
	skip "the connections are reset during I/O" "nftables resets no SCTP associations"
fi
check "the target's device goes during I/O, and comes back" reconnects during_io target_renewed
check "the disk has all bytes afterwards" goes_and_returns 65536
check "the initiator disconnects during I/O" cuts_off disconnects
check "an initiator connects whose queue is short" connects queue_size=4
check "verified I/O in a short queue" disk_io "${load[@]}"
check "the initiator disconnects" disconnects
check "an initiator connects again" connects
check "the initiator's device goes during I/O" cuts_off delete_device
check "it comes back, and an initiator connects again" device_returns
check "the modules go" modules_go
finish
