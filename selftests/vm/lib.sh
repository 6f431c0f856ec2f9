# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the tests share: KTAP on top of the kernel's helpers, mounts, counters, the server of the pair.
#
# A test says `clear_logs`, or `need_pair` which does that, then `plan N`, N times `check DESCRIPTION COMMAND...`, and `finish`,
# which adds a result of its own: that the kernel logs hold no report of a fault.

KSFT=${KSFT:-/kernel/source/tools/testing/selftests}
# shellcheck source=/dev/null
. "$KSFT/kselftest/ktap_helpers.sh"

scripts=$(cd ../../scripts && pwd)
mnt=/mnt/nfs
port=20049
mkdir -p "$mnt"

plan() {
	ktap_print_header
	ktap_set_plan $(($1 + 1))
}

# Runs a command and makes it a test result; what a failing one said stands above it.
check() {
	local description=$1 output start=$SECONDS
	shift
	if output=$("$@" 2>&1); then
		ktap_test_pass "$description"
	else
		[ -z "$output" ] || printf '# %s\n' "${output//$'\n'/$'\n# '}"
		echo "# after $((SECONDS - start)) s"
		ktap_test_fail "$description"
	fi
}

# What `finish` looks at begins here.
clear_logs() {
	dmesg -C
	[ -z "${SERVER_ADDR:-}" ] || on_server dmesg -C
}

logs_clean() {
	"$scripts/dmesg.sh" || return
	[ -z "${SERVER_ADDR:-}" ] || on_server "$scripts/dmesg.sh"
}

finish() {
	mountpoint -q "$mnt" && umount -f "$mnt"
	check "no fault in the kernel logs" logs_clean
	ktap_finished
}

not() { ! "$@"; }

on_server() { "$scripts/vm/on-server" "$@"; }
restart_server() { on_server "$scripts/vm/nfs-server stop; $scripts/vm/nfs-server start"; }

need_pair() {
	clear_logs
	[ -n "${SERVER_ADDR:-}" ] && return
	ktap_print_header
	ktap_skip_all "needs the server of a pair"
	exit "$KSFT_SKIP"
}

# The crafted peer of selftests/peer, which `make check` builds, and a kernel that lets it at the device.
need_peer() {
	peer=../../build/peer/release/peer
	if [ ! -x "$peer" ] || ! modprobe -a rdma_ucm ib_uverbs; then
		ktap_print_header
		ktap_set_plan 1
		ktap_test_fail "the crafted peer is built (\`make check-fast\` does) and may use the device"
		ktap_finished
	fi
	ulimit -l unlimited
}

