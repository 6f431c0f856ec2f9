#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# fmt.sh [--check]: formats all Rust sources, or says which are not formatted. Runs in the build root.

cd "$(dirname "$0")/.." || exit
git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard '*.rs' |
	xargs -0 rustfmt --edition 2021 --config-path rust/.rustfmt.toml "$@"
