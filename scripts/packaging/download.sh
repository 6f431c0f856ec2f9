#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# download.sh ARCHITECTURE DIR PACKAGES [ALONE]: downloads into DIR, for another architecture, PACKAGES and all that they need on a machine
# that has nothing yet, and ALONE without what they need. Runs inside a Debian root, whose apt sources it takes; nothing is installed
# there. The names of all but ALONE are in DIR/order, in the order in which apt would install them.

set -euo pipefail
architecture=$1 dir=$2 packages=$3 alone=${4:-}
state=$(mktemp -d)

apt_get() {
	apt-get -q -y -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" -o APT::Install-Recommends=false \
		-o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state" \
		-o Dir::Cache::archives="$dir" -o APT::Sandbox::User=root "$@"
}

mkdir -p "$state/lists/partial" "$dir/partial"
: >"$state/status"
apt_get update
# shellcheck disable=SC2086 # one word is one package
apt_get install --simulate $packages | sed -nE 's/^Inst ([^ :]*).*/\1/p' >"$dir/order"
# shellcheck disable=SC2086
apt_get install --download-only $packages
# shellcheck disable=SC2086
[ -z "$alone" ] || (cd "$dir" && apt_get download $alone)
rm -r "$state" "$dir/partial"
rm -f "$dir/lock"
