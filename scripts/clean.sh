#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# clean.sh [cache]: removes what builds and tests left in the checkout; or the cache.

. "$(dirname "$0")/lib.sh"

if [ "${1:-}" = cache ]; then
	[ ! -d "$cache" ] || in_namespace rm -rf --one-file-system "$cache"
	exit
fi

# Kbuild's own `clean` wants a kernel. What git ignores is what builds left.
cd "$top"
git clean -qfdX Kbuild include rust selftests ':(glob)*' ':(glob).*.cmd' build
