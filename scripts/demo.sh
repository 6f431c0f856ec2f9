#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The main job, shown: builds what it takes, boots a client with our module and a server with the kernel's own, and
# moves files between them over RDMA (scripts/vm/demo). CLIENT=c shows the same with the kernel's own client.

. "$(dirname "$0")/lib.sh"
cd "$top"

client=${CLIENT:-rust}
if [ "$client" = rust ]; then scripts/build.sh module; else scripts/build.sh buildroot; fi

stage "two VMs on one wire: the client with our module, an NFS server with the kernel's own"
if scripts/enter scripts/vm.py pair --client "$client" --limit "${LIMIT:-600}" -- scripts/vm/demo; then
	stage "demo: all of this held, and both kernel logs are clean"
	exit
fi

stage "demo: FAILED; the last step above is where"
say "The logs stand in build/vm/last/: client/output, */dmesg and */console.log." \
	"If a VM was killed because its time was up, try again with LIMIT=1200: an emulated VM is slow on a busy machine." \
	"To look around: make vm2 gives a shell on the client. CLIENT=c make demo tries the kernel's own client." \
	"If nothing else helps: make distclean, and try again."
exit 1
