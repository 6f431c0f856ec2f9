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

# Sets `tainted` to the flags that the kernel sets when it reports a fault: a machine check, a bad page, an Oops, a warning, a lockup.
read_tainted() {
	read -r tainted </proc/sys/kernel/tainted
	tainted=$((tainted & (1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14)))
}
read_tainted

plan() {
	ktap_print_header
	ktap_set_plan $(($1 + 1))
}

# check DESCRIPTION COMMAND...: runs a command and reports a test result, after the output of a command that failed. It fails, too, if
# this machine's kernel reports a fault meanwhile; `finish` looks for those of the server. The file `times` of the run gets the time.
# The command sees the variables of this function before those of its file, so their names are such as no file has.
check() {
	local check_of=$1 check_output check_began=$EPOCHREALTIME check_status=0 check_took check_tainted=$tainted
	shift
	check_output=$("$@" 2>&1) || check_status=$?
	read_tainted
	if [ "$tainted" != "$check_tainted" ]; then check_output+=$'\nthe kernel reports a fault, see its log' check_status=1; fi
	check_took=$(((${EPOCHREALTIME/./} - ${check_began/./}) / 1000))
	echo "${0##*/} $check_took ms: $check_of" >>/vm/times
	if [ "$check_status" -eq 0 ]; then
		ktap_test_pass "$check_of"
	else
		[ -z "$check_output" ] || printf '# %s\n' "${check_output//$'\n'/$'\n# '}"
		echo "# after $((check_took / 1000)) s"
		ktap_test_fail "$check_of"
	fi
}

# skip DESCRIPTION REASON: what this kernel cannot show, and another one does.
skip() { ktap_test_skip "$1: $2"; }

# `finish` looks for faults in what the kernels log from here on.
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
	echo "# ${0##*/} took $SECONDS s of ${kselftest_timeout:-0} s"
	ktap_finished
}

not() { ! "$@"; }

# Whether this run has the time for the long form of a test, as `make check-all` has.
long_form() { [ -n "${LONG_FORMS:-}" ]; }

# Whether it has time for the short form only, where a test has one, as `make check` has.
short_form() { [ -n "${SHORT_FORMS:-}" ] && ! long_form; }

on_server() { "$scripts/vm/on-server" "$@"; }
restart_server() { on_server "$scripts/vm/nfs-server stop; $scripts/vm/nfs-server start"; }

need_pair() {
	clear_logs
	[ -n "${SERVER_ADDR:-}" ] || cannot_run "this test needs the server of a pair of VMs"
}

# has_layer DIRECTORY: puts the programs that selftests/suites unpacked there over the roots of both machines.
has_layer() {
	local over="mountpoint -q /usr || { [ ! -d $1/etc ] || cp -a $1/etc/. /etc; mount -t overlay -o lowerdir=$1/usr:/usr layer /usr; }"
	[ -e "$1.from" ] && eval "$over" && on_server "$over"
}

# cannot_run REASON: ends the test. What cannot run has failed.
cannot_run() {
	ktap_print_header
	ktap_set_plan 1
	ktap_test_fail "$1"
	ktap_finished
}

# The server gives no delegation before lockd's grace period is over.
wait_for_grace_period() {
	# shellcheck disable=SC2016 # the server expands it
	on_server 'until [ "$(cut -d. -f1 /proc/uptime)" -ge "$(</run/lockd-grace-ends)" ]; do sleep 0.2; done'
}

# Where scripts/programs.sh puts what it builds for this machine.
test_programs=../../build/cargo/$(uname -m)-unknown-linux-gnu/release

# The test needs the crafted peer of selftests/peer, which scripts/programs.sh builds, and the kernel's interface for verbs of user space.
need_peer() {
	peer=$test_programs/peer
	if [ ! -x "$peer" ] || ! modprobe -a rdma_ucm ib_uverbs; then
		cannot_run "the crafted peer is built (\`scripts/enter scripts/programs.sh\` does) and may use the device"
	fi
	ulimit -l unlimited
}

