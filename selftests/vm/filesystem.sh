#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The server exports ext4 on a disk in memory, as its results are other pages than those of a tmpfs: what nfsd reads into its own pages,
# with its page cache, past it, and with direct I/O, READs and WRITEs of every length and offset; and locks of NFSv3.
#
# LONG_FORMS=yes tries each offset, both versions, and a server that takes 4 MiB.

. ./lib.sh
need_pair

debug=/sys/kernel/debug/nfsd

# mounts VERSION [OPTIONS]: that file system.
mounts() {
	local path=/frozen
	[ "$1" != 3 ] || path=/export/frozen
	mount -t nfs -o "proto=rdma,port=$port,vers=$1,retry=0${2:+,$2}" "$SERVER_ADDR:$path" "$mnt"
}

# Direct I/O of each length from offsets of every alignment; what is read is compared with what was written, on the server as well.
every_length() {
	python3 - "$mnt/lengths" $offsets <<-'END'
		import mmap, os, random, sys
		size = 1 << 21
		true, buffer = bytearray(random.randbytes(size)), mmap.mmap(-1, size)
		file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
		buffer[:] = bytes(true)
		assert os.pwritev(file, [buffer], 0) == size
		lengths = [*range(1, 18), 511, 512, 513, 4092, 4093, 4095, 4096, 4097, 8191, 8193, 65535, 65537, 262145, 1 << 20]
		for length in lengths:
		    for offset in random.sample((0, 1, 511, 512, 4095, 4096, 5003, 12288 + random.randrange(4096)), int(sys.argv[2])):
		        got = os.preadv(file, [memoryview(buffer)[:length]], offset)
		        assert got == length and buffer[:length] == true[offset : offset + length], f"READ of {length} at {offset}"
		    offset = random.choice((0, 3, 512, 4096, 12288 + random.randrange(4096)))
		    data = random.randbytes(length)
		    buffer[:length] = data
		    assert os.pwritev(file, [memoryview(buffer)[:length]], offset) == length
		    true[offset : offset + length] = data
		# Past the end.
		assert os.preadv(file, [memoryview(buffer)[:65536]], size - 1000) == 1000 and buffer[:1000] == true[-1000:]
		got = os.preadv(file, [buffer], 0)
		assert got == size and buffer[:] == true, "the whole file"
	END
	local status=$?
	[ $status = 0 ] && same_file_there lengths
}
same_file_there() {
	local here there
	drop_file "$mnt/$1" || return
	here=$(sha256sum <"$mnt/$1") && there=$(on_server "sync; echo 3 >/proc/sys/vm/drop_caches; sha256sum </export/frozen/$1") || return
	[ "$here" = "$there" ] || { echo "client $here, server $there"; return 1; }
}

# with_nfsd DISABLE_SPLICE READ WRITE: how nfsd reads and writes: 0 with its page cache, 1 and drops pages from it, 2 past it.
with_nfsd() { on_server "cd $debug && echo $1 >disable-splice-read && echo $2 >io_cache_read && echo $3 >io_cache_write"; }
# reads_and_writes VERSION WITH_NFSD...: of a long form both versions.
reads_and_writes() {
	local versions=("$1") version status=0
	with_nfsd "${@:2}" || return
	if long_form; then versions=(3 4.2); fi
	for version in "${versions[@]}"; do
		mounts "$version" nolock && every_length && verified_io --size=1M --bsrange=512-1M || status=1
		umount "$mnt" || status=1
		[ $status = 0 ] || { echo "NFSv$version"; break; }
	done
	return $status
}

# The server takes 4 MiB. The client's requests are 1 MiB all the same; longer ones are those of the crafted peer (peer.sh).
four_mib() {
	local status=0
	on_server "cat /proc/fs/nfsd/max_block_size >/run/max_block_size; $scripts/vm/nfs-server stop
		echo 4194304 >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start; grep -x 4194304 /proc/fs/nfsd/max_block_size" || status=1
	mounts 3 nolock,rsize=4194304,wsize=4194304 && grep -o "$mnt .*rsize=[0-9]*,wsize=[0-9]*" /proc/mounts || return
	random_file /vm/true 8388608
	dd if=/vm/true of="$mnt/large" bs=4M oflag=direct status=none && dd if="$mnt/large" bs=4M iflag=direct status=none | cmp - /vm/true &&
		same_file_there large || status=1
	rm -f "$mnt/large"
	umount "$mnt" || status=1
	on_server "$scripts/vm/nfs-server stop; cat /run/max_block_size >/proc/fs/nfsd/max_block_size; $scripts/vm/nfs-server start"
	return $status
}

