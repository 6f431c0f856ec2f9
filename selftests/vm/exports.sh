#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What depends on the exports of the server: ports that are not reserved, calls that wait for an answer of mountd, and a referral to a
# server that does not answer over RDMA.
#
# LONG_FORMS=yes tries the referral, which is to be followed over TCP in time.

. ./lib.sh
need_pair

third=10.0.0.13

# An export without `insecure` takes calls from reserved ports only. All calls over RDMA count as such.
# It is a file system of its own, as NFSv4 does not change to another export within one.
export_secure() {
	on_server "mkdir -p /export/secure && mount -t tmpfs tmpfs /export/secure && chmod 1777 /export/secure &&
		exportfs -o rw,no_root_squash,no_subtree_check,fsid=5 '*:/export/secure' && exportfs -v"
}
unexport_secure() { on_server "exportfs -u '*:/export/secure'; exportfs -f; umount /export/secure"; }
secure() {
	local path=/secure
	[ "$1" != 3 ] || path=/export/secure
	mount -t nfs -o "proto=rdma,port=$port,vers=$1,retry=0,nolock,$2" "$SERVER_ADDR:$path" "$mnt" || return
	random_file "$mnt/file-$1" 300000 && drop_file "$mnt/file-$1" && cmp "$mnt/file-$1" <(on_server "base64 /export/secure/file-$1" | base64 -d)
	local status=$?
	umount "$mnt" && return $status
}
secure_over_tcp() { not mount -t nfs -o proto=tcp,vers=3,nolock,noresvport,retry=0 "$SERVER_ADDR:/export/secure" "$mnt"; }

# nfsd has forgotten its exports, and mountd does not answer: calls wait, some without a thread. Each kind of chunk is among them. What
# nfsd drops is sent again after `timeo`.
# That a call waits twice is not tried: the answer would have to be forgotten before the call takes its second turn.
deferred() {
	local calls=() call status=0 before
	drop_caches
	on_server "pkill -STOP -x rpc.mountd && exportfs -f" || return
	dd if="$mnt/large" of=/vm/read bs=1M iflag=direct status=none &
	calls+=($!)
	dd if=/vm/true of="$mnt/written" bs=1M oflag=direct status=none &
	calls+=($!)
	(ls "$mnt/many" >/vm/listed) &
	calls+=($!)
	(ln -s "$target" "$mnt/link") &
	calls+=($!)
	dd if="$mnt/large" of=/vm/little bs=700 count=1 iflag=direct status=none &
	calls+=($!)
	mkdir "$mnt/made" &
	calls+=($!)
	sleep "$1"
	"${@:2}"
	on_server "pkill -CONT -x rpc.mountd"
	for call in "${calls[@]}"; do wait "$call" || status=1; done
	cmp /vm/read /vm/true && cmp /vm/little <(head -c 700 /vm/true) && [ "$(wc -l </vm/listed)" = 300 ] && [ -d "$mnt/made" ] &&
		[ "$(readlink "$mnt/link")" = "$target" ] && same_file written || status=1
	rm -f "$mnt/link" "$mnt/written" && rmdir "$mnt/made"
	return $status
}
target=$(printf '%03000d' 0)
prepare() {
	mount_nfs 3 timeo=60 && random_file /vm/true 1048576 && cp /vm/true "$mnt/large" && mkdir "$mnt/many" || return
	# shellcheck disable=SC2016 # the server expands it
	on_server 'for i in {1..300}; do printf -v name %0100d $i; : >/export/many/$name; done' && sync
}
# The connection is gone when they are executed.
break_connection() { drop_connection; sleep 1; }
restart_threads() { on_server "$scripts/vm/nfs-server stop; rpc.nfsd --nfs-version 4.0 --rdma=$port 4"; }

# The client asks for a referred server over RDMA first, and over TCP when that leads to nothing. docs/troubleshooting.md says how long it
# tries: 45 s over RoCE, 10 s over iWARP. A slow machine has a bit more.
referral() {
	local start status most=20
	[ "$RDMA" != rxe ] || most=60
	on_server "ip address add $third/24 dev eth0 && mkdir -p /export/refer /export/there && echo found >/export/there/file
		mount --bind /export/refer /export/refer
		exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=7,refer=/there@$third '*:/export/refer'
		nft 'add table inet refer; add chain inet refer in { type filter hook input priority 0; }; add rule inet refer in ip daddr $third $packets drop'" || return
	mount_nfs 4.2
	start=$SECONDS
	timeout 300 cat "$mnt/refer/file" && grep "$mnt/refer .*proto=" /proc/mounts
	status=$?
	echo "# the referral took $((SECONDS - start)) s of $most s" >&3
	[ $((SECONDS - start)) -le $most ] || status=1
	umount "$mnt/refer"
	umount "$mnt" || status=1
	on_server "nft delete table inet refer; exportfs -u '*:/export/refer'; exportfs -f; umount /export/refer; ip address del $third/24 dev eth0"
	return $status
}
case $RDMA in rxe) packets="udp dport 4791" ;; iwarp-sctp) packets="sctp dport $port" ;; *) packets="tcp dport $port" ;; esac

exec 3>&1
plan $((6 + $(long_form && echo 2 || echo 0)))
check "an export without 'insecure'" export_secure
check "it refuses ports that are not reserved, over TCP" secure_over_tcp
# mountd, which is asked over TCP, wants a reserved port, too.
check "NFSv3 over RDMA works there" secure 3 resvport
check "NFSv4.2 over RDMA works there" secure 4.2 noresvport
unexport_secure
prepare || exit
check "calls of each kind wait for mountd" deferred 7 true
check "calls wait for mountd, and the connection breaks" deferred 7 break_connection
if long_form; then
	check "calls wait for mountd, and nfsd starts again" deferred 7 restart_threads
	umount "$mnt"
	check "a referral to a server that does not answer over RDMA is followed over TCP" referral
fi
finish