# peer_cases SIDE: sets `cases` to the cases against that side, or to those that PEER names.
peer_cases() {
	read -r -a cases <<<"${PEER:-$("$peer" list "$1" | xargs)}"
	[ ${#cases[@]} -gt 0 ] || cannot_run "the crafted peer has cases against the $1"
}

# check_peer NAME: runs a case of the crafted peer.
check_peer() {
	local limit=${PEER_LIMIT:-150}
	[[ $KERNEL != *debug ]] || limit=$((4 * limit))
	check "$1" timeout "$limit" "$peer" run "$1"
}

# mount_nfs VERSION [OPTIONS [ADDRESS]]
mount_nfs() {
	local options=proto=rdma,port=$port,vers=$1,retry=0 address=${3:-$SERVER_ADDR} path=/
	[ "$1" = 3 ] && options+=,nolock path=/export
	# siw loses a Call that arrives while it still accepts the connection. The Call is then retransmitted after 20 seconds, not 60.
	[ "${RDMA:-}" = siw ] && options+=,timeo=200
	[[ $address == *:* ]] && address="[$address]" options=${options/rdma/rdma6}
	mount -t nfs -o "$options${2:+,$2}" "$address:$path" "$mnt"
}

# With a delegation, data may be written back long after the file is closed, and pages that are being written stay in the cache.
drop_caches() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# drop_file FILE: drops the data of one file. The programs of this machine stay in the page cache, so what follows is faster.
drop_file() { sync "$1" && dd if="$1" iflag=nocache count=0 status=none; }

# goes_in_use ADDRESS [TIMEO]: the device goes, as the test's `delete` has it, and comes back with `add`, while a mount is written to.
goes_in_use() {
	local writer
	mount_nfs 3 "soft,timeo=${2:-50},retrans=1" "$1" || return
	dd if=/dev/zero of="$mnt/zeroes" bs=64k count=200 conv=fsync status=none &
	writer=$!
	sleep 0.3
	delete || return
	add || return
	# Where it was cut off does not matter: it ends.
	timeout 120 tail --pid="$writer" -f /dev/null && timeout 60 umount -f "$mnt"
}

# The device of a pair, which tests after this one need, goes with its module.
restore_device() {
	[ -z "${SERVER_ADDR:-}" ] || rdma link show "$RDMA_DEVICE/1" >/dev/null 2>&1 || rdma link add "$RDMA_DEVICE" type "$RDMA" netdev eth0
}

# Prints which module is loaded: `rust` is this module, which has a version; `c` is the in-tree module, which has none.
loaded() {
	if [ -e /sys/module/rpcrdma/version ]; then echo rust; elif [ -e /sys/module/rpcrdma ]; then echo c; else echo none; fi
}

# Unloads the module, if it is loaded. sunrpc destroys a transport in a work item, some time after its last mount is gone.
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

# counter NAME: prints a counter of the mount's transport.
counter() {
	local name values
	read -r -a values < <(awk -v at="on $mnt " 'index($0, at) { on = 1 } on && $1 == "xprt:" { print; exit }' \
		/proc/self/mountstats)
	for name in "${!counters[@]}"; do
		[ "${counters[name]}" = "$1" ] && echo "${values[name + 2]}"
	done
}

# counts NAME COMMAND...: runs a command and prints by how much it increased a counter.
counts() {
	local name=$1 before
	shift
	before=$(counter "$name")
	"$@" >/dev/null || return
	echo $(($(counter "$name") - before))
}

# xprts FILE: prints that sysfs file of each transport over RDMA.
xprts() { cat /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/"$1" 2>/dev/null; }

# Writes the server's address to sysfs, which makes sunrpc drop the connection. A writer that waits for a busy transport is not woken
# when the transport is idle, so it is killed, and a new one tries again.
# Each has longer than the one before, as a machine may be too slow for the first ones.
drop_connection() {
	local file tenths
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		tenths=3
		while [ -e "$file" ]; do
			timeout --signal=KILL "$((tenths / 10)).$((tenths++ % 10))" sh -c "echo '$SERVER_ADDR' >'$file'" && break
		done 2>/dev/null
	done
	# The last file may have been removed meanwhile.
	return 0
}

# Prints how many connections rxe ended, on either machine, because packets were not acknowledged. The log of a module may say only
# that a work request was flushed, as each of two completion queues has its CPU.
retries_exceeded() {
	local count="cat /sys/class/infiniband/*/ports/1/hw_counters/retry_exceeded_err 2>/dev/null || echo 0"
	echo $(($(eval "$count") + $(on_server "$count")))
}

# Follows the mount's one connection: sets `connects` to how often it was made, `local_port` and `pair` to its port and to the numbers of
# its queue pair here and on the server, and `given_up` to what the log has of earlier ones.
follow_connection() {
	connects=$(counter connect_count) local_port=$(counter local_port) given_up=$(given_up_here)
	pair=$(rdma resource show qp link "$RDMA_DEVICE/1" | grep -v ' pid ' | sed -n 's/.* lqpn \([0-9]*\) .*rqpn \([0-9]*\) .*type RC .*state RTS.*/\1 \2/p')
}
given_up_here() { dmesg | grep -c 'lost: transport retry counter exceeded'; }

# Whether a log says of the connection that is followed that rxe gave it up, because packets of it were not acknowledged. Other
# connections of this machine are of processes, of which this module's log has nothing.
rxe_gave_up() {
	local here there
	[ "$RDMA" = rxe ] || return
	[ "$(given_up_here)" -eq "$given_up" ] || { echo "the log here says so"; return 0; }
	! on_server "dmesg | grep 'connection of $CLIENT_ADDR:$local_port lost: transport retry counter exceeded'" || return 0
	[ "$(wc -w <<<"$pair")" = 2 ] && read -r here there <<<"$pair" || return
	dmesg | grep "qp#$here .*non-flush error status = 12" || on_server "dmesg | grep 'qp#$there .*non-flush error status = 12'"
}

# Follows the next connection if rxe gave up this one, as it does on a machine that is too slow. For whatever else it was lost, `connects`
# is not the mount's connect_count any more.
excuse_rxe() {
	local found
	if [ "$(counter connect_count)" = $((connects + 1)) ] && found=$(rxe_gave_up); then
		echo "# rxe gave up connection $connects of the mount, at port $local_port: $found"
		follow_connection
	fi
}

# Drops all RDMA packets that arrive at this machine, until `pass_packets`.
drop_packets() { drop_packets_at input; }

# drop_packets_at HOOK: those that arrive at this machine (input), or that it forwards (forward).
drop_packets_at() {
	local packets="udp dport 4791"
	case $RDMA in rxe) ;; iwarp-sctp) packets="sctp sport $port" ;; *) packets="tcp sport $port" ;; esac
	nft -f - <<-END
		table inet lost { chain in { type filter hook $1 priority 0; $packets drop; }; }
	END
}

