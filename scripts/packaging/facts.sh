# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What is built: `version`, the time of its last change in `epoch`, and `maintainer`. Sourced in the top directory. A release's tarball
# has them in the file .release, a checkout in git. A commit that is no release has its date and name in the version, so that
# each build is newer than those before.

module_version() { sed -n 's/^MODULE_VERSION("\(.*\)");$/\1/p' rust/cbindings/helpers/common.c; }

if [ -e .release ]; then
	# shellcheck source=/dev/null
	. ./.release
else
	git() { command git -c safe.directory="$PWD" "$@"; }
	version=$(module_version)
	epoch=$(git log -1 --format=%ct)
	# shellcheck disable=SC2034 # for who sources this
	maintainer=$(git log -1 --format='%an <%ae>')
	git describe --exact-match --match "v$version" >/dev/null 2>&1 ||
		version+=+git$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd).$(git rev-parse --short=8 HEAD)
	unset -f git
fi
export SOURCE_DATE_EPOCH=$epoch
