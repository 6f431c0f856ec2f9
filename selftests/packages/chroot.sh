# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Chroots in states: each state is what one test made of a state before it, in layers over a clean Debian root, so several
# tests can go on from one. Sourced. Who sources it sets `work`, a directory for the layers, and `packages`, what appears as
# /packages in the chroots.

# shellcheck disable=SC2154 # set by who sources this
: "${work:?}" "${clean:?}" "${packages:?}" "${cache:?}"

# state NAME [PARENT]: the commands that follow work on the new state NAME, which begins as PARENT, or as the clean root.
state() {
	state=$work/$1
	in_namespace rm -rf --one-file-system "$state"
	mkdir -p "$state/upper" "$state/work" "$state/root"
	echo "$clean" >"$state/lower"
	[ $# -eq 1 ] || echo "$work/$2/upper:$(cat "$work/$2/lower")" >"$state/lower"
}

# in_mounted COMMAND...: runs it on the host, where the state's root directory is mounted.
in_mounted() {
	# shellcheck disable=SC2016 # the inner shell expands its own arguments
	in_namespace bash -euc '
		state=$1 options=; shift
		[ "$(tr -s " " </proc/self/uid_map)" = " 0 0 4294967295" ] || options=,userxattr
		mount -t overlay -o "lowerdir=$(cat "$state/lower"),upperdir=$state/upper,workdir=$state/work$options" overlay "$state/root"
		exec "$@"
	' in_mounted "$state" "$@"
}

# in_chroot COMMAND...: runs it in the state as root, with the packages that were downloaded before at hand.
in_chroot() {
	# shellcheck disable=SC2016 # the inner shell expands its own arguments
	in_mounted bash -euc '
		root=$1 packages=$2 archives=$3; shift 3
		mount --rbind /proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		mkdir -p "$root/packages"
		mount --bind "$packages" "$root/packages"
		mount --bind "$archives" "$root/var/cache/apt/archives"
		for file in /etc/resolv.conf /etc/hosts; do
			if [ -s "$file" ]; then touch "$root$file"; mount --bind "$(readlink -f "$file")" "$root$file"; fi
		done
		exec env -i "$@"
	' in_chroot "$state/root" "$packages" "$cache/packaging/archives" HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive INITRD=No \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		chroot "$state/root" bash -c "$*" </dev/null
}

# runs_kernel RELEASE: what uname says in the chroot from now on.
runs_kernel() {
	in_chroot "printf '#!/bin/sh\n[ \"\$*\" = -r ] && exec echo %s\nexec /usr/bin/uname \"\$@\"\n' '$1' >/usr/local/bin/uname
		chmod +x /usr/local/bin/uname"
}
