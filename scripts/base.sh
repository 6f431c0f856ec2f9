# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What makes Debian roots in the cache: the build root (buildroot.sh) and those for packages (packaging/roots.sh). Sourced after
# lib.sh; who sources it sets `log`, the file where the output of what runs goes.

# shellcheck disable=SC2154 # set by who sources this
: "${log:?}" "${cache:?}"

check_machine() {
	[ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m); a build root is for x86-64 machines only" \
		"On the machine itself, make KDIR= builds for a kernel that has its Rust metadata."
	install_tools
	in_namespace true 2>/dev/null || die "cannot make a mount namespace" \
		"Run this as root, or as a user with subordinate ids (/etc/subuid, /etc/subgid)" \
		"on a kernel that lets users make namespaces (sysctl user.max_user_namespaces," \
		"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)."
}

# The only packages that the machine itself needs.
install_tools() {
	local packages=()
	command -v mmdebstrap >/dev/null || packages+=(mmdebstrap)
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
	[ "$(id -u)" -eq 0 ] || command -v newuidmap >/dev/null || packages+=(uidmap)
	[ ${#packages[@]} -gt 0 ] || return 0
	local sudo=()
	[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
	stage "installing on this machine: ${packages[*]}"
	{ "${sudo[@]}" apt-get install -y "${packages[@]}" ||
		{ "${sudo[@]}" apt-get update && "${sudo[@]}" apt-get install -y "${packages[@]}"; }; } >"$log" 2>&1 ||
		die "could not install ${packages[*]}; the log is $log" "As root: apt-get install ${packages[*]}"
}

# check_space GB WHAT
check_space() {
	local free_gb
	free_gb=$(($(df --output=avail -k "$cache" | tail -n 1) / 1048576))
	say "$2 take about $1 GB under $cache; $free_gb GB are free there."
	[ "$free_gb" -ge "$1" ] || die "not enough space under $cache: $free_gb GB free, $1 GB needed" \
		"XDG_CACHE_HOME=... names another place."
}

remove() { in_namespace rm -rf --one-file-system "$@"; }

# failed WHAT [STATUS]: says why, out of the log, and ends.
failed() {
	grep -E '^(error|E): |^       ' "$log" | uniq | tail -n 20 >&2 || true
	(die "$1" "The whole log is $log") || exit "${2:-1}"
}

# make_base ROOT [SUITE]: makes a Debian root, of trixie if no suite is named, with apt configured as on this machine, and empties the log.
make_base() {
	apt-config dump Acquire | grep -v ^Acquire::IndexTargets >"$1.apt.conf"
	in_namespace mmdebstrap --mode=root --variant=minbase --aptopt="$1.apt.conf" \
		"${2:-trixie}" "$1" ${MIRROR:+"$MIRROR"} >"$log" 2>&1 ||
		failed "could not install a Debian base system; is the package mirror within reach?"
	rm "$1.apt.conf"
	mkdir -p "$1/src" "$1/kernel" "$1/cache"
}
