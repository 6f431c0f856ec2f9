#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mount over a device with the limits of the adapter that the kernel's command line names (rdma_rxe.profile=): that the device has them,
# and what the connections ask it for. What has no reliable connections is refused. A pair, --rdma strict.

. ./lib.sh
need_pair
[ -n "$STRICT" ] || cannot_run "this test needs the strict device"
. ./strict-device.sh

read -r profile </sys/module/rdma_rxe/parameters/profile
[ "$profile" = "$(on_server cat /sys/module/rdma_rxe/parameters/profile)" ] || cannot_run "both sides have one profile"
echo "# profile $profile"

is_refused() {
	! mount_nfs 4.2 && dmesg | grep 'the RDMA device lacks what is needed'
}

# 128 calls at a time, of which each needs regions. The server raises its grant, and the client what it has for that, step by step.
has_all_credits() {
	mount_nfs 3 || return
	for _ in {1..20}; do
		verified_io --bsrange=64k-64k --size=16M --ioengine=libaio --iodepth=128 || return
		[ "$(counter mrs_allocated)" != 128 ] || break
	done
	echo "$(counter mrs_allocated) regions"
	[ "$(counter mrs_allocated)" = 128 ] && umount "$mnt"
}

plan 2
if [ "$profile" = efa ]; then
	check "a device without reliable connections is refused, with the reason" is_refused
else
	check "128 calls at a time have their regions" has_all_credits
fi
check "no request was beyond a limit, and all memory was mapped" no_fault_counted
finish
