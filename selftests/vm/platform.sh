#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Memory is mapped for a PCI device by what the machine has for that: an IOMMU or bounce buffers (DMA=, vm.py --dma). The device reaches
# it so and in no other way, and all is given back. A pair, --rdma strict.

. ./lib.sh
need_pair
[ -n "$DMA" ] || cannot_run "this test needs a PCI device behind an IOMMU or bounce buffers"
. ./strict-device.sh

case $DMA in
iommu) way=iommu ;;
bounce) way=bounce-buffer ;;
esac

# Each way in which the device of this machine reached memory but for that one never was.
reaches_by() { cat $debug/reached && grep -q "^$1 [1-9]" $debug/reached && [ "$(grep -c ' 0$' $debug/reached)" -eq 2 ]; }

# For the device's group an unmap takes effect at once. For an IOMMU whose driver gathers them the type is DMA-FQ.
maps_for_each() {
	local type
	read -r type <"/sys/bus/pci/devices/$(</sys/module/rdma_rxe/parameters/pci)/iommu_group/type" && echo "$type"
	[ "$type" = DMA ]
}
all_bounces() { [ "$(</sys/kernel/debug/swiotlb/io_tlb_nslabs)" = 65536 ] && [ "$(</sys/kernel/debug/swiotlb/io_tlb_used)" -gt 0 ]; }
is_in_force() { if [ "$1" = iommu ]; then maps_for_each; else all_bounces; fi; }

on_both() { "$@" && on_server "$(declare -p debug); $(declare -f "$1" maps_for_each all_bounces); $*"; }

data_moves() { verified_io --bsrange=4k-1M --size=8M --numjobs=2 && ./direct-io.py "$mnt/direct"; }

# How many bounce buffers are in use without the RDMA device.
used_by_others() { rdma link del "$1" >/dev/null && cat /sys/kernel/debug/swiotlb/io_tlb_used && rdma link add "$1" type rxe netdev eth0; }
gives_all_back() {
	local here there
	here=$(used_by_others "$RDMA_DEVICE") && there=$(on_server "$(declare -f used_by_others); used_by_others $RDMA_DEVICE") || return
	echo "in use without the device: $here, on the server $there"
	[ "$here" = 0 ] && [ "$there" = 0 ]
}

plan 5
mount_nfs 4.2 || exit
check "it is in force on both sides: $way" on_both is_in_force "$DMA"
check "data arrives that way" data_moves
check "memory is reached that way only" on_both reaches_by "$way"
umount "$mnt"
if [ "$DMA" = bounce ]; then
	check "all is given back" gives_all_back
else
	skip "all is given back" "an IOMMU does not say what it has mapped"
fi
check "no address led nowhere, and no request was beyond a limit" no_fault_counted
finish
