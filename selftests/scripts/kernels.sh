#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Which kernels the scripts choose, which they refuse, and what they say then: in fake trees, with a fake apt, rustc and modinfo.
# Runs in the build root or outside of it; needs bash, git's tree and dpkg-deb.

# shellcheck source=selftests/scripts/claims.sh
. "$(dirname "$0")/claims.sh"
tree=$work/tree
mkdir -p "$tree" "$work/bin" "$work/cache"
cp -r "$top/scripts" "$tree/"
mkdir "$tree/rust"

# kernels LINE...: the list has these: KVER and flavour.
kernels() { for line; do echo "${line% *} trixie-backports ${line#* } amd64"; done >"$tree/scripts/buildroot/kernels"; }

kernels '7.3 generic' '7.2 generic' '7.3-cloud cloud' '7.3-rt rt'
export PATH=$work/bin:$PATH FAKES=$work
unset KVER KERNEL RUSTC ROOT_DIR KERNEL_DIR

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
	printf 'CONFIG_%s\n' X86_64=y RUST=y SUNRPC=m INFINIBAND=m INFINIBAND_ADDR_TRANS=y >"$work/kernel/.config"
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
headers 7.3.4+deb13-amd64
sed -i s/X86_64/PPC64/ "$work/kernel/.config"
native
claim 'of an architecture that is not in the table: refused' refused 'none of the architectures that this project knows: amd64 arm64' 'make module'
headers 7.3.4+deb13-arm64
sed -i s/X86_64/ARM64/ "$work/kernel/.config"
native
claim 'a kernel for arm64, which is not in the list: tried with a warning' warned 7.3.4+deb13-arm64
headers 7.3.9
sed -i s/X86_64/ARM64/ "$work/kernel/.config"
native
claim 'so is one whose name does not say that' warned 7.3.9
headers 7.1.9
native
claim 'older than the list: refused' refused 'kernel 7.1.9' 'too old'
headers 7.10.1
native
claim 'newer than the list: tried with a warning' warned 7.10.1
headers 7.3.4+deb13-cloud-amd64
native
claim 'a kernel of the list in another flavour is taken' accepted
headers 7.2.12+deb13-cloud-amd64
native
claim 'a series that is listed in another flavour only: tried with a warning' warned 7.2.12+deb13-cloud-amd64
headers 7.3.9
echo CONFIG_PREEMPT_RT=y >>"$work/kernel/.config"
native
claim 'a kernel with PREEMPT_RT is of that flavour, whatever its name' accepted
headers 7.3.9
echo CONFIG_ARM64_16K_PAGES=y >>"$work/kernel/.config"
native
claim 'one with pages of 16 KiB is of that flavour' warned 7.3.9
headers 7.2.9
echo CONFIG_PREEMPT_RT=y >>"$work/kernel/.config"
native
claim 'and is no kernel of the generic flavour' warned 7.2.9
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

# What tells make for which architecture, and by which compiler.
built_with() {
	printf 'CONFIG_%s\n' "$@" >"$work/config"
	run "$tree/scripts/built-with.sh" "$work/config" && said=$(xargs <<<"$said")
}
built_with X86_64=y CC_IS_GCC=y 'CC_VERSION_TEXT="x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0"'
claim 'a kernel is built by its own gcc' chosen 'ARCH=x86_64 CC=x86_64-linux-gnu-gcc-14 CROSS_COMPILE=x86_64-linux-gnu-'
built_with ARM64=y CC_IS_GCC=y 'CC_VERSION_TEXT="aarch64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0"'
claim 'one for arm64 by that for arm64' chosen 'ARCH=arm64 CC=aarch64-linux-gnu-gcc-14 CROSS_COMPILE=aarch64-linux-gnu-'
built_with ARM64=y COMPAT_VDSO=y CC_IS_GCC=y 'CC_VERSION_TEXT="aarch64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0"'
claim 'and what it has for 32-bit processes by another one' says 'CROSS_COMPILE_COMPAT=arm-linux-gnueabihf- CC_COMPAT=arm-linux-gnueabihf-gcc-14'
built_with ARM64=y COMPAT_VDSO=y CC_IS_GCC=y 'CC_VERSION_TEXT="aarch64-linux-gnu-gcc-99 (Debian 99.0) 99.0"'
claim 'which is left out where there is none' says 'CC_COMPAT=arm-linux-gnueabihf-gcc-99 CONFIG_COMPAT_VDSO='
built_with X86_64=y COMPAT_VDSO=y CC_IS_GCC=y 'CC_VERSION_TEXT="gcc (Debian 14.2.0-19) 14.2.0"'
claim 'a gcc without a prefix has tools without one' chosen 'ARCH=x86_64 CC=gcc CROSS_COMPILE='
built_with ARM64=y CC_IS_CLANG=y 'CC_VERSION_TEXT="Debian clang version 19.1.7"'
claim 'a kernel that clang built is built by LLVM' chosen 'ARCH=arm64 LLVM=1'
built_with UML=y X86_64=y CC_IS_CLANG=y
claim 'User-Mode Linux is an architecture of its own' chosen 'ARCH=um KCFLAGS=-Wno-null-pointer-arithmetic LLVM=1'
built_with PPC64=y CC_IS_GCC=y
claim 'an architecture that is not in the table: refused' refused 'none of: amd64 arm64' ''

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

