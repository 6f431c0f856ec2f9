#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# compiler.sh FILE: fails if rustc is not the one that FILE names: the configuration of a kernel, or Rust metadata.
#
# rustc reads no metadata but its own, and the hash in each exported Rust symbol's name has its version in it.

set -u
export LC_ALL=C
ours=$("${RUSTC:-rustc}" --version) || { echo "error: there is no ${RUSTC:-rustc}" >&2; exit 1; }
if grep -aqF "$ours" "$1"; then exit; fi

theirs=$(grep -aoE 'rustc [0-9]+\.[0-9A-Za-z.-]+( \([^()]+\))*' "$1" | head -n 1)
cat >&2 <<END
error: the kernel's Rust code was compiled by ${theirs:-another rustc}
       and this is $ours
       Modules are compiled by that compiler or not at all. RUSTC=/path/to/it names it; Debian's own is /usr/bin/rustc,
       which a rustup in PATH hides.
END
exit 1
