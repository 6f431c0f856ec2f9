#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What becomes of a Debian machine of another architecture that installs the packages of build/deb: in VMs that QEMU emulates, one after
# another on one disk, which is a copy of that of machine.sh. Runs on the host; takes hours, most of them for compilers in the VM.
#
# foreign.sh KVER [TEST...]: only these tests, on the disk that an earlier run left.

. "$(dirname "$0")/../../scripts/lib.sh"
cd "$top"
export KVER=$1
shift
work=$top/build/packages/$KVER module_version=$(sed -n 's/^MODULE_VERSION("\(.*\)");$/\1/p' rust/cbindings/helpers/common.c)
count=0 failed=0

# in_vm COMMAND: runs it in a VM with the disk. What it claims is counted here on.
in_vm() {
	local status=0 start=$SECONDS
	scripts/enter scripts/vm.py single --module installed --disk "/src/${work#"$top"/}/disk" --memory 4G \
		--limit "${limit:-7200}" -- "selftests/packages/$1" >"$work/log" 2>&1 || status=$?
	grep '^# ' "$work/log" || true
	count=$((count + 1))
	if [ "$status" -eq 0 ]; then
		echo "# ok $count - $test: all of that held in a VM, in $((SECONDS - start)) s"
	else
		failed=$((failed + 1))
		echo "# not ok $count - $test: all of that held in a VM"
		tail -n 40 "$work/log" | sed 's/^/#    /'
	fi
}

test_install() {
	local machine
	machine=$(selftests/packages/machine.sh "$KVER")
	cp --sparse=always "$machine/disk" "$work/disk"
	in_vm "guest-foreign.sh install $module_version"
}

test_mount() { in_vm "guest-dkms.sh $module_version"; }
test_checkout() {
	git -c safe.directory="$PWD" ls-files -z | xargs -0 tar -cf "$work/checkout.tar"
	in_vm "guest-foreign.sh checkout $module_version /src/${work#"$top"/}/checkout.tar"
	in_vm "guest-checkout.sh /root/rpcrdma $module_version"
}
test_source() { in_vm "guest-foreign.sh source $module_version"; }

mkdir -p "$work"
tests=(install mount checkout source)
. selftests/packages/tests.sh
