#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# install.sh's part for a kernel of another suite than the first one in the table, in a root of that suite, whose compilers it was built
# with. Experimental is no whole suite: the root is of sid, with a kernel of experimental. A root's name has a digest of what it was made
# from: as this is a file of its own, changes to it leave other roots alone.
# $1: the directory of this script. $2: the kernel wanted, as choose.sh takes it.

set -euo pipefail
dir=$1 wanted=$2
export DEBIAN_FRONTEND=noninteractive INITRD=No	# The VM has its own initramfs.
# shellcheck disable=SC2034 # for releases.sh
kernel_list=$dir/kernels
. "$dir/releases.sh"

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d	# No daemon starts in here.
chmod +x /usr/sbin/policy-rc.d
suite=$(suite_of "$wanted")
base=$(base_of "$suite")
# Of experimental apt takes only what is asked for by its version, and what that needs and sid does not have.
[ "$suite" = "$base" ] || sed -n "s/ $base main/ $suite main/p" /etc/apt/sources.list >"/etc/apt/sources.list.d/$suite.list"
apt-get -q update

chosen=$("$dir/choose.sh" "$wanted")
read -r release version <<<"$chosen"
series=$(series_of "$release")
echo "kernel $release, Debian version $version"

# What compiles C comes with the headers.
# shellcheck disable=SC2046 # one word is one package
apt-get -q install -y --no-install-recommends "linux-image-$release=$version" "linux-headers-$release=$version" \
	"linux-source-$series=$version" $(grep -v '^#' "$dir/packages")
apt-get clean

"$dir/../compiler.sh" "/usr/src/linux-headers-$release/.config"

mkdir -p /src /kernel /cache /etc/rpcrdma
echo "$release" >/etc/rpcrdma/kver
compiler=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="[^ ]*\(gcc-[0-9]*\) .*/\1/p' "/usr/src/linux-headers-$release/.config")
dpkg-query -W "linux-source-$series" "linux-headers-$release" rustc bindgen "$compiler" clang binutils pahole >/etc/rpcrdma/toolchain
