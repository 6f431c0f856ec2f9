#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Kerberos: authentication, integrity, privacy. With the latter two no argument or result is DDP-eligible.

. ./lib.sh
. ./events.sh
need_pair

# Mounts by name, because a ticket is for a name. The root user of the client uses the key of the machine.
mounts() { mount_nfs 4.2 "sec=$1" server.rpcrdma.test && grep " $mnt nfs" /proc/mounts | grep "proto=rdma.*sec=$1,"; }

# One RPC at a time: with several READs at once sunrpc itself now and then finds a wrong checksum under krb5i, over TCP as well.
works() { mountpoint -q "$mnt" && verified_io --size=2M --bsrange=4k-128k && random_file "$mnt/$1" 300000 && same_file "$1"; }

# RFC 8166, section 8.2.2.1.
over_tcp() { mount -t nfs -o proto=tcp,vers=4.2,sec=krb5,retry=0 "server.rpcrdma.test:/" "$mnt" && umount "$mnt"; }

# Prints how many calls the server refused because of their credentials.
denied() { on_server "awk '/^rpc / { print \$5 }' /proc/net/rpc/nfsd"; }

# nfsd and rpc.svcgssd are not started again here: with nfsd anew, calls fail with EPERM, with the in-tree module on both sides as well. What
# is left of that is a server without contexts, and a new connection.
#
# The server forgets all contexts a few times, at last when the connection has gone, too.
forget_contexts() {
	for _ in 1 2; do
		sleep 1
		on_server "echo 1 >/proc/net/rpc/auth.rpcsec.context/flush" || return
	done
	drop_connection
}

# Calls that come with such a context are refused, and sent again with another one.
contexts_are_lost() {
	local before after load=(--size=1M --bsrange=4k-128k)
	mountpoint -q "$mnt" || return
	before=$(denied)
	during_io forget_contexts || return
	after=$(denied)
	echo "refused calls: $before before, $after after"
	[ "$after" -gt "$before" ]
}

# Direct I/O, because the page cache may keep a page that it should drop.
write_chunks() {
	local by
	mountpoint -q "$mnt" && random_file "$mnt/ticket" 262144 || return
	by=$(counts write_chunks dd if="$mnt/ticket" of=/dev/null bs=262144 count=1 iflag=direct status=none) || return
	echo "write_chunks increased by $by"
	test "$by" "$1" 0
}

# messages LENGTH: sets the inline thresholds of the next mount.
messages() {
	echo "$1" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$1" >/proc/sys/sunrpc/rdma_max_inline_write
}

# Reads results that are shorter and longer than the longest that needs no Reply chunk. The client has to count what the flavour adds.
every_length() {
	local by
	mounts "$1" && by=$(counts reply_chunks python3 - "$mnt/lengths" <<-END
		import mmap, os, sys
		true, buffer = os.urandom(1100), mmap.mmap(-1, 4096)
		with open(sys.argv[1], "wb") as file:
		    file.write(true)
		file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		for length in range(401, 1101, 3):
		    read = os.preadv(file, [memoryview(buffer)[:length]], 0)
		    assert read == length and buffer[:length] == true[:length], f"{read} of {length} bytes"
	END
	) || return
	echo "reply_chunks increased by $by"
	[ "$by" -gt 0 ] && [ "$by" -lt 234 ]
}

# Only the packets of rxe are altered: where they are in an iWARP stream, nobody can tell before.
can_alter() { [ "$RDMA" = rxe ]; }

