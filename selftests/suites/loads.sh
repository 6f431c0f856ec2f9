#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpacks stress-ng and dbench, programs that use file systems in many ways, in build/loads: a layer over the root of a VM, which
# soak.sh puts there. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/../.."

out=build/loads
made_from=$({ cat selftests/suites/{loads,unpack}.sh; dpkg-query -W; } | sha256sum)
[ "$(cat $out.from 2>/dev/null)" != "$made_from" ] || exit 0
rm -f $out.from
selftests/suites/unpack.sh $out stress-ng dbench
echo "$made_from" >$out.from
