#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpacks the packages that are listed beside this file, and what they depend on and the build root lacks, in build/suites: a layer
# over the root of a VM, which tests put there (`need_suites`). No script of a package runs. The tests of rdma-core and of libfabric,
# which no package has, come from their source packages, in the versions that are listed in `sources`, which outcomes.tsv is of. Runs in
# the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."

out=build/suites debs=/cache/suites
packages=$(grep -v '^#' selftests/suites/packages)
made_from=$({ cat selftests/suites/{*.sh,sources}; echo "$packages"; dpkg-query -W; } | sha256sum)
[ "$(cat $out.from 2>/dev/null)" != "$made_from" ] || exit 0

rm -f $out.from
# shellcheck disable=SC2086 # one word is one package
selftests/suites/unpack.sh $out $packages
mapfile -t apt <$debs/apt
rm -f $debs/{rdma-core,libfabric}_*.orig.tar.*
(cd $debs && "${apt[@]}" --tar-only source rdma-core libfabric)
(cd $debs && sha256sum --check --quiet) <selftests/suites/sources ||
	{ echo "error: the mirror has other sources than those that outcomes.tsv is of: see selftests/suites/sources" >&2; exit 1; }
mkdir -p $out/usr/share/rdma-core
tar --extract --directory $out/usr/share/rdma-core --strip-components 1 --wildcards --file $debs/rdma-core_*.orig.tar.* 'rdma-core-*/tests/*'
selftests/suites/fabtests.sh $debs/libfabric_*.orig.tar.* $out
echo "$made_from" >$out.from
echo "$out has $(du -sh $out | cut -f1) with the tests"