# alter OPCODE: changes bit 0 of byte 1,000 in each packet with that opcode that leaves this machine, and the ICRC, the packet's
# checksum, to match. A packet has 12 bytes of header, 4,096 of payload and the ICRC.
alter() {
	local icrc
	icrc=$(python3 -c 'if 1:
		from zlib import crc32
		change = crc32(bytes(4108)) ^ crc32(bytes(1000) + b"\1" + bytes(3107))
		print(int.from_bytes(change.to_bytes(4, "little"), "big"))')
	nft -f - <<-END
		table inet altered { chain out { type filter hook output priority 0;
			udp dport 4791 udp length 4120 @ih,0,8 $1 @ih,8000,8 set @ih,8000,8 ^ 1 @ih,32864,32 set @ih,32864,32 ^ $icrc
		}; }
	END
}

# Packets in the middle of an RDMA Write, and of the response to an RDMA Read.
write_middle=7 read_middle=14

# Reads the file `true` to /vm/read while replies are altered. The status is 1 if dd gets an error. Direct I/O, because with the page
# cache the client would try again page by page, and those replies are too short to be altered.
read_altered() {
	local status
	drop_caches
	on_server "$(declare -f alter); alter $write_middle" || return 3
	timeout 60 dd if="$mnt/true" of=/vm/read bs=300000 iflag=direct status=none
	status=$?
	on_server nft delete table inet altered
	return "$status"
}

# Writes the same data to the file `altered` while Calls are altered.
write_altered() {
	local status
	alter $read_middle || return 3
	timeout 60 dd if=/vm/true of="$mnt/altered" bs=300000 conv=fsync status=none
	status=$?
	nft delete table inet altered
	return "$status"
}

# fails COMMAND...: the command fails with status 1, not because it takes too long or could not be tried.
fails() {
	local status=0
	"$@" || status=$?
	[ "$status" -eq 1 ] || { echo "$*: status $status"; return 1; }
}

# A reader or writer that notices the alteration gets an error, and no altered byte is taken.
reply_is_refused() { fails read_altered && cmp -n "$(stat -c %s /vm/read)" /vm/read /vm/true; }
call_is_refused() { fails write_altered && on_server "test -e /export/altered && test ! -s /export/altered"; }
reply_is_taken() { read_altered && ! cmp -s /vm/read /vm/true; }
call_is_taken() { write_altered && ! on_server "cat /export/altered" | cmp -s - /vm/true; }

# altered taken|refused: says what must happen to a Call, and to a reply, that were altered on the way.
altered() {
	mountpoint -q "$mnt" && random_file /vm/true 300000 && cp /vm/true "$mnt/true" && "reply_is_$1" && "call_is_$1"
}

# Each of these calls takes several memory regions, so that few have a credit before there are more regions.
grows() {
	local before
	before=$(counter mrs_allocated)
	verified_io --numjobs=8 --size=512k --bsrange=128k-128k || return
	echo "memory regions: $before before, $(counter mrs_allocated) after"
	[ "$(counter mrs_allocated)" -gt "$before" ]
}

# The time for a reply is over while the server's file system lets nobody write. sunrpc encrypts the WRITE once more, into other pages.
# The mount uses NFSv3, because sunrpc does not encrypt a call of NFSv4 again before the connection is closed. The status is 2 if it did
# not here: on a busy machine the connection may be closed first.
outlasts() {
	local writer before after status=0
	export_freezable sec=krb5p || return
	mount -t nfs -o "proto=rdma,port=$port,vers=3,nolock,sec=krb5p,timeo=30" server.rpcrdma.test:/export/frozen "$mnt" || return
	random_file /vm/true 1048576 && touch "$mnt/slow" || return
	before=$(counter local_inv_needed)
	on_server "fsfreeze -f /export/frozen"
	dd if=/vm/true of="$mnt/slow" bs=256k oflag=direct conv=notrunc status=none &
	writer=$!
	sleep 10
	after=$(counter local_inv_needed)
	on_server "fsfreeze -u /export/frozen"
	wait $writer && drop_file "$mnt/slow" && cmp /vm/true "$mnt/slow" || status=1
	umount "$mnt" || status=1
	unexport_freezable || status=1
	echo "$before invalidations before, $after after"
	dmesg | grep 'no reply in time' || status=1
	[ $status -ne 0 ] || [ "$after" -gt "$before" ] || status=2
	return $status
}
outlasts_once() {
	local tries=3 status
	until outlasts; do
		status=$?
		[ $status -eq 2 ] && ((--tries)) || return $status
	done
}

plan $((21 + $(can_alter && echo 3 || echo 0)))
check "the server gets a realm" on_server "$scripts/vm/kerberos server"
check "the client joins it" "$scripts/vm/kerberos" client
for flavour in krb5 krb5i krb5p; do
	# Shows S8.1.1-02.
	check "$flavour mounts" mounts "$flavour"
	# Shows S8.2.2.3-03.
	check "$flavour works" works "$flavour"
	check "$flavour goes on when the server has lost its contexts" contexts_are_lost
	case $flavour in
	krb5)
		# Shows S8.2.2.2-01.
		check "$flavour reduces messages" write_chunks -gt
		! can_alter || check "$flavour does not notice what was altered on the way" altered taken
		;;
	*)
		# Shows S8.2.2.3-01, N-19.
		check "$flavour reduces no message" write_chunks -eq
		if [ $flavour = krb5p ]; then
			record_events here xprtrdma_nomrs_err || exit
			check "$flavour: a connection grows" grows
			end_events here
			check "xprtrdma_nomrs_err" event_came here xprtrdma_nomrs_err "task:[0-9a-f]{8}@[0-9a-f]{8} peer=\\[$SERVER_ADDR\\]:$port"
		fi
		# Shows S8.2.2.3-04, SEC-28.
		! can_alter || check "$flavour refuses what was altered on the way" altered refused
		umount "$mnt"
		usual=$(</proc/sys/sunrpc/rdma_max_inline_read)
		messages 1024
		# Shows S8.2.2.2-02.
		check "$flavour counts what it adds to a result" every_length "$flavour"
		messages "$usual"
		;;
	esac
	umount "$mnt"
done
check "krb5p outlasts a server that is slower than the time-out" outlasts_once
# Shows S8.2.2.1-01.
check "a mount over TCP works with the same ticket" over_tcp
check "the module unloads" unload
finish
