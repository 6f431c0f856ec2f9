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

mkdir -p $debs/{archives,lists}/partial
sed -n 's/^deb /&/p; s/^deb /deb-src /p' /etc/apt/sources.list >$debs/sources.list
# Neither the root's lists of packages nor what it has installed changes.
apt=(apt-get -q -y --no-install-recommends -o "Dir::State::Lists=$debs/lists" -o "Dir::Cache::Archives=$debs/archives"
	-o "Dir::Etc::SourceList=$debs/sources.list" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
"${apt[@]}" update
# shellcheck disable=SC2086 # one word is one package
"${apt[@]}" --download-only install $packages
# shellcheck disable=SC2086
mapfile -t files < <("${apt[@]}" --simulate install $packages |
	sed -nE 's/^Inst ([^ ]+) (\[[^]]*\] )?\(([^ ]+) .* \[([a-z0-9]+)\].*/\1_\3_\4.deb/p' | sed 's/:/%3a/g')
[ ${#files[@]} -gt 0 ] || { echo "error: apt-get does not say which packages it would install" >&2; exit 1; }
rm -rf $out $out.from
mkdir -p $out
for file in "${files[@]}"; do dpkg-deb --extract "$debs/archives/$file" $out; done
rm -f $debs/{rdma-core,libfabric}_*.orig.tar.*
(cd $debs && "${apt[@]}" --tar-only source rdma-core libfabric)
(cd $debs && sha256sum --check --quiet) <selftests/suites/sources ||
	{ echo "error: the mirror has other sources than those that outcomes.tsv is of: see selftests/suites/sources" >&2; exit 1; }
mkdir -p $out/usr/share/rdma-core
tar --extract --directory $out/usr/share/rdma-core --strip-components 1 --wildcards --file $debs/rdma-core_*.orig.tar.* 'rdma-core-*/tests/*'
selftests/suites/fabtests.sh $debs/libfabric_*.orig.tar.* $out
echo "$made_from" >$out.from
echo "$out has ${#files[@]} packages, $(du -sh $out | cut -f1)"