# What the mirror has: a line for each package, its name, its version and its suite.
fake apt-cache <<'END'
#!/bin/bash
case $1 in
search) sed 's/[: ].*//' "$FAKES/mirror" | grep -E "$3" | sed 's/$/ - Linux for 64-bit PCs/' ;;
show) awk -v p="$3" '$1 == p { print "Version: " $2; exit }' "$FAKES/mirror" ;;
madison) awk -v p="$2" '$1 == p { print $1 " | " $2 " | http://mirror/debian " $3 "/main amd64 Packages" }' "$FAKES/mirror" ;;
policy) sed 's,$,/main amd64 Packages,; s,^, 500 http://mirror/debian ,' "$FAKES/suites" ;;
esac
END
fake apt-get <<'END'
#!/bin/bash
package=${3%=*} root=$(mktemp -d)
package=${package%:*}
release=${package#linux-headers-}
mkdir -p "$root/DEBIAN" "$root/usr/src/$package"
printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n' >"$root/DEBIAN/control"
{
	case $release in 6.*) ;; *) echo CONFIG_RUST=y ;; esac
	case $release in 7.3.1+*) ;; *) echo CONFIG_INFINIBAND=m ;; esac
	printf 'CONFIG_%s\n' SUNRPC=m INFINIBAND_ADDR_TRANS=y
} >"$root/usr/src/$package/.config"
dpkg-deb --build "$root" "$package.deb" >/dev/null
rm -r "$root"
END

