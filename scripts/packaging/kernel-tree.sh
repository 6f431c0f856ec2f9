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

mkdir -p "$tree/scripts" "$tree/rust/kernel"

# Debian's Makefile names the directory where the objects of the kernel are; here that is wherever the tree is.
# shellcheck disable=SC2016 # make expands it
sed 's|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT:=$(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))|' \
	"$headers/Makefile" >"$tree/Makefile"
for name in .config .kernelvariables Module.symvers arch include tools; do ln -s "$headers/$name" "$tree/$name"; done
for file in "$headers"/scripts/*; do ln -s "$file" "$tree/scripts/"; done

cp "$build/scripts/target.json" "$tree/scripts/"
cp "$build"/rust/*.rmeta "$build"/rust/*.so "$tree/rust/"
cp "$build"/rust/kernel/generated_*_asm.rs "$tree/rust/kernel/"
strip --strip-unneeded "$tree"/rust/*.so
sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(_R[^)]*\));$/\1/p' "$build"/rust/exports_*_generated.h | LC_ALL=C sort -u >"$tree/rust/exported"
