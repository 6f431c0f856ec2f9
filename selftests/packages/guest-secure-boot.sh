#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM with Secure Boot whose root is a chroot with the packages installed (packages.sh), twice: `before` has the key of DKMS
# enrolled as docs/install.md says, `after` runs when MokManager has done it. $2: the version of the module. $3: a password.

claims="with Secure Boot, $1"
. /src/selftests/packages/guest.sh
version=$2 password=$3 release=$(uname -r)
mount -t efivarfs efivarfs /sys/firmware/efi/efivars

status_says() { rpcrdma-status >/tmp/status; cat /tmp/status; grep -qF "$1" /tmp/status; }
says() { "${@:2}" >/tmp/output 2>&1; cat /tmp/output; grep -qF "$1" /tmp/output; }
original=$(find "/var/lib/dkms/rpcrdma-rust/original_module/$release" -name 'rpcrdma.ko*' ! -name '*.origin')

before() {
	claim 'it is on' says 'SecureBoot enabled' mokutil --sb-state
	claim 'the kernel refuses this module' says 'Key was rejected by service' modprobe rpcrdma
	claim 'rpcrdma-status says that the key is not enrolled' status_says 'the key that DKMS signs with is not enrolled'
	claim 'the in-tree module loads' insmod "$original"
	claim 'the key is imported as the document says' eval "printf '%s\n' $password $password | typed 'Secure Boot' 1 1q"
	claim 'and waits to be enrolled' says 'DKMS module signing key' mokutil --list-new
}

after() {
	claim 'it is on' says 'SecureBoot enabled' mokutil --sb-state
	claim 'the key is enrolled, which the document says how to see' says 'is already enrolled' typed 'Secure Boot' 1 2!d
	claim 'and who signed the module' says 'DKMS module signing key' typed 'Secure Boot' 1 3!d
	claim 'the module loads' modprobe -a rpcrdma iwarp
	claim 'and runs' runs "$version"
	claim 'the kernel took both for signed' [ $(($(cat /proc/sys/kernel/tainted) >> 13 & 1)) -eq 0 ]
	claim 'rpcrdma-status says nothing of Secure Boot' eval 'rpcrdma-status | tee /dev/stderr | { ! grep "Secure Boot"; }'
}

"$1"
results
