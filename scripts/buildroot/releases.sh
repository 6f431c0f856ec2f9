# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
#
# What a kernel's release says, and which kernels are listed. Sourced, also by /bin/sh and by what DKMS builds with; who sources it
# sets `kernel_list`, the file with the list of kernels. The tables of architectures and suites are beside that.
#
# KVER is a release, or what releases begin with, with flavour and architecture behind it as releases have them: 7.3.4+deb13-cloud-amd64,
# 7.3.4-cloud, 7.3-rt, 7.3, 7.3-arm64, 7.3-cloud-arm64, 7.3-arm64-16k. Without an architecture amd64 is meant. The name of a suite stands
# before these: 7.2-forky, 7.2.12-sid-cloud; alone it means the newest kernel that the suite has: forky, sid-rt. The release of a candidate
# is that of its series: 7.3-amd64, which is not what KVER=7.3-amd64 means, but KVER=7.3-experimental.

# The lines of the list, or those of one flavour, architecture and suite: KVER, suite, flavour, architecture.
listed() {
	awk -v flavour="${1:-}" -v architecture="${2:-}" -v suite="${3:-}" '
		!/^(#|$)/ && (flavour == "" || $3 == flavour) && (architecture == "" || $4 == architecture) &&
			(suite == "" || $2 == suite)' "${kernel_list:?}"
}

# The series of the generic kernels for amd64 in the list that users install, the newest first.
listed_series() { listed generic amd64 "$(main_suite)" | awk '{ print $1 }'; }

# The oldest series that this project is for, of whichever flavour.
oldest_series() { listed '' '' "$(main_suite)" | while read -r kver _; do series_of "$kver"; done | sort -V | head -n 1; }

# The lines of the table: a suite, that of its build root, and the mark of its releases.
suite_table() { grep -vE '^(#|$)' "${kernel_list%/*}/suites"; }

main_suite() { suite_table | awk 'NR == 1 { print $1 }'; }

# The suite that a KVER names.
suite_of() {
	suite_table | while read -r suite _; do
		case -$1- in *-"$suite"-*) echo "$suite" ;; esac
	done | grep . || main_suite
}

# base_of SUITE: what a build root for its kernels is installed of.
base_of() { suite_table | awk -v suite="$1" '$1 == suite { print $2 }'; }

# mark_of SUITE: what stands behind the numbers of its releases.
mark_of() { suite_table | awk -v suite="$1" '$1 == suite { print $3 }'; }

# The lines of the table: Debian's name, what `uname -m` says, ARCH, and what QEMU is told.
architectures() { grep -vE '^(#|$)' "${kernel_list%/*}/architectures"; }

# The architecture of the kernel that was configured in $1, by Debian's name. Fails if it is none of the table.
configured_for() {
	architectures | while read -r name _ arch _; do
		if grep -qs "^CONFIG_$(echo "$arch" | tr '[:lower:]' '[:upper:]')=y" "$1"; then echo "$name"; fi
	done | grep .
}

series_of() { echo "$1" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/'; }

# is_candidate RELEASE: whether that is the release of a candidate, as experimental has them.
is_candidate() { [ "$(bare "$1")" = "$(series_of "$1")" ]; }

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

# A KVER without suite, flavour and architecture.
bare() { echo "$1" | sed -E "s/(^|-)$(suite_table | awk '{ print $1 }' | paste -sd'|' | sed 's/.*/(&)/')(-|\$)/\3/; s/(-(cloud|rt))?(-(amd64|arm64))?(-16k)?\$//"; }

# names KVER RELEASE: whether that kernel is meant, if it is of the same suite. 7.3.1 is no beginning of 7.3.10.
names() {
	[ "$(flavour_of "$1") $(architecture_of "$1")" = "$(flavour_of "$2") $(architecture_of "$2")" ] || return
	[ -n "$(bare "$1")" ] || return 0
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
