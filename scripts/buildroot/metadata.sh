#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# metadata.sh [RELEASE DIR]: makes in DIR what Debian's header packages lack for a module in Rust, the metadata of the kernel's
# own crates, and proves that it belongs to the kernel image. In the build root that is /kernel; the package for DKMS does the
# same on the machine that it is installed on.
#
# The metadata is only good if it comes from the same source, configuration and compiler. The names of exported Rust
# symbols carry a hash over all three, so equal names are the proof; vermagic is what the module loader will look at.

set -euo pipefail
release=${1:-$(cat /etc/rpcrdma/kver)} dir=${2:-/kernel}
series=$(cut -d. -f1,2 <<<"$release")
headers=/usr/src/linux-headers-$release
source=$dir/source build=$dir/build

die() { printf 'error: %s\n' "$@" >&2; exit 1; }

grep -q '^CONFIG_RUST=y' "$headers/.config" || die "kernel $release was built without Rust (CONFIG_RUST)"

# Most of the source is driver code that no module build looks at.
mkdir -p "$source" "$build"
tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$source" --strip-components=1 \
	--exclude='*/drivers/*.c' --exclude='*/sound/*.c' --exclude='*/drivers/gpu/drm/amd/include/*'

cp "$headers/.config" "$headers/Module.symvers" "$build/"
numbers=$(make -s -C "$source" kernelversion)
echo "${release#"$numbers"}" >"$build/localversion"
cp "$build/.config" "$build/.config.debian"

built_with=$("$(dirname "$0")/../built-with.sh" "$headers/.config")
# shellcheck disable=SC2086 # one word is one variable
kbuild() { make -C "$source" O="$build" $built_with HOSTCC=gcc-14 "$@"; }
kbuild olddefconfig
diff <(grep '^CONFIG' "$build/.config.debian") <(grep '^CONFIG' "$build/.config") ||
	die "the configuration is not the one that Debian's kernel was built with; the differences are above"
kbuild -j"$(nproc)" modules_prepare

utsrelease=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"/\1/p' "$build/include/generated/utsrelease.h")
[ "$utsrelease" = "$release" ] || die "modules built here would be for kernel $utsrelease, not $release"

exported() { sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(_R[^)]*\));$/\1/p' "$build"/rust/exports_*_generated.h | sort -u; }
theirs() { awk -F'\t' '$2 ~ /^_R/ { print $2 }' "$headers/Module.symvers" | sort -u; }
difference=$(comm -3 <(exported) <(theirs))
[ -z "$difference" ] || die "these exported Rust symbols are not the kernel image's (left: only here, right: only there)," \
	"so source or compiler is another:" "$difference"
echo "all $(exported | wc -l) exported Rust symbols are those of kernel $release"
