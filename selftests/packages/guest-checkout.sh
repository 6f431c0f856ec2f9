#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM whose root is a chroot without the packages of DKMS, where a checkout was built with `make KDIR=` (packages.sh): installs,
# loads, signs and removes the modules as docs/install.md says. $1: the checkout. $2: the version of the module.

claims='in a VM, from a checkout'
. /src/selftests/packages/guest.sh
version=$2 release=$(uname -r)
cd "$1" || exit

ours=/lib/modules/$release/updates/rpcrdma.ko
shows() { printf '%s\n' "$1" "$2" | diff - <(typed 'Install and load what you built' 2); }
signer() { [ "$(modinfo -F signer "$1")" = "$2" ]; }

claim 'the in-tree module is loaded' modprobe rpcrdma
claim 'it is the one that runs' in_tree_runs
claim 'this module is installed and loaded as the document says' typed 'Install and load what you built' 1
claim 'and runs, which the document says how to see' shows "$version" "$ours"
claim 'iwarp.ko loads, too' modprobe iwarp
# There is no firmware to enrol a key in.
claim 'the modules are signed with a key of the own as the document says' typed 'Secure Boot' 2 '/^mokutil/d'
claim 'rpcrdma.ko has that signature' signer "$ours" rpcrdma
claim 'and iwarp.ko has it' signer "${ours%/*}/iwarp.ko" rpcrdma
claim 'the signed modules load' eval 'rmmod rpcrdma iwarp && modprobe -a rpcrdma iwarp'
claim 'the in-tree module comes back as the document says' typed 'Go back to the in-tree module, without the packages' 1
claim 'and runs' in_tree_runs
claim 'nothing is left in updates' eval '! find /lib/modules -path "*/updates/*" -type f | grep .'
results
