#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM of another architecture than the host's, whose disk has a Debian system (machine.sh). $2: the version of the module.
#
#   install   a kernel and the packages, as docs/install.md says
#   checkout  builds a checkout as that says for a kernel with metadata. $3: the checkout
#   source    installs the packages when there is no package of metadata, which DKMS then makes out of the kernel's source

claims=$1
. /src/selftests/packages/guest.sh
version=$2 checkout=${3:-} release=$(uname -r)
export DEBIAN_FRONTEND=noninteractive INITRD=No
suffix=$(. /src/scripts/buildroot/releases.sh && release_suffix "$(flavour_of "$release")" "$(architecture_of "$release")")

typed_here() { typed "$@" && cp /tmp/said /tmp/kept; }
says() { grep -qF "$1" /tmp/kept; }
whole() { [ -z "$(dpkg --audit; apt-get check >/dev/null || echo broken)" ]; }
is_for() { [ "$(modinfo -F vermagic "$1" | cut -d' ' -f1)" = "$2" ]; }
# modprobe would take these modules, and they were built for this kernel.
has_ours() {
	local module
	for module in rpcrdma iwarp; do
		modinfo -n "$module"
		[ "$(modinfo -n "$module")" = "/lib/modules/$release/updates/dkms/$module.ko.xz" ] &&
			[ "$(modinfo -F version "$module")" = "$version" ] &&
			is_for "$module" "$release" || return
	done
}
signed() { [ "$(modinfo -F signer rpcrdma iwarp | uniq -c | sed 's/^ *//')" = '2 DKMS module signing key' ]; }

installed() {
	claim 'the package manager is whole' whole
	claim 'modprobe would take this module' has_ours
	claim 'both modules are signed with the key of DKMS' signed
}

packages() {
	claim 'a kernel and its headers are installed as the document says' typed_here 'Install' 1 "s/-amd64/$suffix/g; /^reboot$/d"
	claim 'it is the newest that the packages are for' [ -e "/lib/modules/$release/build/Makefile" ]
	claim 'the packages are installed as the document says, with metadata' eval "cd /src/build/deb && typed_here Install 2 '/^rpcrdma-status$/d'"
	claim 'and say that the kernel has this module' says "kernel $release has this module, version $version"
	installed
	claim 'no metadata was built on this machine' [ ! -e /var/cache/rpcrdma-rust ]
	claim 'the tools for a mount are installed' apt-get -q install nfs-kernel-server nfs-common rdma-core udev
}

checkout() {
	mkdir -p /root/rpcrdma
	tar -xf "$checkout" -C /root/rpcrdma
	claim 'metadata and compilers are installed as the document says' eval "cd /src/build/deb && typed 'A kernel that you built yourself' 2 '/^make/d'"
	claim 'a checkout is built as the document says' eval "cd /root/rpcrdma && typed_here 'A kernel that you built yourself' 2 '/^apt/d'"
	claim 'for that kernel' is_for /root/rpcrdma/iwarp.ko "$release"
	claim 'nobody is warned' eval '! says warning'
}

from_source() {
	claim 'a package of metadata is taken away' apt-get -q purge "linux-rust-metadata-$release"
	claim 'the packages are installed without it' eval "cd /src/build/deb && typed_here Install 2 's| ./linux-rust-metadata.*||; /^rpcrdma-status$/d'"
	installed
	claim 'the metadata was built from the source' [ -e "/var/cache/rpcrdma-rust/$release/rust/libkernel.rmeta" ]
	claim 'the modules load' modprobe -a rpcrdma iwarp
	claim 'and run' runs "$version"
}

case $1 in
install) packages ;;
checkout) checkout ;;
source) from_source ;;
esac
results