pass_packets() { nft delete table inet lost; }

# export_freezable OPTION: the server exports /export/frozen, a file system in memory that `fsfreeze -f` there stops, with that option.
export_freezable() {
	on_server "set -e
		modprobe brd rd_nr=1 rd_size=32768
		mkfs.ext4 -q /dev/ram0
		mkdir -p /export/frozen
		mount /dev/ram0 /export/frozen
		chmod 1777 /export/frozen
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,$1 '*:/export/frozen'"
}

unexport_freezable() { on_server "exportfs -u '*:/export/frozen'; exportfs -f; for _ in {1..40}; do umount /export/frozen && break; sleep 0.5; done; rmmod brd"; }

# verified_io OPTION...: fio writes, and reads back what it wrote. On the debug kernel, which is slow, the size is a quarter of it, but
# not less than 1M. The array `place` says where to. The names of its files are new ones: those that a killed fio has left may be those of
# another user, who alone may remove them.
place=("--directory=$mnt")
verified_io() {
	local options=() option size seed=$SRANDOM status
	for option; do
		if [[ $KERNEL = *debug && $option =~ ^--size=([0-9]+)M$ ]]; then
			size=$((BASH_REMATCH[1] / 4))
			option=--size=$((size > 0 ? size : 1))M
		fi
		options+=("$option")
	done
	fio --name="verify-$seed" "${place[@]}" --rw=randwrite --bsrange=4k-1M --direct=1 --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 --randseed="$seed" --fallocate=none --unlink=1 "${options[@]}" >"/tmp/fio-$seed" 2>"/tmp/fio-$seed.errors"
	status=$?
	[ $status -eq 0 ] || { echo "the seed is $seed, fio's status $status"; cat "/tmp/fio-$seed.errors"; grep -E 'err= *[1-9]' "/tmp/fio-$seed"; }
	rm -f "/tmp/fio-$seed" "/tmp/fio-$seed.errors"
	return $status
}

# during_io COMMAND...: runs the command during verified I/O; both must succeed. The array `load` has options for the I/O.
during_io() {
	local action io first status
	"$@" >/vm/action.log 2>&1 &
	action=$!
	io_until_gone "$action" >/vm/io.log 2>&1 &
	io=$!
	wait -n -p first "$action" "$io"
	status=$?
	if [ "$first" = "$action" ]; then
		# The I/O could wait for ever for what the command left broken.
		[ $status -eq 0 ] || pkill -KILL fio
		wait "$io" || status=1
	else
		[ $status -eq 0 ] || kill "$action"
		wait "$action" || status=$?
		# The command that it runs on the server is no child of this shell.
		while pgrep -f vm/on-server >/dev/null; do sleep 0.5; done
	fi
	cat /vm/action.log /vm/io.log
	return $status
}

# io_until_gone PID: repeats verified I/O until that process has ended.
io_until_gone() {
	# shellcheck disable=SC2154 # the test sets it
	while verified_io "${load[@]}"; do
		kill -0 "$1" 2>/dev/null || return 0
	done
	return 1
}

# random_file FILE BYTES
random_file() { head -c "$2" /dev/urandom >"$1"; }

# same_file NAME: the file has the same bytes on the server as on the client, which reads it with cold caches.
same_file() {
	local here there
	drop_file "$mnt/$1" || return
	here=$(sha256sum <"$mnt/$1") && there=$(on_server "sha256sum </export/$1") || return
	[ "$here" = "$there" ] || { echo "client $here, server $there"; return 1; }
}

# serves NAME MOUNT...: mounts with that command; a new file there has the same bytes on both machines.
serves() {
	local status
	"${@:2}" && random_file "$mnt/$1" 300000 && same_file "$1"
	status=$?
	! mountpoint -q "$mnt" || umount "$mnt" || status=1
	return $status
}
