#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Which kernels the scripts choose, which they refuse, and what they say then: in fake trees, with a fake apt, rustc and modinfo.
# Runs in the build root or outside of it; needs bash, git's tree and dpkg-deb.

set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree count=0 failed=0
mkdir -p "$tree" "$work/bin" "$work/cache"
cp -r "$top/scripts" "$tree/"
mkdir "$tree/rust"
printf '7.3\n7.2\n' >"$tree/scripts/buildroot/series"
export PATH=$work/bin:$PATH FAKES=$work
unset KVER KERNEL RUSTC ROOT_DIR KERNEL_DIR

# run COMMAND...: its output to $said, its status to $status.
run() {
	status=0
	said=$("$@" 2>&1) || status=$?
}

# claim NAME CONDITION...
claim() {
	local name=$1 word=ok
	shift
	count=$((count + 1))
	if ! "$@"; then word='not ok' failed=$((failed + 1)); fi
	echo "$word $count - $name"
	[ "$word" = ok ] || printf '# status %s\n%s\n' "$status" "$said" | sed 's/^/# /'
}

says() { [[ $said = *"$1"* ]]; }
refused() { [ "$status" -ne 0 ] && says 'error: ' && says "$1" && says "$2"; }
accepted() { [ "$status" -eq 0 ] && [ -z "$said" ]; }
warned() { [ "$status" -eq 0 ] && says 'warning: ' && says "$1"; }
chosen() { [ "$status" -eq 0 ] && [ "$said" = "$1" ]; }

fake() { cat >"$work/bin/$1"; chmod +x "$work/bin/$1"; }

fake rustc <<'END'
#!/bin/sh
echo 'rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)'
END

# Files below $FAKES/modules/RELEASE stand for where modinfo finds a module; rpcrdma.ko and iwarp.ko are text.
fake modinfo <<'END'
#!/bin/bash
while [ $# -gt 0 ]; do
	case $1 in
	-k) release=$2; shift ;;
	-b) shift ;;
	-F) cat "$3"; exit ;;
	-n) cat "$FAKES/modules/$release/$2"; exit ;;
	esac
	shift
done
END
fake depmod </dev/null

# modules RELEASE DIRECTORY
modules() {
	mkdir -p "$work/modules/$1"
	for name in ib_core rdma_cm iw_cm sunrpc; do echo "/lib/modules/$1/$2/$name.ko" >"$work/modules/$1/$name"; done
}

# headers RELEASE: a kernel's build directory that is as it should be.
headers() {
	rm -rf "$work/kernel"
	mkdir -p "$work/kernel/include/config" "$work/kernel/rust"
	touch "$work/kernel/Makefile"
	echo "$1" >"$work/kernel/include/config/kernel.release"
	printf 'CONFIG_%s\n' RUST=y SUNRPC=m INFINIBAND=m INFINIBAND_ADDR_TRANS=y >"$work/kernel/.config"
	printf 'rust\0\0\0\tArustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)\301\2' >"$work/kernel/rust/libkernel.rmeta"
}

native() { run "$tree/scripts/native.sh" "$work/kernel"; }

headers 7.3.4+deb13-amd64
native
claim 'a kernel of the list whose modules are not installed here is taken' accepted
modules 7.3.4+deb13-amd64 kernel/drivers
native
claim 'a kernel of the list is taken' accepted
echo '(builtin)' >"$work/modules/7.3.4+deb13-amd64/ib_core"
native
claim 'ib_core may be built in' accepted

run "$tree/scripts/native.sh" "$work/nowhere"
claim 'without headers: refused' refused 'no kernel headers' 'make module'
headers 6.12.57+deb13-amd64
: >"$work/kernel/.config"
native
claim 'without CONFIG_RUST: refused' refused 'kernel 6.12.57+deb13-amd64' 'built without CONFIG_RUST'
headers 7.3.4+deb13-amd64
sed -i /ADDR_TRANS/d "$work/kernel/.config"
native
claim 'without the RDMA connection manager: refused' refused 'built without CONFIG_INFINIBAND_ADDR_TRANS' 'make module'
headers 7.1.9
native
claim 'older than the list: refused' refused 'kernel 7.1.9' 'too old'
headers 7.10.1
native
claim 'newer than the list: tried with a warning' warned 7.10.1
headers 7.3.4+deb13-amd64
rm "$work/kernel/rust/libkernel.rmeta"
native
claim 'without metadata: refused' refused 'without Rust metadata' 'make module'

