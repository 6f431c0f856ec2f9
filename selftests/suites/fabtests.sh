#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fabtests.sh TARBALL LAYER: builds libfabric's own tests from its source, as Debian has it, for the libfabric of the layer, and puts them
# there. Their own build asks for autotools, which the build root lacks; the list of programs and what each consists of is their
# Makefile.am's. Runs in the build root.

set -euo pipefail
tarball=$1 layer=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar --extract --directory "$work" --strip-components 1 --wildcards --file "$tarball" 'libfabric-*/fabtests' 'libfabric-*/include'
cd "$work/fabtests"

# What their configure would find on this machine, without any accelerator.
cat >config.h <<'END'
#define PACKAGE_VERSION "fabtests"
#define ENABLE_DEBUG 0
#define HAVE_CLOCK_GETTIME 1
#define HAVE_CUDA_RUNTIME_H 0
#define HAVE_CUDA_DMABUF 0
#define HAVE_EPOLL 1
#define HAVE_ZE 0
#define HAVE___INT128 1
END

programs='functional|benchmarks|unit|ubertest|multinode|regression'
# sources PREFIX: what the Makefile.am lists for that target, with the lists that it shares.
sources() {
	sed -n "/^$1 *=/,/[^\\\\]\$/p" Makefile.am | grep -oE '[^ 	]+\.[ch]|\$\([a-z_]+\)' | while read -r name; do
		if [[ $name = \$* ]]; then sources "${name:2:-1}"; else echo "$name"; fi
	done | grep '\.c$'
}
data=/usr/share/fabtests
flags=(-O2 -w -D_GNU_SOURCE -DHAVE_CONFIG_H "-DCONFIG_PATH=\"$data\"" -I. -Iinclude -Imultinode/include -I../include)
mkdir -p objects "$layer/usr/bin" "$layer$data"
for source in $(sources libfabtests_la_SOURCES); do
	gcc "${flags[@]}" -c "$source" -o "objects/$(basename "$source" .c).o"
done
built=0
mapfile -t targets < <(sed -nE "s@^	(($programs)/[a-z_]+)[[:space:]]*\\\\?\$@\1@p" Makefile.am | sort -u)
for program in "${targets[@]}"; do
	mapfile -t files < <(sources "${program//\//_}_SOURCES")
	[ ${#files[@]} -gt 0 ] || { echo "the Makefile.am does not say what $program consists of" >&2; exit 1; }
	gcc "${flags[@]}" "${files[@]}" objects/*.o -o "$layer/usr/bin/$(basename "$program")" \
		-L"$layer/usr/lib/x86_64-linux-gnu" -l:libfabric.so.1 -Wl,--allow-shlib-undefined -lpthread -ldl -lm
	built=$((built + 1))
done
cp scripts/runfabtests.sh "$layer/usr/bin"
cp -r test_configs "$layer$data"
echo "$built programs of fabtests"
