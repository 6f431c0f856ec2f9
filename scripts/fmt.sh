#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fmt.sh [--check]: formats all Rust sources, or says which are not formatted. Runs in the build root.

set -euo pipefail
cd "$(dirname "$0")/.."
git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard '*.rs' |
	xargs -0 rustfmt --edition 2021 --config-path rust/.rustfmt.toml "$@"
