#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A call that cannot be repeated is executed, its reply is lost, and it is sent again over the next connection: the server knows it, and
# sends the reply that it has kept. Without that, mkdir(2) would fail with EEXIST, and rmdir(2) with ENOENT.
#
# LONG_FORMS=yes tries more operations, and NFSv4.0 and 4.1.

. ./lib.sh
need_pair

# Prints how often the reply cache of NFSv3 and 4.0 had the answer. NFSv4.1 keeps replies with the session.
cached() { on_server "awk '\$1 == \"rc\" { print \$2 }' /proc/net/rpc/nfsd"; }

# What the program does is one system call, as the directory's attributes and its own code are in the cache.
perform() {
	python3 - "$mnt/lost" "$2" /vm/performing "$1" <<-'END'
		import os, sys, time
		place, name, go, what = sys.argv[1:]
		path, other = f"{place}/{name}", f"{place}/{name}-other"
		call = {
		    "mkdir": lambda: os.mkdir(path),
		    "rmdir": lambda: os.rmdir(path),
		    "create": lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
		    "unlink": lambda: os.unlink(path),
		    "rename": lambda: os.rename(path, other),
		    "link": lambda: os.link(path, other),
		    "symlink": lambda: os.symlink("target", path),
		}[what]
		os.stat(place)
		if what in ("rmdir", "unlink", "rename", "link"):
		    os.stat(path)
		os.access(place, os.W_OK)
		open(go, "w").close()
		while os.path.exists(go):
		    time.sleep(0.02)
		call()
	END
}

# Whether the server has executed it.
executed() {
	local path=/export/lost/$2
	case $1 in
	mkdir) on_server "test -d $path" ;;
	create) on_server "test -e $path" ;;
	symlink) on_server "test -L $path" ;;
	rmdir | unlink) on_server "test ! -e $path" ;;
	rename | link) on_server "test -e $path-other" ;;
	esac
}

# The connection is closed, if the device has not closed it already, as nothing is acknowledged: while the client connects, which no
# packet answers, the writer would wait for the transport.
close_connection() {
	local file tenths
	for file in /sys/kernel/sunrpc/xprt-switches/*/xprt-*-rdma/dstaddr; do
		for tenths in 3 5 7; do
			timeout --signal=KILL "0.$tenths" sh -c "echo '$SERVER_ADDR' >'$file'" && break
		done 2>/dev/null
	done
}

# lost OPERATION NAME: what it needs is there. From when its call is sent until the connection is closed no packet arrives.
lost() {
	local worker status left=40 before
	before=$(counter connect_count)
	rm -f /vm/performing
	perform "$1" "$2" &
	worker=$!
	until [ -e /vm/performing ]; do sleep 0.1; kill -0 $worker || return; done
	drop_packets || return
	rm /vm/performing
	until executed "$1" "$2"; do
		sleep 0.1
		((--left)) || { echo "the server did not execute it"; pass_packets; wait $worker; return 1; }
	done
	kill -0 $worker || { echo "the reply came"; pass_packets; return 1; }
	close_connection
	pass_packets
	wait $worker
	status=$?
	echo "connections: $before before, $(counter connect_count) after"
	[ $status = 0 ] && executed "$1" "$2" && [ "$(counter connect_count)" -gt "$before" ]
}

operations=(mkdir rmdir rename)
! long_form || operations=(mkdir rmdir create unlink symlink rename link)
all() {
	local operation before status=0
	# The attributes in the cache stay valid, and there are no ACLs, so the client asks for nothing else first.
	mount_nfs "$1" "actimeo=600$([ "$1" != 3 ] || echo ,noacl)" && mkdir -p "$mnt/lost" || return
	before=$(cached)
	for operation in "${operations[@]}"; do
		case $operation in
		rmdir) mkdir "$mnt/lost/$operation-$1" ;;
		unlink | rename | link) : >"$mnt/lost/$operation-$1" ;;
		esac
		lost "$operation" "$operation-$1" || { echo "$operation"; status=1; }
	done
	umount "$mnt" || status=1
	case $1 in
	3 | 4.0)
		echo "the reply cache was used $(($(cached) - before)) times"
		[ "$(cached)" -gt "$before" ] || status=1
		;;
	esac
	return $status
}

versions=(3 4.2)
! long_form || versions=(3 4.0 4.1 4.2)
# The first packet filter loads modules, which takes long.
drop_packets && pass_packets
plan ${#versions[@]}
for version in "${versions[@]}"; do
	# Shows N-18.
	check "NFSv$version: each operation is executed once though its reply is lost" all "$version"
done
finish
