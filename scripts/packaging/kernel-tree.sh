#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# kernel-tree.sh RELEASE BUILD TREE: makes TREE, where modules in Rust can be built for Debian's kernel RELEASE: links to its
# headers, and from BUILD, which metadata.sh made, the few files that its header packages lack.
#
# rust/exported lists the Rust symbols that this kernel exports. Their names carry a hash over source, configuration and compiler,
# so a comparison with Module.symvers says later whether the metadata still belongs to the headers that are installed.

set -eu
release=$1 build=$2 tree=$3
headers=/usr/src/linux-headers-$release
# The tools for the kernel's architecture, which may be another one than this machine's.
prefix=$("$(dirname "$0")/../built-with.sh" "$headers/.config" | tr ' ' '\n' | sed -n 's/^CROSS_COMPILE=//p')

mkdir -p "$tree/rust/kernel"

# Debian's Makefile names the directory where the objects of the kernel are; here that is wherever the tree is.
# shellcheck disable=SC2016 # make expands it
sed 's|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT:=$(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))|' \
	"$headers/Makefile" >"$tree/Makefile"
for name in .config .kernelvariables Module.symvers arch include tools; do ln -s "$headers/$name" "$tree/$name"; done
# rustc knows the target of some architectures, and others come with a description of it, among the scripts. Those of the headers may
# not be here: a build root has them for its own machine only.
if [ -e "$build/scripts/target.json" ]; then
	mkdir "$tree/scripts"
	for file in "$headers"/scripts/*; do ln -s "$file" "$tree/scripts/"; done
	cp "$build/scripts/target.json" "$tree/scripts/"
else
	ln -s "$headers/scripts" "$tree/scripts"
fi

cp "$build"/rust/*.rmeta "$build"/rust/*.so "$tree/rust/"
cp "$build"/rust/kernel/generated_*_asm.rs "$tree/rust/kernel/"
"${prefix}strip" --strip-unneeded "$tree"/rust/*.so
sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(_R[^)]*\));$/\1/p' "$build"/rust/exports_*_generated.h | LC_ALL=C sort -u >"$tree/rust/exported"
