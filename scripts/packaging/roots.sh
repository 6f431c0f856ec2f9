#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# roots.sh clean|tools: makes sure of a Debian root in the cache, and prints where it is.
#
#   clean  Debian 13 as a user has it before any package of this project: with trixie-backports in the apt sources
#   tools  a copy of that with what builds and checks packages (scripts/packaging/tools)
#
# Names are digests of what they were made from, as the build root's is (scripts/lib.sh).

. "$(dirname "$0")/../lib.sh"

here=$top/scripts/packaging
roots=$cache/packaging
log=$roots/roots.log
. "$top/scripts/base.sh"

clean_root() { printf '%s/clean-%s\n' "$roots" "$(digest <"$here/clean.sh")"; }
tools_root() { printf '%s/tools-%s\n' "$roots" "$(cat "$here/clean.sh" "$here/tools" | digest)"; }

make_clean() {
	[ ! -d "$(clean_root)" ] || return 0
	stage "clean Debian root"
	make_base "$roots/tmp.clean"
	ROOT_DIR=$roots/tmp.clean KERNEL_DIR=$recipe "$top/scripts/enter" scripts/packaging/clean.sh >>"$log" 2>&1 ||
		failed "could not set up the clean Debian root"
	mv -T "$roots/tmp.clean" "$(clean_root)"
}

make_tools() {
	[ ! -d "$(tools_root)" ] || return 0
	make_clean
	stage "root with the tools for packages"
	in_namespace cp -a "$(clean_root)" "$roots/tmp.tools"
	# shellcheck disable=SC2046 # one word is one package
	ROOT_DIR=$roots/tmp.tools KERNEL_DIR=$recipe "$top/scripts/enter" env DEBIAN_FRONTEND=noninteractive \
		apt-get -q install -y --no-install-recommends $(grep -v '^#' "$here/tools") >>"$log" 2>&1 ||
		failed "could not install the tools for packages"
	mv -T "$roots/tmp.tools" "$(tools_root)"
}

mkdir -p "$roots/archives"
exec 9>"$roots/lock"
flock 9
if [ ! -d "$("$1_root")" ]; then
	check_machine
	remove "$roots"/tmp.*
	trap 'remove "$roots"/tmp.*' EXIT
	check_space 4 "The roots for packages"
	"make_$1"
fi
"$1_root"
