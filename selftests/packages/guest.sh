# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the scripts share that run in a VM whose root is a chroot of packages.sh. Sourced there; `claims` is what their claims begin with.

cd /src || exit
. selftests/packages/document.sh
cd /
count=0 failed=0

# claim NAME CONDITION...
claim() {
	local name=$1 word=ok
	shift
	count=$((count + 1))
	if ! "$@" >/tmp/said 2>&1; then word='not ok' failed=$((failed + 1)); fi
	# shellcheck disable=SC2154 # set by who sources this
	echo "# $word $count - $claims: $name"
	[ "$word" = ok ] || sed 's/^/#    /' /tmp/said
}

# typed HEADING NUMBER [SED-SCRIPT]: types a block of commands of docs/install.md, changed by the sed script, in the current directory.
typed() { bash -exc "$(cd /src && block "$1" "$2" | sed "${3:-}")"; }

# within SECONDS COMMAND...: it succeeds within that time.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return
		sleep 0.3
	done
}

# sunrpc frees a connection some time after the last umount.
unloads() { within 60 rmmod rpcrdma; }
logged() { within 60 eval "dmesg | grep -F '$1'"; }
runs() { [ "$(cat /sys/module/rpcrdma/version)" = "$1" ]; }
in_tree_runs() { [ -e /sys/module/rpcrdma ] && [ ! -e /sys/module/rpcrdma/version ]; }

results() { echo "# 1..$count"; [ "$failed" -eq 0 ]; }
