# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What every script on the host side shares: messages, the cache's place and the namespace to work in.
# It asks for bash and util-linux only; all other tools live in the build root.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rpcrdma
recipe=$top/scripts/buildroot

say() { printf '%s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '       %s\n' "$@" >&2; exit 1; }

# Prints a progress line with the time since the script began.
stage() { printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

# Prints twelve digits that stand for the content on stdin.
digest() { sha256sum | cut -c1-12; }

# Runs a command as root of a mount namespace of its own: the real root, or one mapped over the user's subordinate ids.
in_namespace() {
	if [ "$(id -u)" -eq 0 ]; then
		unshare --mount "$@"
	else
		unshare --user --map-auto --map-root-user --mount "$@"
	fi
}

# shellcheck disable=SC2034 # for releases.sh
kernel_list=$recipe/kernels
. "$top/scripts/buildroot/releases.sh"

# Packages that only kernels of flavour $1 need in their build root, if there are any.
flavour_packages() { [ ! -e "$recipe/packages-$1" ] || grep -v '^#' "$recipe/packages-$1"; }

# root_key [FLAVOUR [ARCHITECTURE [SUITE]]]: the build root's name says what it was made from, so a changed recipe never meets an old root. The
# list of kernels is no part of that: the kernel's release stands in the name itself.
root_key() {
	local made_by=("$recipe"/{packages,install.sh}) suite=${3:-$(main_suite)}
	if [ "$suite" = "$(main_suite)" ]; then suite=; else made_by=("$recipe"/{packages,install-suite.sh}); fi
	if [ "${2:-amd64}" != amd64 ]; then made_by=("$recipe"/{packages,"packages-$2",packages-guest,install-cross.sh,guest.sh}); fi
	{ printf %s "$suite" && cat "${made_by[@]}" && flavour_packages "${1:-generic}"; } | digest
}

# Where the choice stands that an earlier run made from this list, when none of it was to be had.
root_choice() { printf '%s/choice-%s-%s\n' "$cache" "$(root_key)" "$(listed_series | digest)"; }

# The newest build root for $KVER, which is a release or what releases begin with. Without KVER, one for the first series of
# the list, or the one that an earlier run chose. Empty if there is none yet.
root_dir() {
	local wanted prefix dir='' candidate
	wanted=${KVER:-$(listed_series | head -n 1)}
	prefix=$cache/root-$(root_key "$(flavour_of "$wanted")" "$(architecture_of "$wanted")" "$(suite_of "$wanted")")-
	while read -r candidate; do
		if [ -d "$candidate" ] && names "$wanted" "${candidate#"$prefix"}"; then
			dir=$candidate
			break
		fi
	done < <(printf '%s\n' "$prefix"[0-9]* | sort -Vr)
	if [ -z "$dir" ] && [ -z "${KVER:-}" ]; then dir=$(root_choice); fi
	if [ -n "$dir" ] && [ -d "$dir/" ]; then readlink -f "$dir"; fi
}

# The kernel's source and build tree that belong to build root $1: the stock kernel's, or those of the kernel that KERNEL names,
# which is built from the same source (scripts/testkernel).
kernel_dir() {
	local name=kernel made_by=("$recipe/metadata.sh") dir=$top/scripts/testkernel
	case ${KERNEL:-} in
	'') ;;
	debug) name=debug made_by=("$dir"/build.sh "$dir"/*.patch "$dir"/config/{common,qemu,debug}) ;;
	rt-debug) name=rt-debug made_by=("$dir"/build.sh "$dir"/*.patch "$dir"/config/{common,qemu,debug,rt}) ;;
	uml) name=uml made_by=("$dir"/build.sh "$dir"/*.patch "$dir"/config/{common,uml,plain} "$dir"/uml/*.patch) ;;
	uml-debug) name=uml-debug made_by=("$dir"/build.sh "$dir"/*.patch "$dir"/config/{common,uml,debug} "$dir"/uml/*.patch) ;;
	*) die "KERNEL=$KERNEL names no kernel" "It is debug, rt-debug, uml or uml-debug; the stock kernel has no name." ;;
	esac
	printf '%s/%s-%s-%s\n' "$cache" "$name" "$(cat "$1/etc/rpcrdma/kver")" \
		"$(cat "$1/etc/rpcrdma/toolchain" "${made_by[@]}" | digest)"
}