# NFSv3 has locks by a protocol of its own, over TCP.
lock_daemons() {
	mkdir -p /run/rpc_pipefs /var/lib/nfs/sm /var/lib/nfs/sm.bak
	{ pgrep -x rpcbind >/dev/null || rpcbind; } && { pgrep -x rpc.statd >/dev/null || rpc.statd --no-notify; }
}
lock_mounts() { mounts 3 && grep " $mnt nfs.*local_lock=none" /proc/mounts; }
start_lock_daemons() {
	lock_daemons >/vm/statd.log 2>&1 3>&- 4>&- || { cat /vm/statd.log; return 1; }
	on_server "$(declare -f lock_daemons); lock_daemons >/dev/null 2>&1"
}
# locked [server] FILE: whether somebody else has it.
free_here() { python3 "${lock[@]}" "$mnt/$1" try; }
free_there() { on_server "python3 -c '$lock_text' /export/frozen/$1 try"; }
lock_text='import fcntl, os, sys, time
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[2] == "try" else 0))
except BlockingIOError:
    sys.exit(1)
end = time.monotonic() + (float(sys.argv[3]) if len(sys.argv) > 3 else 0)
while time.monotonic() < end and not os.path.exists("/tmp/release"):
    time.sleep(0.1)'
lock=(-c "$lock_text")
# hold FILE SECONDS: in the background; sets `holder`.
hold() {
	python3 "${lock[@]}" "$mnt/$1" wait "$2" &
	holder=$!
	local left=50
	while free_there "$1"; do sleep 0.1; ((--left)) || return; done
}
locks() {
	: >"$mnt/lock" && free_here lock && hold lock 60 || return
	not free_there lock || return
	kill "$holder"
	wait "$holder" 2>/dev/null
	free_there lock
}
# The server holds it; a client that waits gets it when that is over.
waits_for_lock() {
	local waiter
	on_server "rm -f /tmp/release; python3 -c '$lock_text' /export/frozen/lock wait 600 >/dev/null 2>&1 &"
	local left=50
	until not free_here lock; do
		sleep 0.1
		((--left)) || { on_server "touch /tmp/release"; return 1; }
	done
	python3 "${lock[@]}" "$mnt/lock" wait &
	waiter=$!
	sleep 1
	kill -0 $waiter || { echo "it did not wait"; waiter=; }
	on_server "touch /tmp/release"
	[ -n "$waiter" ] && timeout 60 tail --pid=$waiter -f /dev/null && wait $waiter
}
outlives_connection() {
	hold lock 60 && drop_connection && sleep 1 && stat "$mnt/." >/dev/null && not free_there lock
	local status=$?
	kill "$holder"
	wait "$holder" 2>/dev/null
	umount "$mnt" && return $status
}

offsets=2
! long_form || offsets=8
plan $((8 + $(long_form && echo 1 || echo 0)))
export_freezable sec=sys || exit
on_server "test -e $debug/io_cache_write" || cannot_run "nfsd can do direct I/O"
check "as it is by default" reads_and_writes 3 0 0 0
check "nfsd reads into its own pages" reads_and_writes 4.2 1 0 0
check "nfsd drops what it has read and written from its cache" reads_and_writes 3 1 1 1
check "nfsd does direct I/O" reads_and_writes 4.2 1 2 2
with_nfsd 0 0 0
if long_form; then check "a server that takes 4 MiB" four_mib; fi
wait_for_grace_period
check "NFSv3 mounts with locks" eval 'start_lock_daemons && lock_mounts'
check "NFSv3: a lock keeps the server's processes out, until its process dies" locks
check "NFSv3: a process that waits gets a lock that the server's process gives up" waits_for_lock
check "NFSv3: a lock outlives its connection" outlives_connection
unexport_freezable
finish
