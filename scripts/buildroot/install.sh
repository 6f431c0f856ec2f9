#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside a fresh Debian trixie root: chooses the kernel and installs it with everything that builds and tests the
# module. $1: the directory of this script. $2: the kernel wanted, as choose.sh takes it.

set -euo pipefail
dir=$1 wanted=$2
export DEBIAN_FRONTEND=noninteractive INITRD=No	# The VM has its own initramfs.

sed -n 's/ trixie main/ trixie-backports main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d	# No daemon starts in here.
chmod +x /usr/sbin/policy-rc.d
apt-get -q update

chosen=$("$dir/choose.sh" "$wanted")
read -r release version <<<"$chosen"
series=$(cut -d. -f1,2 <<<"$release")
echo "kernel $release, Debian version $version"

# shellcheck disable=SC2046 # one word is one package
apt-get -q install -y --no-install-recommends linux-base/trixie-backports \
	"linux-image-$release=$version" "linux-headers-$release=$version" "linux-source-$series=$version" \
	$(grep -v '^#' "$dir/packages")
apt-get clean

# The kernel's own crates are rebuilt here, and are the kernel's only if its own compiler does it.
"$dir/../compiler.sh" "/usr/src/linux-headers-$release/.config"

mkdir -p /src /kernel /cache /etc/rpcrdma
echo "$release" >/etc/rpcrdma/kver
dpkg-query -W "linux-source-$series" "linux-headers-$release" rustc bindgen gcc-14 clang binutils pahole \
	>/etc/rpcrdma/toolchain
