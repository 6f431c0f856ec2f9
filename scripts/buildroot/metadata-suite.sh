#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# metadata.sh for a kernel of another suite than the first one in the table: it makes the root say what that one expects. As this is a
# file of its own, the metadata of other kernels, whose names have a digest of metadata.sh, stay as they are. Runs in the build root.

set -euo pipefail
dir=$(dirname "$0")
# shellcheck disable=SC2034 # for releases.sh
kernel_list=$dir/kernels
. "$dir/releases.sh"
release=$(cat /etc/rpcrdma/kver)
series=$(series_of "$release")
config=/usr/src/linux-headers-$release/.config

# In a suite that changes daily gcc and binutils may be newer packages than those that its kernel was built with. Their versions are in
# the configuration, and so is what they can do: if that differs, or the version of gcc itself, metadata.sh says so and fails.
version_here() { "$1" --version | awk 'NR == 1 { split($NF, part, "."); print part[1] * 10000 + part[2] * 100 + part[3] }'; }
gcc=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$config")
cp "$config" "$config.before"
sed -i -e "s/^\(CONFIG_CC_VERSION_TEXT\)=.*/\1=\"$("$gcc" --version | sed -n 1p)\"/" \
	-e "s/^\(CONFIG_AS_VERSION\)=.*/\1=$(version_here as)/" -e "s/^\(CONFIG_LD_VERSION\)=.*/\1=$(version_here ld)/" "$config"
diff "$config.before" "$config" || echo 'so much is newer here than what the kernel was built with'

# The source of a candidate says 7.3.0-rc7, and its release is 7.3-amd64. metadata.sh takes a release for what the source says with more
# behind it, and all before its second point for the series.
if is_candidate "$release"; then
	ln -sfn "linux-source-$series.tar.xz" "/usr/src/linux-source-$release.tar.xz"
	export MAKEFLAGS=KERNELVERSION=$series
fi
exec "$dir/metadata.sh"
