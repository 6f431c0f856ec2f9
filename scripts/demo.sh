#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The main job, shown: builds what it takes, boots a client and a server with the module of this project, and moves files between them
# over RDMA (scripts/vm/demo). CLIENT=c and SERVER=c show the same with the kernel's own module there, RDMA=iwarp-tcp or RDMA=siw over
# another device than rxe.

. "$(dirname "$0")/lib.sh"
cd "$top"

client=${CLIENT:-rust} server=${SERVER:-rust} rdma=${RDMA:-rxe}
case $client$server$rdma in
*rust* | *iwarp-*) scripts/build.sh module ;;
*) scripts/build.sh buildroot ;;
esac
if [ "$rdma" = siw ] && [ -z "${KERNEL:-}" ]; then scripts/enter selftests/iwarp/siw.sh; fi

stage "two VMs on one wire, a client and an NFS server; module of the client: $client, of the server: $server; RDMA device: $rdma"
if scripts/enter scripts/vm.py pair --client "$client" --server "$server" --rdma "$rdma" --limit "${LIMIT:-600}" -- scripts/vm/demo; then
	stage "demo: all of this held, and both kernel logs are clean"
	exit
fi

stage "demo: FAILED; the last step above is where"
say "The logs stand in build/vm/last/: client/output, */dmesg and */console.log." \
	"If a VM was killed because its time was up, try again with LIMIT=1200: an emulated VM is slow on a busy machine." \
	"To look around: make vm2 gives a shell on the client. CLIENT=c or SERVER=c tries the kernel's own module on that side." \
	"If nothing else helps: make distclean, and try again."
exit 1
