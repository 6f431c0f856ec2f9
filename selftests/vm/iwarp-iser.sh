#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another consumer of kernel verbs: iSER of the kernel itself, with the initiator (ib_iser, and Debian's open-iscsi) on the client and the
# target (ib_isert) on the server. The disk is one in memory. The initiator sends data with a write that is of a region which it registers
# in the same call. The connections break during I/O, and the devices go.

. ./lib.sh
. ./disks.sh
need_pair
layer=/src/build/open-iscsi
[ -e $layer.from ] || cannot_run "there is no $layer, which selftests/iwarp/open-iscsi.sh makes"

target=/sys/kernel/config/target
iqn=iqn.2014-08.org.example:disk
# What drop_packets drops.
port=3260
served=$(declare -p target iqn port)

# A portal of the target has a socket of TCP as well, at the same port. It is in a network namespace where nobody looks for it, as over
# iwarp-tcp the device needs the port itself.
target_begins() {
	modprobe brd rd_nr=1 rd_size=$((megabytes * 1024))
	modprobe -a target_core_iblock iscsi_target_mod ib_isert
	mountpoint -q /sys/kernel/config || mount -t configfs config /sys/kernel/config
	mkdir -p "$target/core/iblock_0/disk"
	echo udev_path=/dev/ram0 >"$target/core/iblock_0/disk/control"
	echo 1 >"$target/core/iblock_0/disk/enable"
	mkdir -p "$target/iscsi/$iqn/tpgt_1/lun/lun_0"
	cd "$target/iscsi/$iqn/tpgt_1" || return
	ln -s "$target/core/iblock_0/disk" lun/lun_0/disk
	for name in authentication demo_mode_write_protect; do echo 0 >attrib/$name; done
	for name in generate_node_acls cache_dynamic_acls; do echo 1 >attrib/$name; done
	unshare --net mkdir "np/0.0.0.0:$port"
	echo 1 >"np/0.0.0.0:$port/iser"
	echo 1 >enable
}
target_ends() {
	cd "$target/iscsi/$iqn/tpgt_1" || return
	echo 0 >enable
	echo 0 >"np/0.0.0.0:$port/iser"
	rmdir "np/0.0.0.0:$port"
	rm lun/lun_0/disk
	cd "$target" || return
	rmdir "iscsi/$iqn/tpgt_1/lun/lun_0" "iscsi/$iqn/tpgt_1" "iscsi/$iqn" iscsi core/iblock_0/disk core/iblock_0
	for _ in {1..60}; do
		if modprobe -r ib_isert iscsi_target_mod target_core_iblock brd; then return; fi
		sleep 0.5
	done
	return 1
}

# Prints the disk on this machine. Fails if there is none.
disk() {
	local found=(/dev/sd[a-z])
	[ -b "${found[0]}" ] && echo "${found[0]}"
}
# setting NAME VALUE
setting() { iscsiadm -m node -T "$iqn" -p "$portal" -o update -n "node.$1" -v "$2"; }
# logs_in ADDRESS: the wait for a connection that is lost ends after 5 minutes, as that for the target.
logs_in() {
	portal=$1:$port
	iscsiadm -m node -T "$iqn" -p "$portal" -I iser -o new && setting session.timeo.replacement_timeout 300 &&
		setting conn[0].timeo.noop_out_interval 0 && setting conn[0].timeo.noop_out_timeout 0 && setting session.initial_login_retry_max 8 &&
		timeout 120 iscsiadm -m node -T "$iqn" -p "$portal" --login && comes_true disk
}
logs_out() { timeout 120 iscsiadm -m session --logout && iscsiadm -m node -o delete && comes_true not disk; }
connections() { rdma resource show cm_id | grep "link $RDMA_DEVICE/1 " | grep iser; }
has_connection() {
	connections
	connections | grep CONNECT
}
session_state() { cat /sys/class/iscsi_session/session*/state; }
is_logged_in() { [ "$(session_state)" = LOGGED_IN ]; }
# loses COMMAND...: the command breaks the connection, and the session goes on over another one.
loses() {
	"$@" || return
	if ! comes_true is_logged_in; then
		echo "the session is $(session_state)"
		dmesg | tail -n 5
		return 1
	fi
}
modules_go() { kill "$(cat /run/iscsid.pid)" && timeout 120 modprobe -r ib_iser && at_target target_ends; }

export PATH=$layer/usr/sbin:$layer/sbin:$PATH LD_LIBRARY_PATH=$layer/usr/lib/x86_64-linux-gnu:$layer/lib/x86_64-linux-gnu
modprobe -a sd_mod iscsi_tcp ib_iser && cp -r $layer/etc/iscsi /etc || exit
echo "InitiatorName=iqn.2014-08.org.example:client" >/etc/iscsi/initiatorname.iscsi
iscsid || exit
blocks=(512 4096 16384 20480 65536 1048576 4194304)
plan $((${#blocks[@]} + 14))
check "there is a target" at_target target_begins
check "an initiator logs in" logs_in "$SERVER_ADDR"
check "it has a connection over the device" has_connection
for block in "${blocks[@]}"; do
	check "random bytes go there and back in blocks of $block bytes" goes_and_returns "$block"
done
place=("--filename=$(disk)")
load=(--size=12M --offset_increment=12M --numjobs=2 --ioengine=libaio --iodepth=8)
check "verified I/O of all sizes" disk_io "${load[@]}"
check "verified I/O whose data go with the write" disk_io --bsrange=512-8k "${load[@]}"
if [ "$RDMA" = iwarp-tcp ]; then
	check "the connection is reset during I/O" loses during_io breaks
else
	skip "the connection is reset during I/O" "nftables resets no SCTP associations"
fi
check "all packets are lost for 8 seconds" loses during_io drop_packets_for_8_seconds
check "the target's device goes during I/O, and comes back" loses during_io renew_at_target
check "the initiator's device goes during I/O, and comes back" loses during_io renew
check "the disk has all bytes afterwards" goes_and_returns 65536
check "the initiator logs out during I/O" cuts_off logs_out
check "an initiator logs in again" logs_in "$SERVER_ADDR"
check "it logs out" logs_out
check "the modules go" modules_go
finish
