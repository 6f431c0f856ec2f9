#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module loads and unloads, and never two of its name at the same time.

. ./lib.sh
clear_logs

modprobe sunrpc
in_tree=$(find "/lib/modules/$(uname -r)/kernel" -name 'rpcrdma.ko*')
ours=/lib/modules/$(uname -r)/updates/rpcrdma.ko
[ -e "$ours" ] || ours=$in_tree

load_and_unload() {
	for _ in $(seq 20); do
		modprobe rpcrdma && [ -e /sys/module/rpcrdma ] || return
		rmmod rpcrdma && [ ! -e /sys/module/rpcrdma ] || return
	done
}

describes_itself() {
	[ "$(modinfo -F license rpcrdma | tail -n 1)" != "" ] && modinfo -F description rpcrdma | grep -q . || return
	[ "$ours" = "$in_tree" ] || [ "$(cat /sys/module/rpcrdma/version)" = "$(modinfo -F version "$ours")" ]
}

# insmod says why it refuses, and the loaded module is not affected.
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
check "it loads and unloads 20 times" load_and_unload
modprobe rpcrdma
check "its description, licence and version are right" describes_itself
check "a second load is refused" refused "$ours"
check "the in-tree module is refused beside it" refused "$in_tree"
rmmod rpcrdma
# shellcheck disable=SC2086 # a list of modules, which is empty where the kernel has them built in
[ -z "$dependencies" ] || modprobe -a $dependencies
insmod "$in_tree"
check "it is refused beside the in-tree module" refused "$ours"
check "the in-tree module unloads after that" rmmod rpcrdma
finish
