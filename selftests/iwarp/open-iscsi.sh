#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpacks open-iscsi, which the kernel's iSER initiator needs to log in (selftests/vm/iwarp-iser.sh), and what it depends on and the build
# root lacks, in build/open-iscsi. No script of a package runs. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."

out=build/open-iscsi debs=/cache/open-iscsi
made_from=$({ cat selftests/iwarp/open-iscsi.sh; dpkg-query -W; } | sha256sum)
[ "$(cat $out.from 2>/dev/null)" != "$made_from" ] || exit 0

rm -rf $out $out.from $debs/archives
mkdir -p $out $debs/{archives,lists}/partial
# Neither the root's lists of packages nor what it has installed changes.
apt=(apt-get -q -y --no-install-recommends -o "Dir::State::Lists=$debs/lists" -o "Dir::Cache::Archives=$debs/archives"
	-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
"${apt[@]}" update
"${apt[@]}" --download-only install open-iscsi
for file in "$debs"/archives/*.deb; do dpkg-deb --extract "$file" $out; done
echo "$made_from" >$out.from
echo "$out has $(find $debs/archives -name '*.deb' | wc -l) packages"
