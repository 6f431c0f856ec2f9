// SPDX-License-Identifier: GPL-2.0
/*
 * A PCI device for which memory is mapped, instead of a device with operations
 * of our own: by what the machine has for that, an IOMMU or bounce buffers.
 * Each device address is looked up as the hardware between a device and memory
 * does it.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/swiotlb.h>

#include "strict.h"

static char slot[16];
module_param_string(pci, slot, sizeof(slot), 0444);
MODULE_PARM_DESC(pci, "the PCI device for which memory is mapped, as 0000:00:1e.0");

/* How memory was reached. */
enum way {
	BY_IOMMU,		/* by an address that an IOMMU translates */
	BY_BOUNCE_BUFFER,
	DIRECTLY,
	WAYS
};

static const char * const names[WAYS] = {
	[BY_IOMMU] = "iommu",
	[BY_BOUNCE_BUFFER] = "bounce-buffer",
	[DIRECTLY] = "direct",
};

static struct pci_dev *pci;
static atomic64_t reached[WAYS];

/* The PCI device, or NULL if there is to be none. */
struct device *strict_pci(void)
{
	return pci ? &pci->dev : NULL;
}

int strict_find_pci(void)
{
	unsigned int domain, bus, device, function;
	int status;

	if (!slot[0])
		return 0;
	if (sscanf(slot, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return -EINVAL;
	pci = pci_get_domain_bus_and_slot(domain, bus,
					  PCI_DEVFN(device, function));
	if (!pci)
		return -ENODEV;
	status = dma_set_mask_and_coherent(&pci->dev,
					   DMA_BIT_MASK(strict_settings.mask));
	if (status)
		strict_put_pci();
	return status;
}

void strict_put_pci(void)
{
	pci_dev_put(pci);
	pci = NULL;
}

/* Returns where a device address leads, or 0: nowhere. */
static phys_addr_t look_up(u64 address, enum way *way)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pci->dev);
	phys_addr_t phys;

	*way = DIRECTLY;
	if (domain) {
		phys = iommu_iova_to_phys(domain, address);
		if (phys != address)
			*way = BY_IOMMU;
	} else {
		phys = dma_to_phys(&pci->dev, address);
	}
	if (!pfn_valid(PHYS_PFN(phys)))
		return 0;
	if (swiotlb_find_pool(&pci->dev, phys))
		*way = BY_BOUNCE_BUFFER;
	return phys;
}

/* Reads from, or writes to, device addresses. */
void strict_pci_access(u64 address, void *buffer, size_t len, bool write)
{
	while (len) {
		size_t part = min(len, PAGE_SIZE - offset_in_page(address));
		phys_addr_t phys;
		enum way way;

		phys = look_up(address, &way);
		if (!phys) {
			strict_report(STRICT_OUTSIDE, NULL,
				      "%s of %zu bytes at %#llx of %s",
				      write ? "write" : "read", len, address,
				      pci_name(pci));
			break;
		}
		if (write)
			memcpy(phys_to_virt(phys), buffer, part);
		else
			memcpy(buffer, phys_to_virt(phys), part);
		atomic64_inc(&reached[way]);
		address += part;
		buffer += part;
		len -= part;
	}
	if (!write)
		memset(buffer, STRICT_NOTHING, len);
}

/* How often memory was reached in each way. */
void strict_show_reached(struct seq_file *file)
{
	enum way way;

	for (way = 0; way < WAYS; way++)
		seq_printf(file, "%s %lld\n", names[way],
			   atomic64_read(&reached[way]));
}
