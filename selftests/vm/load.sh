#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module comes and goes, and never twice.

. ./lib.sh
clear_logs

modprobe sunrpc
kernels_own=$(find "/lib/modules/$(uname -r)/kernel" -name 'rpcrdma.ko*')
ours=/lib/modules/$(uname -r)/updates/rpcrdma.ko
[ -e "$ours" ] || ours=$kernels_own

load_and_unload() {
	for _ in $(seq 20); do
		modprobe rpcrdma && [ -e /sys/module/rpcrdma ] || return
		rmmod rpcrdma && [ ! -e /sys/module/rpcrdma ] || return
	done
}

describes_itself() {
	[ "$(modinfo -F license rpcrdma | tail -n 1)" != "" ] && modinfo -F description rpcrdma | grep -q . || return
	[ "$ours" = "$kernels_own" ] || [ "$(cat /sys/module/rpcrdma/version)" = "$(modinfo -F version "$ours")" ]
}

# The loader refuses with a clear word, and the module that is there goes on as before.
refused() {
	local said state
	state=$(loaded)
	said=$(insmod "$1" 2>&1) && { echo "loaded a second time"; return 1; }
	grep -q 'File exists' <<<"$said" || { echo "$said"; return 1; }
	[ "$(loaded)" = "$state" ] && grep -q '^rpcrdma .* Live ' /proc/modules
}

# insmod wants what modprobe would have loaded first.
modprobe rpcrdma
dependencies=$(modinfo -F depends rpcrdma | tr , ' ')
rmmod rpcrdma

plan 6
check "loads and unloads 20 times" load_and_unload
modprobe rpcrdma
check "tells what it is" describes_itself
check "a second load is refused" refused "$ours"
check "the kernel's own module is refused beside it" refused "$kernels_own"
rmmod rpcrdma
# shellcheck disable=SC2086 # a list of modules
modprobe -a $dependencies
insmod "$kernels_own"
check "it is refused beside the kernel's own module" refused "$ours"
check "the kernel's own module unloads after that" rmmod rpcrdma
finish