# whole SUITE RELEASE...: these are in that suite, whole.
whole() {
	local release of suite=$1
	for release in "${@:2}"; do
		case $release in *-arm64*) of=:arm64 ;; *) of= ;; esac
		printf '%s %s %s\n' "linux-image-$release$of" "${release%%[+-]*}-1" "$suite" "linux-headers-$release$of" "${release%%[+-]*}-1" "$suite" \
			"linux-source-$(cut -d. -f1,2 <<<"${release%%[+-]*}")" "${release%%[+-]*}-1" "$suite"
	done >>"$work/mirror"
	echo "$suite" >>"$work/suites"
}
# mirror RELEASE...: has these and no others.
mirror() {
	: >"$work/mirror"
	: >"$work/suites"
	whole trixie "$@"
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


# Flavours: the same source, other images and headers.
gone() { refused "$@" && [ "$status" -eq 77 ]; }
not_gone() { refused "$@" && [ "$status" -eq 1 ]; }
mirror {6.12.57,7.2.12,7.3.4,7.4.1}+deb13{,-cloud,-rt}-amd64 7.3.5+deb13-amd64 7.3.1+deb13-rt-amd64
choose 7.3.4+deb13-cloud-amd64
claim 'a release of a flavour names itself' chosen '7.3.4+deb13-cloud-amd64 7.3.4-1'
choose 7.3.4+deb13-rt-amd64
claim 'of either flavour' chosen '7.3.4+deb13-rt-amd64 7.3.4-1'
choose 7.3-cloud
claim 'a series and a flavour name the newest kernel of both' chosen '7.3.4+deb13-cloud-amd64 7.3.4-1'
choose 7.3.4-rt
claim 'so do a version and a flavour' chosen '7.3.4+deb13-rt-amd64 7.3.4-1'
choose 7.3
claim 'a series alone names a generic kernel' chosen '7.3.5+deb13-amd64 7.3.5-1'
choose 7.4-cloud
claim 'a kernel of a flavour that is newer than the list may be asked for' chosen '7.4.1+deb13-cloud-amd64 7.4.1-1'
choose 7.3.5-rt
claim 'a kernel that is there in another flavour only: gone, and what there is has this flavour' gone 'no kernel 7.3.5-rt' KVER=7.4.1+deb13-rt-amd64
claim 'and no other one' eval '! says deb13-amd64'
choose 6.12-cloud
claim 'a flavour without Rust: refused, and is told of one that has it' not_gone 'built without Rust' KVER=7.3-cloud
choose 7.3.1-rt
claim 'a flavour without RDMA: refused' not_gone 'built without CONFIG_INFINIBAND' KVER=7.3-rt
choose 7.3.4+deb13-riscv64
claim 'an architecture that is not in the table: refused' not_gone 'architecture riscv64' KVER=7.3-cloud
choose 7.3.4+deb13-cloud-riscv64
claim 'a flavour of such an architecture: refused' not_gone cloud-riscv64 KVER=7.3-cloud
choose 7.3.4+deb14-cloud-amd64
claim 'the mark of another suite: refused' not_gone 'not of trixie-backports' KVER=7.3-cloud
choose 7.3-azure
claim 'what is no flavour: refused' not_gone 'KVER=7.3-azure is no release' KVER=7.3-cloud
mirror {7.1.9,7.3.4}+deb13-cloud-amd64
choose 7.1-cloud
claim 'a flavour that is older than the list: refused' not_gone 'kernel 7.1.9+deb13-cloud-amd64 is too old' KVER=7.2-cloud
mirror 6.12.57+deb13{,-cloud}-amd64
choose 7.3-cloud
claim 'where the mirror lacks the suite, no kernel is called gone' not_gone 'no kernel 7.3-cloud' KVER=6.12.57+deb13-cloud-amd64

# Architectures: what is of another one than the build root's has that behind its name for apt.
mirror 7.3.4+deb13{,-cloud}-amd64 7.3.{3,4}+deb13{-arm64,-arm64-16k,-cloud-arm64} 7.3.5+deb13-arm64
choose 7.3-arm64
claim 'a series and an architecture name the newest kernel of both' chosen '7.3.5+deb13-arm64 7.3.5-1'
choose 7.3.4-arm64-16k
claim 'a flavour that stands behind the architecture' chosen '7.3.4+deb13-arm64-16k 7.3.4-1'
choose 7.3-cloud-arm64
claim 'a flavour that stands before it' chosen '7.3.4+deb13-cloud-arm64 7.3.4-1'
choose 7.3.3+deb13-arm64-16k
claim 'a release of another architecture names itself' chosen '7.3.3+deb13-arm64-16k 7.3.3-1'
choose 7.3
claim 'without an architecture it is amd64' chosen '7.3.4+deb13-amd64 7.3.4-1'
choose 7.3-rt-arm64
claim 'a flavour that this architecture lacks there: not to be had' refused 'no kernel 7.3-rt-arm64' ''

# Suites, of which the first one has no name in a KVER.
mirror {7.2.12,7.2.13,7.3.4}+deb13-amd64 {7.1.9,7.2.11,7.2.12}+deb14{,-cloud}-amd64
choose 7.2-forky
claim 'a series and a suite name the newest kernel of both' chosen '7.2.12+deb14-amd64 7.2.12-1'
choose forky
claim 'a suite alone names its newest kernel' chosen '7.2.12+deb14-amd64 7.2.12-1'
choose 7.2.11-forky-cloud
claim 'a flavour stands behind the suite' chosen '7.2.11+deb14-cloud-amd64 7.2.11-1'
choose sid-cloud
claim 'also behind a suite alone' chosen '7.2.12+deb14-cloud-amd64 7.2.12-1'
choose 7.1-forky
claim 'what is too old is too old in each suite' not_gone 'kernel 7.1.9+deb14-amd64 is too old' KVER=7.2
choose 7.3-sid
claim 'a kernel that is there in another suite only: gone, and what there is is named with its suite' gone 'no kernel 7.3-sid' KVER=7.2.12+deb14-sid
choose forky-arm64
claim 'a kernel of another suite for another architecture: refused' not_gone 'kernels of forky are taken for amd64 only' KVER=
mirror
whole sid
echo 'linux-image-7.2.13+deb14-amd64 7.2.13-1 sid' >>"$work/mirror"
choose sid
claim 'of a suite that changes daily, a kernel whose headers are not there yet: gone' gone 'no kernel sid' none

# Experimental, whose root is of sid and has that one's kernels, too. Its candidates have nothing behind their numbers.
mirror
whole sid {7.2.13,7.3.2}+deb14-amd64
whole experimental 7.3-amd64 7.3-cloud-amd64 7.4-amd64
choose experimental
claim 'of experimental, the newest candidate' chosen '7.4-amd64 7.4-1'
choose 7.3-experimental
claim 'or that of a series' chosen '7.3-amd64 7.3-1'
choose experimental-cloud
claim 'of a flavour' chosen '7.3-cloud-amd64 7.3-1'
choose 7.2-experimental
claim 'a kernel that only sid has: gone' gone 'no kernel 7.2-experimental' KVER=7.3-experimental
choose sid
claim 'a candidate is none of the kernels of sid' chosen '7.3.2+deb14-amd64 7.3.2-1'
whole experimental 7.4.1+deb14-amd64
choose experimental
claim 'of experimental also what is no candidate' chosen '7.4.1+deb14-amd64 7.4.1-1'
mirror
whole sid 7.3.2+deb14-amd64
whole experimental
choose experimental
claim 'where experimental has no kernel: gone' gone 'no kernel experimental' none
mirror
whole sid 7.3.2+deb14-amd64
choose experimental
claim 'where the mirror has no experimental, no kernel is called gone' not_gone 'no kernel experimental' none

# candidate RELEASE
candidate() { bash -c ". '$tree/scripts/lib.sh'; is_candidate $1"; }
claim 'numbers of a series alone are those of a candidate' candidate 7.3-amd64
claim 'in each flavour' candidate 7.3-cloud-amd64
claim 'further numbers are not' eval '! candidate 7.3.4+deb13-amd64'

# root KVER: what scripts take for the build root, without its digest.
root() { run env XDG_CACHE_HOME="$work/cache" KVER="$1" bash -c ". '$tree/scripts/lib.sh'; root=\$(root_dir); echo \"\${root##*/root-}\"" && said=${said#"$key-"}; }
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

root 7.3-rt
claim 'a root for one flavour is not that for another' chosen ''
cached 7.3.10+deb13-rt-amd64
root ''
claim 'nor the other way round' chosen 7.3.10+deb13-amd64
root 7.3-rt
claim 'a root is found by its series and flavour' chosen 7.3.10+deb13-rt-amd64
cached 7.3.4+deb13-cloud-amd64
root 7.3-cloud
claim 'a root without the packages of its flavour is none' chosen ''
cloud_key=$(bash -c ". '$tree/scripts/lib.sh'; root_key cloud")
mkdir -p "$work/cache/rpcrdma/root-$cloud_key-7.3.4+deb13-cloud-amd64"
root 7.3.4+deb13-cloud-amd64
claim 'with them it is one' chosen "$cloud_key-7.3.4+deb13-cloud-amd64"
root forky
claim 'a root for one suite is not that for another' chosen ''
forky_key=$(bash -c ". '$tree/scripts/lib.sh'; root_key generic amd64 forky")
mkdir -p "$work/cache/rpcrdma/root-$forky_key-7.2.12+deb14-amd64"
root sid
claim 'nor is one of another suite with the same releases' chosen ''
for kver in forky 7.2-forky 7.2.12-forky; do
	root $kver
	claim "a root is found by $kver" chosen "$forky_key-7.2.12+deb14-amd64"
done
root 7.2-forky-cloud
claim 'but not by another flavour of that' chosen ''
experimental_key=$(bash -c ". '$tree/scripts/lib.sh'; root_key generic amd64 experimental")
mkdir -p "$work/cache/rpcrdma/root-$experimental_key-7.4-amd64"
for kver in experimental 7.4-experimental; do
	root $kver
	claim "that of a candidate by $kver" chosen "$experimental_key-7.4-amd64"
done
root 7.3-arm64
claim 'a root for one architecture is not that for another' chosen ''
arm_key=$(bash -c ". '$tree/scripts/lib.sh'; root_key generic arm64")
mkdir -p "$work/cache/rpcrdma/root-$arm_key-7.3.9+deb13-arm64" "$work/cache/rpcrdma/root-$arm_key-7.3.4+deb13-arm64-16k"
root 7.3-arm64
claim 'a root is found by its series and architecture' chosen "$arm_key-7.3.9+deb13-arm64"
root 7.3-arm64-16k
claim 'and by a flavour of that' chosen "$arm_key-7.3.4+deb13-arm64-16k"

# made KVER: as if a root and its kernel's metadata were there; then buildroot.sh, which has nothing left to make.
made() {
	root=$work/cache/rpcrdma/root-${2:-$key}-$1
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
made 7.3.4+deb13-cloud-amd64 "$cloud_key"
claim 'and so it is with a flavour of the list' accepted
made 7.10.1+deb13-cloud-amd64 "$cloud_key"
claim 'and with a newer kernel of that flavour' warned 7.10.1+deb13-cloud-amd64

rm -r "$work"/cache/rpcrdma/*-7.3.*
choice=$(XDG_CACHE_HOME=$work/cache bash -c ". '$tree/scripts/lib.sh'; root_choice")
ln -s "root-$key-7.2.12+deb13-amd64" "$choice"
root ''
claim 'what an earlier run had to choose is found' chosen 7.2.12+deb13-amd64
kernels '7.3 generic' '7.2 generic' '7.4-rt rt'
root ''
claim 'also if the list has other kernels of another flavour' chosen 7.2.12+deb13-amd64
kernels '7.4 generic' '7.3 generic' '7.2 generic'
root ''
claim 'but not for another list' chosen ''
kernels '7.3 generic' '7.2 generic'
claim 'the list is no part of what a root is made from' [ "$key" = "$(bash -c ". '$tree/scripts/lib.sh'; root_key")" ]

end_of_claims
