#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# release.sh [DIR]: makes a release of the last commit in DIR (build/release): the source as a tarball, the packages that are built from
# that tarball, what CHANGELOG.md says of the version, and the checksums of all. The same commit gives the same bytes. A
# commit without the tag of its version gives a version with the commit's date and name in it.

. "$(dirname "$0")/../lib.sh"
cd "$top"
. scripts/packaging/facts.sh

out=${1:-build/release}
name=rpcrdma-rust-$version

[ -z "$(git -c safe.directory="$PWD" status --porcelain --untracked-files=no)" ] || die "there are changes that are not committed"
section=$(awk -v v="${version%%+*}" '
	/^## / { inside = ($0 ~ "^## \\[?Unreleased" || index($0, "## [" v "]") == 1) && !done; if (inside) done = 1 }
	inside' CHANGELOG.md)
[ -n "$section" ] || die "CHANGELOG.md says nothing of version $version"
[[ $version = *+git* || $section != *Unreleased* ]] || die "CHANGELOG.md has a section Unreleased, and $version is tagged"

scripts/buildroot.sh
rm -rf "$out"
mkdir -p "$out/src"
printf '%s\n' "$section" >"$out/CHANGES.md"
stage "$name.tar.xz"
# shellcheck disable=SC2016 # the inner shell expands its own arguments
scripts/enter bash -o pipefail -c 'git -c safe.directory=/src archive --prefix="$1/" --add-virtual-file="$1/.release:$2" HEAD | xz -T1 -9' \
	sh "$name" "$(printf 'version=%q epoch=%q maintainer=%q\n' "$version" "$epoch" "$maintainer")" >"$out/$name.tar.xz"
tar -xf "$out/$name.tar.xz" -C "$out/src"
"$out/src/$name/scripts/packaging/deb.sh"
mv "$out/src/$name"/build/deb/*.deb "$out/"
rm -rf "$out/src"
(cd "$out" && sha256sum -- *.deb *.tar.xz CHANGES.md >SHA256SUMS)
stage "ready: $out"
cat "$out/SHA256SUMS" >&2