headers 7.3.4+deb13-amd64
sed -i 's/1\.85\.1 (4eb161250/1.85.1 (000000000/' "$work/kernel/rust/libkernel.rmeta"
native
claim 'metadata of another compiler: refused' refused 'compiled by rustc 1.85.1 (000000000' RUSTC=
echo 'CONFIG_RUSTC_VERSION_TEXT="rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"' >"$work/config"
run "$tree/scripts/compiler.sh" "$work/config"
claim 'a configuration that names this compiler is taken' accepted
sed -i 's/1\.85\.1/1.88.0/' "$work/config"
run "$tree/scripts/compiler.sh" "$work/config"
claim 'a configuration that names another compiler: refused' refused 'compiled by rustc 1.88.0' 'this is rustc 1.85.1'
run env RUSTC=no-such-rustc "$tree/scripts/compiler.sh" "$work/config"
claim 'without a compiler: refused' refused 'no no-such-rustc' ''

headers 7.3.4+deb13-amd64
for directory in updates/dkms extra/ofa_kernel; do
	modules 7.3.4+deb13-amd64 "$directory"
	native
	claim "ib_core of a vendor in $directory: refused" refused "$directory/ib_core.ko" 'remove the vendor'
done
modules 7.3.4+deb13-amd64 kernel/drivers
echo /lib/modules/7.3.4+deb13-amd64/updates/rdma_cm.ko >"$work/modules/7.3.4+deb13-amd64/rdma_cm"
native
claim 'rdma_cm of a vendor: refused' refused updates/rdma_cm.ko 'remove the vendor'
modules 7.3.4+deb13-amd64 kernel
echo /lib/modules/7.3.4+deb13-amd64/updates/iw_cm.ko >"$work/modules/7.3.4+deb13-amd64/iw_cm"
native
claim 'iw_cm of a vendor: refused' refused updates/iw_cm.ko 'remove the vendor'
modules 7.3.4+deb13-amd64 kernel
echo /lib/modules/7.3.4+deb13-amd64/updates/rdma_cm.ko >"$work/modules/7.3.4+deb13-amd64/rdma_cm"

echo '7.3.4+deb13-amd64 SMP preempt mod_unload' | tee "$tree/rpcrdma.ko" >"$tree/iwarp.ko"
run "$tree/scripts/install.sh" "$work/installed"
claim 'not installed beside rdma_cm of a vendor' refused updates/rdma_cm.ko 'remove the vendor'
claim 'and no file is left of that' [ ! -e "$work/installed" ]
modules 7.3.4+deb13-amd64 kernel/drivers
run "$tree/scripts/install.sh" "$work/installed"
claim "installed beside the kernel's own" [ -e "$work/installed/lib/modules/7.3.4+deb13-amd64/updates/rpcrdma.ko" ]
claim 'and so is the second module' [ -e "$work/installed/lib/modules/7.3.4+deb13-amd64/updates/iwarp.ko" ]
mkdir -p "$work/dkms/lib/modules/7.3.4+deb13-amd64/updates/dkms"
touch "$work/dkms/lib/modules/7.3.4+deb13-amd64/updates/dkms/rpcrdma.ko.xz"
run "$tree/scripts/install.sh" "$work/dkms"
claim 'not installed beside what DKMS built' refused updates/dkms/rpcrdma.ko.xz 'apt remove rpcrdma-rust-dkms'

# What was built for one kernel is not taken for another's.
echo object >"$tree/rust/main.o"
run "$tree/scripts/objects.sh" "$tree" one
claim 'objects of an unknown kernel go' [ ! -e "$tree/rust/main.o" ]
echo object >"$tree/rust/main.o"
run "$tree/scripts/objects.sh" "$tree" one
claim 'objects of the same kernel stay' [ -e "$tree/rust/main.o" ]
echo module >"$tree/rpcrdma.ko"
run "$tree/scripts/objects.sh" "$tree" other
claim 'objects of another kernel go' [ ! -e "$tree/rust/main.o" ]
claim 'and so does the module' [ ! -e "$tree/rpcrdma.ko" ]

# What the mirror has: a line for each package, its name and its version.
fake apt-cache <<'END'
#!/bin/bash
case $1 in
search) grep '^linux-image-' "$FAKES/mirror" | sed 's/ .*/ - Linux for 64-bit PCs/' ;;
show) sed -n "s/^$3 /Version: /p" "$FAKES/mirror" ;;
madison) awk -v p="$2" '$1 == p { print $1 " | " $2 " | mirror" }' "$FAKES/mirror" ;;
esac
END
fake apt-get <<'END'
#!/bin/bash
package=${3%=*} root=$(mktemp -d)
release=${package#linux-headers-}
mkdir -p "$root/DEBIAN" "$root/usr/src/$package"
printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n' >"$root/DEBIAN/control"
case $release in 6.*) ;; *) echo CONFIG_RUST=y ;; esac >"$root/usr/src/$package/.config"
dpkg-deb --build "$root" "$package.deb" >/dev/null
rm -r "$root"
END

