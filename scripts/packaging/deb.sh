#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deb.sh: makes the Debian packages in build/deb: rpcrdma-rust-dkms and rpcrdma-rust, and linux-rust-metadata-<release> for the newest
# generic kernel of each series in scripts/buildroot/kernels that is to be had, or for those in KVER. The same sources give the same bytes.

. "$(dirname "$0")/../lib.sh"
cd "$top"
. scripts/packaging/facts.sh

out=build/deb
log=$out/build.log
work=$out/src

# prepare TEMPLATE DIR VERSION SED-SCRIPT: makes DIR/debian out of a template.
prepare() {
	local file
	cp -r "scripts/packaging/$1" "$2/debian"
	find "$2/debian" -type f | while read -r file; do sed -i "s/@MAINTAINER@/$maintainer/; $4" "$file"; done
	cp scripts/packaging/debian/copyright "$2/debian/copyright"
	cat >"$2/debian/changelog" <<-END
		$(sed -n 's/^Source: //p' "$2/debian/control") ($3) trixie; urgency=medium

		  * CHANGELOG.md has the changes of this version.

		 -- $maintainer  $(date -uRd "@$epoch")
	END
}

# package DIR [ARCHITECTURE]: builds what DIR/debian describes. For another architecture than this machine's nothing is compiled, so what
# compiles for it need not be there.
package() {
	local options=(--build=binary --no-sign)
	if [ "${2:-amd64}" != amd64 ]; then options+=(--host-arch="$2" --no-check-builddeps); fi
	ROOT_DIR=$tools KERNEL_DIR=$recipe scripts/enter sh -ec "cd '$1'; dpkg-buildpackage ${options[*]}" >>"$log" 2>&1 ||
		{ tail -n 30 "$log" >&2; die "the packages of $(basename "$1") could not be built; the log is $log"; }
}

# sources DIR: copies there what the packages take from this tree: what builds the modules, without what cargo reads.
sources() {
	local parts=(Kbuild README.md SECURITY.md CHANGELOG.md docs include rust scripts)
	if [ -e .release ]; then
		find "${parts[@]}" -type f ! -name '*.o' ! -name '*.rmeta' ! -name '*_generated.rs' ! -name '.*.cmd' ! -name '*.d'
	else
		git -c safe.directory="$PWD" ls-files "${parts[@]}"
	fi | grep -vE '^rust/[a-z]+/(Cargo\.toml|README\.md|(tests|benches)/)' | xargs cp --parents -t "$1"
}

# What was recorded of the kernel that root $1 is for: the version of its packages.
kernel_version() { awk -v p="linux-headers-$2" '$1 == p { print $2 }' "$1/etc/rpcrdma/toolchain"; }

metadata() {
	local root release architecture dir version tree
	KVER=$1 scripts/buildroot.sh
	root=$(KVER=$1 root_dir)
	release=$(cat "$root/etc/rpcrdma/kver")
	architecture=$(architecture_of "$release")
	version=$(kernel_version "$root" "$release")
	stage "linux-rust-metadata-$release $version"
	dir=$work/linux-rust-metadata-$release
	mkdir "$dir"
	if [ "$architecture" = amd64 ]; then
		KVER=$1 scripts/enter scripts/packaging/kernel-tree.sh "$release" /kernel/build "$dir/tree" >>"$log" 2>&1 ||
			die "the metadata of kernel $release could not be collected; the log is $log"
	else
		tree=$(scripts/packaging/foreign.sh "$1")
		cp -a "$tree" "$dir/tree"
	fi
	prepare debian-metadata "$dir" "$version" "s/@RELEASE@/$release/g; s/@ARCHITECTURE@/$architecture/g; s/@NUMBERS@/${release%%+*}/g; s/@SERIES@/$(cut -d. -f1,2 <<<"$release")/g; s/@KERNEL@/$version/g"
	package "$dir" "$architecture"
}

# The modules that DKMS is told of are those of Kbuild.
modules() { sed -n 's/^obj-m *[:+]*= *//p' Kbuild | tr ' ' '\n' | sed -n 's/\.o$//p'; }

# What apt may install to have the metadata of each series: the package with it, or the kernel's source.
recommended_metadata() { listed_series | sed 's/.*/linux-rust-metadata-& | linux-source-&/' | paste -sd, | sed 's/,/, /g'; }

main_packages() {
	local dir=$work/rpcrdma-rust-$version module number=0
	stage "rpcrdma-rust-dkms and rpcrdma-rust $version"
	mkdir "$dir"
	sources "$dir"
	prepare debian "$dir" "$version-1" "s/@METADATA@/$(recommended_metadata)/"
	for module in $(modules); do
		printf 'BUILT_MODULE_NAME[%d]="%s"\nDEST_MODULE_LOCATION[%d]="/updates/dkms"\n' "$number" "$module" "$number"
		number=$((number + 1))
	done >>"$dir/debian/rpcrdma-rust-dkms.dkms"
	listed_series | sed 's|.*|interest-noawait /usr/src/linux-source-&.tar.xz|' >>"$dir/debian/rpcrdma-rust-dkms.triggers"
	package "$dir"
}

for kernel in ${KVER:-}; do
	[ "$(suite_of "$kernel")" = "$(main_suite)" ] || die "KVER=$kernel is of $(suite_of "$kernel"); packages are made for $(main_suite) only"
done
tools=$(scripts/packaging/roots.sh tools)
rm -rf "$out"
mkdir -p "$work"
main_packages
for kernel in ${KVER:-$(listed_series)}; do metadata "$kernel"; done
mv "$work"/*.deb "$out/"
stage "ready:"
ls -s --block-size=K "$out"/*.deb >&2
