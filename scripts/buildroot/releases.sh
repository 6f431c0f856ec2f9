# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
#
# What a kernel's release says, and which kernels are listed. Sourced, also by /bin/sh and by what DKMS builds with; who sources it
# sets `kernel_list`, the file with the list of kernels.
#
# KVER is a release, or what releases begin with, with the flavour behind it: 7.3.4+deb13-cloud-amd64, 7.3.4-cloud, 7.3-rt, 7.3.

# The lines of the list, or those of one flavour: KVER, suite, flavour, architecture.
listed() { awk -v flavour="${1:-}" '!/^(#|$)/ && (flavour == "" || $3 == flavour)' "${kernel_list:?}"; }

# The series of the generic kernels in the list, the newest first.
listed_series() { listed generic | awk '{ print $1 }'; }

# The oldest series that this project is for, of whichever flavour.
oldest_series() { listed | while read -r kver _; do series_of "$kver"; done | sort -V | head -n 1; }

series_of() { echo "$1" | sed -E 's/^([0-9]+\.[0-9]+).*/\1/'; }

flavour_of() {
	case $1 in
	*-cloud | *-cloud-*) echo cloud ;;
	*-rt | *-rt-*) echo rt ;;
	*) echo generic ;;
	esac
}

# The end of a KVER for a flavour: what comes behind the series.
flavour_suffix() { [ "$1" = generic ] || echo "-$1"; }

# A KVER without flavour and architecture.
bare() { echo "$1" | sed -E 's/(-(cloud|rt))?(-amd64)?$//'; }

# names KVER RELEASE: whether that kernel is meant. 7.3.1 is no beginning of 7.3.10.
names() {
	[ "$(flavour_of "$1")" = "$(flavour_of "$2")" ] || return
	case $(bare "$2") in
	"$(bare "$1")" | "$(bare "$1")".* | "$(bare "$1")"+*) ;;
	*) return 1 ;;
	esac
}

# tried RELEASE [FLAVOUR]: whether the list has the series, in that flavour. The flavour of a kernel that is not Debian's does not stand
# in its release.
tried() {
	listed "${2:-$(flavour_of "$1")}" | awk -v series="$(series_of "$1")" '
		match($1, /^[0-9]+\.[0-9]+/) && substr($1, 1, RLENGTH) == series { found = 1 } END { exit !found }'
}

untried() {
	printf 'warning: nobody has tried this project with kernel %s yet (tried: %s)\n' "$1" "$(listed | awk '{ print $1 }' | xargs)"
}
