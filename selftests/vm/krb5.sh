#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Kerberos: authentication, integrity, privacy. With the latter two no payload is taken out of its message.

. ./lib.sh
need_pair

# Mounts by name, as a ticket is for a name; root of the client uses the machine's own key.
mounts() { mount_nfs 4.2 "sec=$1" server.rpcrdma.test && grep " $mnt nfs" /proc/mounts | grep "proto=rdma.*sec=$1,"; }

# One RPC at a time: with several READs at once sunrpc itself now and then finds a wrong checksum under krb5i, over TCP as well.
works() { mountpoint -q "$mnt" && verified_io --size=4M --bsrange=4k-128k && random_file "$mnt/$1" 300000 && same_file "$1"; }

# RFC 8166, section 8.2.2.1.
over_tcp() { mount -t nfs -o proto=tcp,vers=4.2,sec=krb5,retry=0 "server.rpcrdma.test:/" "$mnt" && umount "$mnt"; }

write_chunks() {
	local by
	mountpoint -q "$mnt" && random_file "$mnt/ticket" 262144 && drop_caches || return
	by=$(counts write_chunks cat "$mnt/ticket")
	echo "write_chunks moved by $by"
	test "$by" "$1" 0
}

plan 13
check "the server gets a realm" on_server "$scripts/vm/kerberos server"
check "the client joins it" "$scripts/vm/kerberos" client
for flavour in krb5 krb5i krb5p; do
	check "$flavour mounts" mounts "$flavour"
	check "$flavour works" works "$flavour"
	case $flavour in
	krb5) check "$flavour takes payload out of its message" write_chunks -gt ;;
	*) check "$flavour leaves payload in its message" write_chunks -eq ;;
	esac
	umount "$mnt"
done
check "TCP beside it" over_tcp
check "the module unloads" unload
finish
