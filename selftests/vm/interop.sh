#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# One column of `make interop`: every NFS version, with sys over IPv4 and IPv6 and krb5p over IPv4, between the modules that
# this pair of VMs has loaded. A cell is one test: verified I/O, a tree copied and compared, a lock, a delegation recalled.

. ./lib.sh
need_pair

event=/sys/kernel/tracing/events/nfs4/nfs4_cb_recall

tree() {
	cp -r /src/selftests/vm "$mnt/tree" && drop_caches && diff -r /src/selftests/vm "$mnt/tree" && rm -r "$mnt/tree"
}

# Held by one process, refused to another.
locks() {
	touch "$mnt/lock" && flock "$mnt/lock" bash -c "! flock -n '$mnt/lock' true" && flock -n "$mnt/lock" true || return
	# The next one may be another user to the server.
	rm "$mnt/lock"
}

recalled() {
	local held before name=delegated-$RANDOM
	random_file "$mnt/$name" 5000 && drop_caches || return
	before=$(grep -c nfs4_cb_recall: /sys/kernel/tracing/trace)
	exec {held}<"$mnt/$name"
	cat <&"$held" >/dev/null
	on_server "echo more >>/export/$name"
	exec {held}<&-
	[ "$(grep -c nfs4_cb_recall: /sys/kernel/tracing/trace)" -gt "$before" ]
}

# cell VERSION FLAVOUR ADDRESS
cell() {
	local status
	mount_nfs "$1" "sec=$2" "$3" || return
	verified_io --size=2M --bsrange=4k-128k && tree && locks
	status=$?
	# NFSv3 has no delegations. NFSv4.0 has its own connection for them, over TCP.
	case $1 in
	4.[12]) [ $status -eq 0 ] && recalled || status=1 ;;
	esac
	umount "$mnt"
	return $status
}

plan 13
check "Kerberos is set up" eval "on_server $scripts/vm/kerberos server && $scripts/vm/kerberos client"
modprobe nfsv4
echo 1 >"$event/enable"
wait_for_grace_period
for version in 3 4.0 4.1 4.2; do
	check "NFSv$version sys IPv4" cell $version sys "$SERVER_ADDR"
	# shellcheck disable=SC2153 # guest.sh sets it
	check "NFSv$version sys IPv6" cell $version sys "$SERVER_ADDR6"
	check "NFSv$version krb5p IPv4" cell $version krb5p server.rpcrdma.test
done
finish
