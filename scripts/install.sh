#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# install.sh [PATH]: installs rpcrdma.ko under PATH for the kernel that it was built for.

set -eu
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
[ -e rpcrdma.ko ] || { echo "error: there is no rpcrdma.ko yet; see make help" >&2; exit 1; }
release=$(modinfo -F vermagic "$PWD/rpcrdma.ko" | cut -d' ' -f1)
scripts/vendor.sh "$release" "${1:-}"
install -D -m 644 rpcrdma.ko "${1:-}/lib/modules/$release/updates/rpcrdma.ko"
depmod ${1:+-b "$1"} "$release"
echo "installed ${1:-}/lib/modules/$release/updates/rpcrdma.ko"