# mirror RELEASE...: has these whole.
mirror() {
	local release
	: >"$work/mirror"
	for release; do
		printf '%s %s\n' "linux-image-$release" "${release%%+*}-1" "linux-headers-$release" "${release%%+*}-1" \
			"linux-source-$(cut -d. -f1,2 <<<"$release")" "${release%%+*}-1"
	done >>"$work/mirror"
}

choose() { run "$tree/scripts/buildroot/choose.sh" "$@"; }

mirror {6.12.57,7.1.9,7.2.11,7.2.12,7.3.4,7.3.10,7.4.1}+deb13-amd64
choose
claim 'the newest of the first series in the list is chosen' chosen '7.3.10+deb13-amd64 7.3.10-1'
choose 7.2
claim 'a series names its newest kernel' chosen '7.2.12+deb13-amd64 7.2.12-1'
choose 7.3.4
claim 'a release may be named without what Debian adds' chosen '7.3.4+deb13-amd64 7.3.4-1'
choose 7.2.11+deb13-amd64
claim 'a release names itself' chosen '7.2.11+deb13-amd64 7.2.11-1'
choose 7.4
claim 'a kernel newer than the list may be asked for' chosen '7.4.1+deb13-amd64 7.4.1-1'
choose 6.12
claim 'a kernel without Rust: refused before anything is installed' refused 'built without Rust' KVER=7.3
choose 7.1
claim 'a kernel older than the list: refused' refused 'kernel 7.1.9+deb13-amd64 is too old' KVER=7.2
choose 7.3.5
claim 'a kernel that is not to be had: refused' refused 'no kernel 7.3.5' KVER=7.2.12+deb13-amd64
sed -i '/^linux-source-7.3 7.3.10-1/d' "$work/mirror"
choose
claim 'a kernel without its source is passed over' chosen '7.3.4+deb13-amd64 7.3.4-1'
mirror {6.12.57,7.2.12,7.4.1}+deb13-amd64
choose
claim 'without the first series, the next of the list' chosen '7.2.12+deb13-amd64 7.2.12-1'
mirror {6.12.57,7.4.1}+deb13-amd64
choose
claim 'without any of the list, the newest' chosen '7.4.1+deb13-amd64 7.4.1-1'

# root KVER: what scripts take for the build root, without its digest.
root() { run env XDG_CACHE_HOME="$work/cache" KVER="$1" bash -c ". '$tree/scripts/lib.sh'; root=\$(root_dir); echo \"\${root##*/root-$key-}\""; }
cached() { for release; do mkdir -p "$work/cache/rpcrdma/root-$key-$release"; done; }
key=$(bash -c ". '$tree/scripts/lib.sh'; root_key")
root ''
claim 'there is no build root yet' chosen ''
cached 7.2.12+deb13-amd64
root ''
claim 'a root for the second series is not that for the first' chosen ''
root 7.2
claim 'a root is found by its series' chosen 7.2.12+deb13-amd64
root 7.2.1
claim 'a release is no prefix of another' chosen ''
cached 7.3.4+deb13-amd64 7.3.10+deb13-amd64
root ''
claim 'without KVER, the newest root of the first series' chosen 7.3.10+deb13-amd64
root 7.3.4+deb13-amd64
claim 'a root is found by its release' chosen 7.3.4+deb13-amd64

# made KVER: as if a root and its kernel's metadata were there; then buildroot.sh, which has nothing left to make.
made() {
	root=$work/cache/rpcrdma/root-$key-$1
	mkdir -p "$root/etc/rpcrdma"
	echo "$1" >"$root/etc/rpcrdma/kver"
	: >"$root/etc/rpcrdma/toolchain"
	mkdir -p "$(XDG_CACHE_HOME=$work/cache bash -c ". '$tree/scripts/lib.sh'; kernel_dir '$root'")"
	run env XDG_CACHE_HOME="$work/cache" KVER="$1" "$tree/scripts/buildroot.sh"
}
made 7.3.10+deb13-amd64
claim 'what is there for a kernel of the list is taken, without the network' accepted
made 7.10.1+deb13-amd64
claim 'what is there for a newer one is taken with a warning' warned 7.10.1+deb13-amd64

rm -r "$work"/cache/rpcrdma/*-7.3.*
choice=$(XDG_CACHE_HOME=$work/cache bash -c ". '$tree/scripts/lib.sh'; root_choice")
ln -s "root-$key-7.2.12+deb13-amd64" "$choice"
root ''
claim 'what an earlier run had to choose is found' chosen 7.2.12+deb13-amd64
printf '7.4\n7.3\n7.2\n' >"$tree/scripts/buildroot/series"
root ''
claim 'but not for another list' chosen ''
root ''
printf '7.3\n7.2\n' >"$tree/scripts/buildroot/series"
claim 'the list is no part of what a root is made from' [ "$key" = "$(bash -c ". '$tree/scripts/lib.sh'; root_key")" ]

echo "1..$count"
[ "$failed" -eq 0 ]
