#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# install.sh's part for a kernel of another architecture than this machine's. Runs inside a fresh Debian trixie root: chooses the kernel,
# and installs what builds modules for it. Its headers are only unpacked: they ask for that architecture's own compiler. $1: the
# directory of this script. $2: the kernel wanted, as choose.sh takes it.

set -euo pipefail
dir=$1 wanted=$2
export DEBIAN_FRONTEND=noninteractive INITRD=No
# shellcheck disable=SC2034 # for releases.sh
kernel_list=$dir/kernels
. "$dir/releases.sh"
architecture=$(architecture_of "$wanted")

sed -n 's/ trixie main/ trixie-backports main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d	# No daemon starts in here.
chmod +x /usr/sbin/policy-rc.d
dpkg --add-architecture "$architecture"
apt-get -q update

chosen=$("$dir/choose.sh" "$wanted")
read -r release version <<<"$chosen"
series=$(series_of "$release")
echo "kernel $release, Debian version $version"

# shellcheck disable=SC2046 # one word is one package
apt-get -q install -y --no-install-recommends "linux-source-$series=$version" \
	$(grep -hv '^#' "$dir/packages" "$dir/packages-$architecture")
headers=$(mktemp -d)
(cd "$headers" && apt-get -q download "linux-headers-$release:$architecture=$version")
dpkg-deb --fsys-tarfile "$headers"/*.deb | tar -xC / ./usr/src
rm -r "$headers"
apt-get clean

"$dir/../compiler.sh" "/usr/src/linux-headers-$release/.config"

mkdir -p /src /kernel /cache /guest /etc/rpcrdma
echo "$release" >/etc/rpcrdma/kver
{
	printf 'linux-headers-%s\t%s\n' "$release" "$version"
	dpkg-query -W "linux-source-$series" rustc bindgen gcc-14-aarch64-linux-gnu clang binutils pahole
} >/etc/rpcrdma/toolchain
