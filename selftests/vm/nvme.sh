# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests of NVMe over Fabrics share: a target on the server (nvmet-rdma), and hosts on the client (nvme-rdma). To be sourced after
# disks.sh.

nqn=nqn.2014-08.org.example:disk
config=/sys/kernel/config/nvmet
# What drop_packets drops.
port=4420
# shellcheck disable=SC2034 # disks.sh needs it
served=$(declare -p nqn config port)

target_begins() {
	modprobe nvmet-rdma
	# shellcheck disable=SC2154 # disks.sh sets it
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

serves() { at_target target_begins && at_target listen 1 ipv4 0.0.0.0 && at_target listen 2 ipv6 ::; }

# Prints the disk on this machine. Fails if there is none.
disk() {
	local found=(/dev/nvme*n1)
	[ -b "${found[0]}" ] && echo "${found[0]}"
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
