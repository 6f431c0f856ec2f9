#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# NVMe over Fabrics of the kernel itself with many queues: many controllers, each with eight queues for I/O, as machines with eight CPUs
# have them. All of their connections end at the same moment, and come back. Run it with SMP=8.
#
# CONTROLLERS= how many, instead of 6; ROUNDS= how often all of them die by the target's device, instead of 2

. ./lib.sh
. ./disks.sh
. ./nvme.sh
need_pair

queues=8
controllers=${CONTROLLERS:-6}
rounds=${ROUNDS:-2}
# Of each disk.
# shellcheck disable=SC2034 # at_target passes it on
megabytes=24
# shellcheck disable=SC2034 # disks.sh needs it
served=$(declare -p nqn config port controllers)

targets_begin() {
	modprobe nvmet-rdma
	modprobe brd rd_nr="$controllers" rd_size=$((megabytes * 1024))
	mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config
	local number subsystem at=$config/ports/1
	mkdir "$at"
	echo rdma >"$at/addr_trtype"
	echo ipv4 >"$at/addr_adrfam"
	echo 0.0.0.0 >"$at/addr_traddr"
	echo "$port" >"$at/addr_trsvcid"
	for ((number = 0; number < controllers; number++)); do
		subsystem=$config/subsystems/$nqn-$number
		mkdir -p "$subsystem/namespaces/1"
		echo 1 >"$subsystem/attr_allow_any_host"
		echo "/dev/ram$number" >"$subsystem/namespaces/1/device_path"
		echo 1 >"$subsystem/namespaces/1/enable"
		ln -s "$subsystem" "$at/subsystems/"
	done
}
targets_end() {
	rm "$config"/ports/1/subsystems/*
	rmdir "$config/ports/1" "$config"/subsystems/*/namespaces/1 "$config"/subsystems/*
	# A queue that was closed is freed some time afterwards.
	for _ in {1..60}; do
		if modprobe -r nvmet-rdma brd; then return; fi
		sleep 0.5
	done
	return 1
}

# Prints the disks on this machine, as fio wants them. Fails if there is none.
disk() {
	local found=(/dev/nvme*n1)
	[ -b "${found[0]}" ] && (IFS=:; echo "${found[*]}")
}
all_there() { [ "$(disk | tr : '\n' | wc -l)" -eq "$controllers" ] && [ "$(attribute state | grep -cx live)" -eq "$controllers" ]; }
connect_all() {
	local number
	for ((number = 0; number < controllers; number++)); do
		timeout 120 tee /dev/nvme-fabrics <<<"transport=rdma,traddr=$SERVER_ADDR,trsvcid=$port,nqn=$nqn-$number,nr_io_queues=$queues,$patience" ||
			return
	done
	comes_true all_there
}
# A busy machine may be silent for longer than the 5 seconds that are the default.
patience=reconnect_delay=1,ctrl_loss_tmo=600,keep_alive_tmo=120
has_queues() { [ "$(dmesg | grep -c "mapped $queues/0/0 default/read/poll queues")" -ge "$controllers" ]; }
# All of them at once.
disconnect_all() {
	local controller
	for controller in /sys/class/nvme/nvme*/delete_controller; do timeout 240 tee "$controller" <<<1 & done
	wait
	comes_true not disk
}

reconnected() { dmesg | grep -c 'Successfully reconnected'; }
all_reconnected() { [ "$(reconnected)" -ge "$(($1 + controllers))" ] && all_there; }
# reconnect COMMAND...: the command breaks all connections, and each controller makes others.
reconnect() {
	local before
	before=$(reconnected)
	"$@" || return
	if ! comes_true all_reconnected "$before"; then
		echo "$(($(reconnected) - before)) have reconnected"
		attribute state
		return 1
	fi
}
die_by_device() {
	local round
	for ((round = 0; round < rounds; round++)); do reconnect renew_at_target || { echo "in round $round"; return 1; }; done
}
device_returns() { add_device && connect_all && has_connections $((controllers * (queues + 1))); }
modules_go() { timeout 120 modprobe -r nvme-rdma && at_target targets_end; }

modprobe nvme-rdma || exit
# Emulated machines may take long for queues that are full.
echo 240 >/sys/module/nvme_core/parameters/io_timeout

plan 14
check "there are CPUs for as many queues" [ "$(nproc)" -ge $queues ]
check "there are $controllers targets" at_target targets_begin
check "as many hosts connect" connect_all
check "each has $queues queues for I/O" has_queues
check "each queue has a connection over the device" has_connections $((controllers * (queues + 1)))
place=("--filename=$(disk)")
# Each of eight processes has a part of each disk.
load=(--size=$((controllers * 2))M --offset_increment=2M --numjobs=8 --ioengine=libaio --iodepth=16)
check "verified I/O to all of them" verified_io "${load[@]}"
check "all connections are reset at once during I/O" reconnect during_io breaks
check "all packets are lost for 8 seconds" during_io drop_packets_for_8_seconds
check "the target's device goes $rounds times during I/O, and comes back" during_io die_by_device
check "all hosts disconnect at once" disconnect_all
check "they connect again" connect_all
check "the hosts' device goes during I/O" cuts_off delete_device
check "it comes back, and they connect again" device_returns
check "all disconnect, and the modules go" eval "disconnect_all && modules_go"
finish
