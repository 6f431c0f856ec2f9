#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# programs.sh: builds the programs of this project that run in VMs, the crafted peer and the hostile process, for the architecture of
# the kernel that the build root is for. Runs in the build root. They are in build/cargo/MACHINE-unknown-linux-gnu/release, where MACHINE
# is what `uname -m` says in such a VM.

set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2034 # for releases.sh
kernel_list=scripts/buildroot/kernels
. scripts/buildroot/releases.sh

name=$(configured_for /kernel/build/.config)
machine=$(architectures | awk -v name="$name" '$1 == name { print $2 }')
target=$machine-unknown-linux-gnu
variable=${target^^}
export "CARGO_TARGET_${variable//-/_}_LINKER=$machine-linux-gnu-gcc"
exec cargo build --quiet --release --locked --target "$target" --package peer --package user
