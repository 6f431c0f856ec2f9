#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unpack.sh DIRECTORY PACKAGE...: unpacks these Debian packages, and what they depend on and the build root lacks, in an empty directory:
# a layer over the root of a VM. No script of a package runs, and the build root stays as it is. Leaves in /cache/suites/apt the words of
# an apt-get that has such lists of packages. Runs in the build root.

set -euo pipefail
out=$1 debs=/cache/suites
shift

mkdir -p $debs/{archives,lists}/partial
sed -n 's/^deb /&/p; s/^deb /deb-src /p' /etc/apt/sources.list >$debs/sources.list
# Neither the root's lists of packages nor what it has installed changes.
apt=(apt-get -q -y --no-install-recommends -o "Dir::State::Lists=$debs/lists" -o "Dir::Cache::Archives=$debs/archives"
	-o "Dir::Etc::SourceList=$debs/sources.list" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
printf '%s\n' "${apt[@]}" >$debs/apt
"${apt[@]}" update
"${apt[@]}" --download-only install "$@"
mapfile -t files < <("${apt[@]}" --simulate install "$@" |
	sed -nE 's/^Inst ([^ ]+) (\[[^]]*\] )?\(([^ ]+) .* \[([a-z0-9]+)\].*/\1_\3_\4.deb/p' | sed 's/:/%3a/g')
[ ${#files[@]} -gt 0 ] || { echo "error: apt-get does not say which packages it would install" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
for file in "${files[@]}"; do dpkg-deb --extract "$debs/archives/$file" "$out"; done
echo "$out has ${#files[@]} packages, $(du -sh "$out" | cut -f1)"
