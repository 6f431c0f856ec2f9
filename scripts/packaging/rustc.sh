#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rustc of another architecture, run on this machine by the emulator of a process that QEMU has: what it writes is what a machine of that
# architecture would write, procedural macros too. Stands in a directory of roots.sh as bin/rustc. What it has linked is for its own
# architecture, so the linker is the cross compiler of the name that would be this machine's; its prefix is in the environment.

dir=$(dirname "$0")/.. prefix=${CROSS_COMPILE:?}
more=
for argument; do
	case $argument in
	-Clinker=*) more=-Clinker=$prefix${argument#*=} ;;
	# Only libraries of the macros are optimised, and that takes most of the time here. They are small work for who uses them.
	-O) more=-Copt-level=0 ;;
	esac
done
exec "$dir/emulator" -L "$dir/root" "$dir/root/usr/bin/rustc" "$@" ${more:+"$more"}