# peer_cases SIDE: its cases against that side, or those that PEER names.
peer_cases() {
	read -r -a cases <<<"${PEER:-$("$peer" list "$1" | xargs)}"
	[ ${#cases[@]} -gt 0 ] && return
	ktap_print_header
	ktap_set_plan 1
	ktap_test_fail "there are cases"
	ktap_finished
}

# Runs a case of the crafted peer.
check_peer() {
	local limit=${PEER_LIMIT:-150}
	[ "$KERNEL" != debug ] || limit=$((4 * limit))
	check "$1" timeout "$limit" "$peer" run "$1"
}

# mount_nfs VERSION [OPTIONS [ADDRESS]]
mount_nfs() {
	local options=proto=rdma,port=$port,vers=$1,retry=0 address=${3:-$SERVER_ADDR} path=/
	[ "$1" = 3 ] && options+=,nolock path=/export
	# Soft iWARP overlooks a Call that comes while it still accepts the connection. 20 seconds then, not 60.
	[ "${RDMA:-}" = siw ] && options+=,timeo=200
	[[ $address == *:* ]] && address="[$address]" options=${options/rdma/rdma6}
	mount -t nfs -o "$options${2:+,$2}" "$address:$path" "$mnt"
}

# With a delegation what was written may be on its way long after the file is closed, and pages that are stay.
drop_caches() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# The module that is loaded: `rust` is ours, which has a version; the kernel's own has none.
loaded() {
	if [ -e /sys/module/rpcrdma/version ]; then echo rust; elif [ -e /sys/module/rpcrdma ]; then echo c; else echo none; fi
}

# Unloads the module, if it is loaded. sunrpc destroys a transport in a work item of its own, some time after its last mount is gone.
unload() {
	local left=60
	[ "$(loaded)" = none ] && return
	until rmmod rpcrdma 2>/dev/null; do
		[ $((left--)) -gt 0 ] || { rmmod rpcrdma; return 1; }
		sleep 0.5
	done
}

counters=(local_port bind_count connect_count connect_time idle_time sends recvs bad_xids req_u bklog_u
	read_chunks write_chunks reply_chunks total_rdma_request total_rdma_reply pullup_copy fixup_copy
	hardway_register failed_marshal bad_reply nomsg_call mrs_recycled mrs_orphaned mrs_allocated
	local_inv_needed empty_sendctx_q last)

# counter NAME: a number of the mount's transport.
counter() {
	local name values
	read -r -a values < <(awk -v at="on $mnt " 'index($0, at) { on = 1 } on && $1 == "xprt:" { print; exit }' \
		/proc/self/mountstats)
	for name in "${!counters[@]}"; do
		[ "${counters[name]}" = "$1" ] && echo "${values[name + 2]}"
	done
}

# counts NAME COMMAND...: runs a command and prints by how much it moved a counter.
counts() {
	local name=$1 before
	shift
	before=$(counter "$name")
	"$@" >/dev/null || return
	echo $(($(counter "$name") - before))
}

# xprts FILE: what sysfs says of each connection over RDMA.
xprts() { cat /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/"$1" 2>/dev/null; }

# Writing the server's address anew makes sunrpc drop the connection. Who waits there for a transport that is busy is not
# woken when it is idle, so is killed and asks again.
kick() {
	local file writer
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		while [ -e "$file" ]; do
			echo "$SERVER_ADDR" >"$file" &
			writer=$!
			sleep 0.3
			kill -KILL "$writer"
			wait "$writer" && break
		done 2>/dev/null
	done
	# The last may have gone meanwhile.
	return 0
}

# How often soft RoCE gave up a connection here, after packets that never arrived.
given_up() { dmesg | grep -c 'lost: transport retry counter exceeded'; }

# From now on no packet of RDMA arrives here; `hear` ends that.
go_deaf() {
	local packets="udp dport 4791"
	[ "$RDMA" != siw ] || packets="tcp sport $port"
	nft -f - <<-END
		table inet lost { chain in { type filter hook input priority 0; $packets drop; }; }
	END
}

hear() { nft delete table inet lost; }

# verified_io OPTION...: fio writes, and reads back what it wrote. The debug kernel, to which each byte is dear, gets a quarter
# of the size, but not less than 1M.
verified_io() {
	local options=() option size seed=$RANDOM
	for option; do
		if [[ $KERNEL = debug && $option =~ ^--size=([0-9]+)M$ ]]; then
			size=$((BASH_REMATCH[1] / 4))
			option=--size=$((size > 0 ? size : 1))M
		fi
		options+=("$option")
	done
	fio --name=verify --directory="$mnt" --rw=randwrite --bsrange=4k-1M --direct=1 \
		--verify=crc32c --verify_fatal=1 --randseed="$seed" --fallocate=none --unlink=1 "${options[@]}" >/tmp/fio.log 2>&1 ||
		{ echo "the seed is $seed"; cat /tmp/fio.log; return 1; }
}

# in_spite COMMAND...: verified I/O goes on for as long as the command takes, and both do well. `load` says more of the I/O.
in_spite() {
	local breaker io first status
	"$@" >/vm/breaker.log 2>&1 &
	breaker=$!
	io_beside "$breaker" >/vm/io.log 2>&1 &
	io=$!
	wait -n -p first "$breaker" "$io"
	status=$?
	if [ "$first" = "$breaker" ]; then
		# What it left broken the I/O might wait for, for ever.
		[ $status -eq 0 ] || pkill -KILL fio
		wait "$io" || status=1
	else
		[ $status -eq 0 ] || kill "$breaker"
		wait "$breaker" || status=$?
		# What it was about on the server is no child of ours.
		while pgrep -f vm/on-server >/dev/null; do sleep 0.5; done
	fi
	cat /vm/breaker.log /vm/io.log
	return $status
}

# io_beside PID: verified I/O until that process is gone.
io_beside() {
	# shellcheck disable=SC2154 # the test sets it
	while verified_io "${load[@]}"; do
		kill -0 "$1" 2>/dev/null || return 0
	done
	return 1
}

# random_file FILE BYTES
random_file() { head -c "$2" /dev/urandom >"$1"; }

# same_file NAME: the server holds the same bytes as the client sees with cold caches.
same_file() {
	local here there
	drop_caches
	here=$(sha256sum <"$mnt/$1") && there=$(on_server "sha256sum </export/$1") || return
	[ "$here" = "$there" ] || { echo "client $here, server $there"; return 1; }
}

# serves NAME MOUNT...: a file on what that command mounts is the same on both machines.
serves() {
	local status
	"${@:2}" && random_file "$mnt/$1" 300000 && same_file "$1"
	status=$?
	! mountpoint -q "$mnt" || umount "$mnt" || status=1
	return $status
}
