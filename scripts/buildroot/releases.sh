# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
#
# What a kernel's release says, and which kernels are listed. Sourced, also by /bin/sh and by what DKMS builds with; who sources it
# sets `kernel_list`, the file with the list of kernels. The table of architectures is beside that.
#
# KVER is a release, or what releases begin with, with flavour and architecture behind it as releases have them: 7.3.4+deb13-cloud-amd64,
# 7.3.4-cloud, 7.3-rt, 7.3, 7.3-arm64, 7.3-cloud-arm64, 7.3-arm64-16k. Without an architecture amd64 is meant.

# The lines of the list, or those of one flavour and architecture: KVER, suite, flavour, architecture.
listed() {
	awk -v flavour="${1:-}" -v architecture="${2:-}" '
		!/^(#|$)/ && (flavour == "" || $3 == flavour) && (architecture == "" || $4 == architecture)' "${kernel_list:?}"
}

# The series of the generic kernels for amd64 in the list, the newest first.
listed_series() { listed generic amd64 | awk '{ print $1 }'; }

# The oldest series that this project is for, of whichever flavour.
oldest_series() { listed | while read -r kver _; do series_of "$kver"; done | sort -V | head -n 1; }

# The lines of the table: Debian's name, what `uname -m` says, ARCH, and what QEMU is told.
architectures() { grep -vE '^(#|$)' "${kernel_list%/*}/architectures"; }

# The architecture of the kernel that was configured in $1, by Debian's name. Fails if it is none of the table.
configured_for() {
	architectures | while read -r name _ arch _; do
		if grep -qs "^CONFIG_$(echo "$arch" | tr '[:lower:]' '[:upper:]')=y" "$1"; then echo "$name"; fi
	done | grep .
}

series_of() { echo "$1" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/'; }

flavour_of() {
	case $1 in
	*-cloud | *-cloud-*) echo cloud ;;
	*-rt | *-rt-*) echo rt ;;
	*-16k) echo 16k ;;
	*) echo generic ;;
	esac
}

architecture_of() {
	case $1 in
	*-arm64 | *-arm64-*) echo arm64 ;;
	*) echo amd64 ;;
	esac
}

# release_suffix FLAVOUR ARCHITECTURE: the end of a release, as Debian has it.
release_suffix() {
	case $1 in
	generic) echo "-$2" ;;
	16k) echo "-$2-16k" ;;
	*) echo "-$1-$2" ;;
	esac
}

# kver_suffix FLAVOUR ARCHITECTURE: the end of a KVER for these.
kver_suffix() { release_suffix "$1" "$2" | sed 's/-amd64$//'; }

# A KVER without flavour and architecture.
bare() { echo "$1" | sed -E 's/(-(cloud|rt))?(-(amd64|arm64))?(-16k)?$//'; }

# names KVER RELEASE: whether that kernel is meant. 7.3.1 is no beginning of 7.3.10.
names() {
	[ "$(flavour_of "$1") $(architecture_of "$1")" = "$(flavour_of "$2") $(architecture_of "$2")" ] || return
	case $(bare "$2") in
	"$(bare "$1")" | "$(bare "$1")".* | "$(bare "$1")"+*) ;;
	*) return 1 ;;
	esac
}

# tried RELEASE [FLAVOUR ARCHITECTURE]: whether the list has the series, in that flavour and for that architecture, which do not stand in
# the release of a kernel that is not Debian's.
tried() {
	listed "${2:-$(flavour_of "$1")}" "${3:-$(architecture_of "$1")}" | awk -v series="$(series_of "$1")" '
		match($1, /^[0-9]+\.[0-9]+/) && substr($1, 1, RLENGTH) == series { found = 1 } END { exit !found }'
}

untried() {
	printf 'warning: nobody has tried this project with kernel %s yet (tried: %s)\n' "$1" "$(listed | awk '{ print $1 }' | xargs)"
}
