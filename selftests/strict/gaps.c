// SPDX-License-Identifier: GPL-2.0
/*
 * Regions with gaps (IB_MR_TYPE_SG_GAPS): their entries begin and end anywhere.
 * rxe has none, only lists of pages. So such a region has a run of addresses of
 * its own, without gaps, which rxe takes for device addresses. The table here
 * has what stands behind each part of it.
 */
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "faults.h"
#include "limits.h"
#include "strict.h"

/* No mapping is there. The 27 bits below are the number of the region. */
#define GAPS BIT_ULL(59)
#define REGION_BITS 32

struct entry {
	u64 address;
	u32 len;
};

struct gaps {
	u32 number;
	unsigned int count, most;
	struct rcu_head rcu;
	struct entry entries[];
};

static DEFINE_XARRAY_FLAGS(by_number, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
static DEFINE_XARRAY_FLAGS(by_region, XA_FLAGS_LOCK_IRQ);

static u32 number_of(u64 address)
{
	return (address & ~GAPS) >> REGION_BITS;
}

struct ib_mr *strict_alloc_gaps(struct ib_pd *pd, u32 entries)
{
	struct gaps *gaps;
	struct ib_mr *mr;
	int status;

	gaps = kzalloc(struct_size(gaps, entries, entries), GFP_KERNEL);
	if (!gaps)
		return ERR_PTR(-ENOMEM);
	gaps->most = entries;
	status = xa_alloc_irq(&by_number, &gaps->number, gaps,
			      XA_LIMIT(1, BIT(27) - 1), GFP_KERNEL);
	if (status)
		goto free;
	/* A page more, as the first entry may begin within one. */
	mr = strict_rxe.alloc_mr(pd, IB_MR_TYPE_MEM_REG, entries + 1);
	if (IS_ERR(mr)) {
		status = PTR_ERR(mr);
		goto erase;
	}
	status = xa_err(xa_store_irq(&by_region, (uintptr_t)mr, gaps,
				     GFP_KERNEL));
	if (!status)
		return mr;
	strict_rxe.dereg_mr(mr, NULL);
erase:
	xa_erase_irq(&by_number, gaps->number);
free:
	kfree(gaps);
	return ERR_PTR(status);
}

int strict_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	struct gaps *gaps = xa_load(&by_region, (uintptr_t)mr);
	int status;

	/* Another region may get that memory as soon as this one is gone. */
	if (gaps)
		xa_erase_irq(&by_region, (uintptr_t)mr);
	status = strict_rxe.dereg_mr(mr, udata);
	if (gaps) {
		xa_erase_irq(&by_number, gaps->number);
		kfree_rcu(gaps, rcu);
	}
	return status;
}

int strict_map_mr_sg(struct ib_mr *mr, struct scatterlist *sgl, int count,
		     unsigned int *offset)
{
	struct gaps *gaps = xa_load(&by_region, (uintptr_t)mr);
	struct scatterlist *sg, whole;
	unsigned int sum = 0;
	int i;

	if (!gaps)
		return strict_rxe.map_mr_sg(mr, sgl, count, offset);
	if (WARN_ON(offset && *offset))
		return -EINVAL;
	count = min_t(unsigned int, count, gaps->most);
	gaps->count = count;
	for_each_sg(sgl, sg, count, i) {
		gaps->entries[i] = (struct entry){ sg_dma_address(sg),
						   sg_dma_len(sg) };
		sum += sg_dma_len(sg);
	}
	/* rxe knows no other type. */
	mr->type = IB_MR_TYPE_MEM_REG;
	sg_init_table(&whole, 1);
	sg_dma_address(&whole) = GAPS | (u64)gaps->number << REGION_BITS;
	sg_dma_len(&whole) = sum;
	i = strict_rxe.map_mr_sg(mr, &whole, 1, NULL);
	return i == 1 ? count : i < 0 ? i : -EINVAL;
}

/*
 * If the address is one of a region with gaps, returns the device address behind
 * it, and how many bytes of `len` are there. Otherwise leaves both.
 */
u64 strict_behind(u64 address, size_t *len)
{
	u32 at = address & GENMASK_ULL(REGION_BITS - 1, 0);
	struct gaps *gaps;
	unsigned int i;

	if (!(address & GAPS))
		return address;
	guard(rcu)();
	gaps = xa_load(&by_number, number_of(address));
	for (i = 0; gaps && i < gaps->count; i++) {
		const struct entry *entry = &gaps->entries[i];

		if (at < entry->len) {
			*len = min_t(size_t, *len, entry->len - at);
			return entry->address + at;
		}
		at -= entry->len;
	}
	/* Nowhere, which whoever looks it up reports. */
	return address;
}
