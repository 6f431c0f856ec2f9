#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside a build root for another architecture: makes a root for VMs of what was unpacked in /guest. No program of that
# architecture runs here, so no package is configured: this writes what the maintainer scripts of those packages would have written
# that the tests need.

set -euo pipefail
cd /guest
release=$(cat /etc/rpcrdma/kver)

cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
cat >>etc/passwd <<'END'
_rpc:x:100:65534::/run/rpcbind:/usr/sbin/nologin
statd:x:101:65534::/var/lib/nfs:/usr/sbin/nologin
tcpdump:x:102:102::/nonexistent:/usr/sbin/nologin
END
printf 'tcpdump:x:102:\nrdma:x:103:\n' >>etc/group
[ -e etc/nsswitch.conf ] || cp usr/share/libc-bin/nsswitch.conf etc/
echo guest >etc/hostname
printf '127.0.0.1\tlocalhost\n::1\tlocalhost\n' >etc/hosts

# alternative LINK TARGET: as update-alternatives leaves them.
alternative() {
	ln -sfn "$2" "etc/alternatives/${1##*/}"
	ln -sfn "/etc/alternatives/${1##*/}" "${1#/}"
}
mkdir -p etc/alternatives
alternative /usr/bin/awk /usr/bin/mawk

chown 101 var/lib/nfs var/lib/nfs/sm var/lib/nfs/sm.bak 2>/dev/null || true
touch etc/exports var/lib/nfs/{etab,rmtab,state,export-lock}
mkdir -p src kernel cache mnt vm export
depmod -b /guest "$release"
