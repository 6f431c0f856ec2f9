#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# install.sh [PATH]: installs rpcrdma.ko and iwarp.ko under PATH for the kernel that they were built for.

set -eu
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
for module in rpcrdma.ko iwarp.ko; do
	[ -e "$module" ] || { echo "error: there is no $module yet; see make help" >&2; exit 1; }
done
release=$(modinfo -F vermagic "$PWD/rpcrdma.ko" | cut -d' ' -f1)
scripts/vendor.sh "$release" "${1:-}"
for file in "${1:-}/lib/modules/$release/updates/dkms"/rpcrdma.ko*; do
	[ ! -e "$file" ] || { echo "error: $file is there already; remove the package first: apt remove rpcrdma-rust-dkms" >&2; exit 1; }
done
for module in rpcrdma.ko iwarp.ko; do
	install -D -m 644 "$module" "${1:-}/lib/modules/$release/updates/$module"
	echo "installed ${1:-}/lib/modules/$release/updates/$module"
done
depmod ${1:+-b "$1"} "$release"
