# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests of a pair with strict devices (selftests/strict) share.

debug=/sys/kernel/debug/strict

# A fault that is none of the plan: of who uses the device.
no_fault_counted() {
	grep -q ' 0$' $debug/faults && not grep -v ' 0$' $debug/faults && on_server "grep -v ' 0$' $debug/faults; [ \$? -eq 1 ]"
}

has_ended() { [[ $(</sys/kernel/debug/strict/plan) = *ended ]]; }

# Until the plan of this machine has ended: adds the device again whenever it has gone.
tend() {
	touch /tmp/tending
	until has_ended && sleep 2 && rdma link show "$RDMA_DEVICE/1" >/dev/null 2>&1; do
		rdma link show "$RDMA_DEVICE/1" >/dev/null 2>&1 || rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0
		sleep 0.2
	done
	rm /tmp/tending
}
