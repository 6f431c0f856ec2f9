# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What tests of block devices over RDMA share, which the kernel itself has consumers for: the server's disk is one in memory, /dev/ram0.
# To be sourced after lib.sh. A test has a function `disk`, which prints the block device on this machine, or fails if there is none, and
# sets `served` to the declarations that functions of the server need.

# shellcheck disable=SC2154 # the test sets the port

served=
megabytes=48

# at_target FUNCTION ARGUMENT...: the server runs a function of this script.
at_target() { on_server "$served; $(declare -p megabytes); $(declare -f "$1"); set -e; $*"; }

comes_true() {
	local left=240
	until "$@"; do
		sleep 0.5
		((--left)) || return 1
	done
}

# The disk as it is there, without what the page cache has of it.
target_hash() { dd if=/dev/ram0 bs=1M count="$1" iflag=direct,count_bytes status=none | sha256sum; }

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

# disk_io OPTION...: verified I/O, which would make a file where there is no disk.
disk_io() { disk && verified_io "$@"; }

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
add_device() { rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }
renew() { timeout 120 rdma link del "$RDMA_DEVICE" && sleep 1 && rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0; }
renew_at_target() { sleep 2 && at_target renew; }

# Both ends are told that a connection over TCP is no more. What tells them must pass.
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
