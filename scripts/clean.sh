#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# clean.sh [cache]: removes what builds and tests left in the checkout; or the cache.

. "$(dirname "$0")/lib.sh"

if [ "${1:-}" = cache ]; then
	[ ! -d "$cache" ] || in_namespace rm -rf --one-file-system "$cache"
	exit
fi

# Kbuild's own `clean` wants a kernel; these are its products by name, and build/ holds all the rest.
cd "$top"
find Kbuild rust include -depth \( -name '*.o' -o -name '*.rmeta' -o -name '.*.cmd' -o -name '.*.d' -o -name generated \) \
	-exec rm -rf {} +
rm -rf build modules.order Module.symvers .modules.order.cmd .Module.symvers.cmd .module-common.o ./*.o ./*.ko ./*.mod \
	./*.mod.c .*.cmd
