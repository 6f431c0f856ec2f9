#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside a fresh Debian trixie root: chooses the kernel and installs it with everything that builds and tests the
# module. $1: the directory of this script. $2: the kernel wanted; empty for the newest one that can be had whole.

set -euo pipefail
dir=$1 wanted=$2
export DEBIAN_FRONTEND=noninteractive INITRD=No	# The VM has its own initramfs.

words() { grep -v '^#' "$1"; }

# Every kernel whose image, headers and source are to be had in the same version, the newest first: release, version.
whole_kernels() {
	local release version
	apt-cache search --names-only '^linux-image-[0-9.]+\+deb13-amd64$' | cut -d' ' -f1 | cut -d- -f3- | sort -Vr |
	while read -r release; do
		version=$(apt-cache show --no-all-versions "linux-image-$release" | sed -n 's/^Version: //p')
		for package in "linux-headers-$release" "linux-source-$(series_of "$release")"; do
			apt-cache madison "$package" | awk -F' *[|] *' '{ print $2 }' | grep -qxF "$version" || continue 2
		done
		printf '%s %s\n' "$release" "$version"
	done
}

series_of() { cut -d. -f1,2 <<<"$1"; }

choose() {
	local series
	if [ -n "$wanted" ]; then
		awk -v k="$wanted" '$1 == k' <<<"$kernels"
		return
	fi
	for series in $(words "$dir/series"); do
		if awk -v s="$series." 'index($1, s) == 1' <<<"$kernels" | grep -m1 .; then return; fi
	done
	head -n 1 <<<"$kernels"
}

sed -n 's/ trixie main/ trixie-backports main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d	# No daemon starts in here.
chmod +x /usr/sbin/policy-rc.d
apt-get -q update

kernels=$(whole_kernels)
read -r release version <<<"$(choose)" || true
if [ -z "${release:-}" ]; then
	echo "error: no kernel ${wanted:-image} with headers and source of the same version is to be had; there are:" >&2
	awk '{ print "       KVER=" $1 }' <<<"$kernels" >&2
	exit 1
fi
series=$(series_of "$release")
words "$dir/series" | grep -qxF "$series" ||
	echo "warning: nobody has tried this project with kernel $release yet (tried series: $(words "$dir/series" | xargs))" >&2
echo "kernel $release, Debian version $version"

# shellcheck disable=SC2046 # one word is one package
apt-get -q install -y --no-install-recommends linux-base/trixie-backports \
	"linux-image-$release=$version" "linux-headers-$release=$version" "linux-source-$series=$version" \
	$(words "$dir/packages")
apt-get clean

mkdir -p /src /kernel /cache /etc/rpcrdma
echo "$release" >/etc/rpcrdma/kver
dpkg-query -W "linux-source-$series" "linux-headers-$release" rustc bindgen gcc-14 clang binutils pahole \
	>/etc/rpcrdma/toolchain
