#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# objects.sh DIR KERNEL: removes from DIR, where the module is built, what was built there for another kernel than KERNEL.
#
# make compares times, and goes by the same names for each kernel. Headers and metadata of the other one may well be the older,
# and so what was made from the newer would stay.

set -eu
dir=$1 kernel=$2 stamp=$1/.built-for

[ "$(cat "$stamp" 2>/dev/null)" != "$kernel" ] || exit 0
find "$dir" -maxdepth 1 -type f \( -name '*.ko' -o -name '*.o' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' \
	-o -name Module.symvers -o -name modules.order \) -delete
find "$dir/rust" -type f \( -name '*.o' -o -name '*.rmeta' -o -name '*_generated.rs' -o -name '.*.cmd' -o -name '*.d' \) -delete
printf '%s\n' "$kernel" >"$stamp"
