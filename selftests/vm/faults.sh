# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Fault injection, on the machine whose shell reads this.

faults=/sys/kernel/debug

# arm KIND SETTING=VALUE...: sets up a kind of fault.
arm() {
	local setting
	for setting in "${@:2}"; do
		echo "${setting#*=}" >"$faults/$1/${setting%%=*}" || return
	done
}

# setting KIND NAME: what it is now. `times` and `space` run down.
setting() { cat "$faults/$1/$2"; }

# code MODULE PATTERN: where the first function of the module begins whose name matches, and the next one. The kernel itself
# is the module "".
code() {
	awk -v module="$1" '$4 == module && $2 ~ /[tT]/ { print $1, $3 }' /proc/kallsyms | sort |
		awk -v name="$2" 'start { print start, "0x" $1; exit } $2 ~ name { start = "0x" $1 }'
}

# aim SYMBOL: what will fail are allocations with that function of the module on their stack. SYMBOL is a part of its
# mangled name. The kernel's reference tracker is spared: it goes on without memory, but complains.
aim() {
	local kind start end spared spared_end
	read -r start end < <(code '[rpcrdma]' "$1")
	read -r spared spared_end < <(code "" '^ref_tracker_alloc$')
	[ -n "$end" ] || { echo "the module has no function $1"; return 1; }
	[ -n "$spared_end" ] || { echo "the kernel does not track references"; return 1; }
	clear_faults
	arm fail_page_alloc min-order=0 ignore-gfp-highmem=N
	for kind in failslab fail_page_alloc; do
		arm $kind require-start="$start" require-end="$end" reject-start="$spared" reject-end="$spared_end" \
			stacktrace-depth=32 ignore-gfp-wait=N task-filter=N verbose=0 || return
	done
}

# Nothing fails any more.
clear_faults() {
	local kind
	for kind in failslab fail_page_alloc fail_sunrpc; do
		arm $kind probability=0 times=0 interval=1 space=0
	done
}
