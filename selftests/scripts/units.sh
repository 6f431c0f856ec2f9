#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What systemd makes of the units of the packages: they are without a fault, also for a network device whose name has to be escaped; when
# they are enabled they start at boot, and when the network device comes; and what they run. Runs in the build root.

set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
units=$work/usr/lib/systemd/system count=0 failed=0
mkdir -p "$units"
cp "$top"/scripts/packaging/*.service "$units"

# claim NAME COMMAND...
claim() {
	local name=$1 word=ok said
	shift
	count=$((count + 1))
	said=$("$@" 2>&1) || word='not ok'
	[ "$word" = ok ] || failed=$((failed + 1))
	echo "$word $count - $name"
	[ "$word" = ok ] || echo "# ${said//$'\n'/$'\n# '}"
}

without_fault() {
	local said
	said=$(systemd-analyze --man=no verify "$units/$1" 2>&1) || said+=" status $?"
	echo "$said"
	[ -z "$said" ]
}

# starts_for TYPE DEVICE: who wants the unit, once it is enabled.
starts_for() {
	local by
	systemctl -q --root="$work" enable "$1@$2.service" || return
	for by in multi-user.target "sys-subsystem-net-devices-$2.device"; do
		[ -L "$work/etc/systemd/system/$by.wants/$1@$2.service" ] || { find "$work/etc"; return 1; }
	done
}

has_line() { grep -qxF "$2" "$units/$1"; }

for type in iwarp-tcp iwarp-sctp; do
	for device in eth0 'br\x2dlan'; do
		claim "$type on $device is without a fault" without_fault "$type@$device.service"
		claim "it starts at boot, and when the device comes" starts_for "$type" "$device"
	done
	claim "$type runs rdma" has_line "$type@.service" 'ExecStart=rdma link add %p-%I type %p netdev %I'
	claim "it is there before mounts and nfsd" has_line "$type@.service" 'Before=remote-fs-pre.target nfs-server.service'
done

echo "1..$count"
[ "$failed" -eq 0 ]
