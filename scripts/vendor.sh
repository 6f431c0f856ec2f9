#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vendor.sh RELEASE [ROOT]: fails if a module that ours calls is not the one that came with kernel RELEASE.
#
# A vendor's RDMA stack (OFED, DOCA) brings modules of the same names whose structures have another layout. Where
# CONFIG_MODVERSIONS is off, as it is in Debian's kernels, nothing else would notice. A kernel that is not installed here has
# no modules to look at.

set -u
PATH=$PATH:/usr/sbin:/sbin
release=$1 root=${2:-}

command -v modinfo >/dev/null || { echo "warning: without modinfo nobody knows whose ib_core kernel $release has" >&2; exit 0; }
for name in ib_core rdma_cm iw_cm sunrpc; do
	file=$(modinfo ${root:+-b "$root"} -k "$release" -n "$name" 2>/dev/null) || continue
	case $file in
	"(builtin)" | */lib/modules/"$release"/kernel/*) ;;
	*)
		cat >&2 <<END
error: $name of kernel $release is not the kernel's own, but $file

The structures of a vendor's RDMA modules (OFED, DOCA) differ from those that this module is built for. It would load, and
then read and write the wrong memory. Ways out:
  * remove the vendor's modules, until \`modinfo -k $release -n $name\` names a file in /lib/modules/$release/kernel/
  * keep them, and use the vendor's own module for NFS over RDMA
END
		exit 1
		;;
	esac
done
