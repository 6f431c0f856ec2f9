// SPDX-License-Identifier: GPL-2.0
/*
 * The operations by which memory is mapped for a strict device. They are those
 * of an IOMMU with bounce buffers: a scatter list gets one run of addresses,
 * which merges entries where the device's limits allow it, and content moves
 * when memory is mapped, synced and unmapped.
 */
#include <linux/dma-map-ops.h>
#include <linux/log2.h>
#include <linux/random.h>
#include <linux/scatterlist.h>

#include "faults.h"
#include "strict.h"

/* Where the first byte is in its page of device addresses. */
static unsigned int kept_offset(phys_addr_t phys)
{
	return strict_settings.keep_offset ? offset_in_page(phys) : 0;
}

/* The shortest Receive of a connection of rpcrdma.ko. */
#define SHORTEST_RECEIVE 1024

static bool fails(void)
{
	return strict_settings.fail_maps &&
	       get_random_u32_below(strict_settings.fail_maps) == 0;
}

/* The device has no address for what is not memory. */
static bool has_memory(phys_addr_t phys, size_t len, unsigned long attrs)
{
	if (!len || attrs & DMA_ATTR_MMIO || !pfn_valid(PHYS_PFN(phys))) {
		strict_report(STRICT_BAD_MAP, NULL, "%zu bytes at %pa, attributes %#lx",
			      len, &phys, attrs);
		return false;
	}
	return true;
}

static void begin(struct strict_mapping *mapping, u64 base, unsigned long attrs)
{
	strict_insert(mapping, base);
	strict_begin(mapping, !(attrs & DMA_ATTR_SKIP_CPU_SYNC));
}

static dma_addr_t map_phys(struct device *dev, phys_addr_t phys, size_t len,
			   enum dma_data_direction direction,
			   unsigned long attrs)
{
	dma_addr_t address = DMA_MAPPING_ERROR;
	struct strict_mapping *mapping;
	unsigned long flags;
	u64 base;

	if (!has_memory(phys, len, attrs) || fails())
		return DMA_MAPPING_ERROR;
	/* Those of the connection manager are shorter. */
	if (direction == DMA_FROM_DEVICE && len >= SHORTEST_RECEIVE &&
	    strict_error(STRICT_RECEIVE_MAP_FAILS))
		return DMA_MAPPING_ERROR;
	spin_lock_irqsave(&strict_lock, flags);
	mapping = strict_new(dev, phys_to_virt(phys), len, kept_offset(phys),
			     direction);
	if (!mapping)
		goto out;
	if (strict_place(dev, (u64)mapping->count * PAGE_SIZE,
			 roundup_pow_of_two(mapping->count) * PAGE_SIZE,
			 &base)) {
		strict_discard(mapping);
		goto out;
	}
	mapping->single = true;
	begin(mapping, base, attrs);
	address = base + mapping->offset;
out:
	spin_unlock_irqrestore(&strict_lock, flags);
	return address;
}

/* Ends a mapping that must be exactly that one, or reports it. */
static void end(struct device *dev, u64 address, size_t len,
		enum dma_data_direction direction, unsigned long attrs)
{
	struct strict_mapping *mapping = strict_find(address);

	if (!mapping || mapping->gone || mapping->owner != dev ||
	    address != mapping->base + mapping->offset || len != mapping->len ||
	    direction != mapping->direction) {
		strict_report(STRICT_BAD_UNMAP, mapping,
			      "%zu bytes at %#llx, direction %d, by %s", len,
			      address, direction, dev_name(dev));
		return;
	}
	strict_end(mapping, !(attrs & DMA_ATTR_SKIP_CPU_SYNC));
}

/*
 * Where each entry of a scatter list is within a run of device addresses. An
 * entry begins on a page of its own, and does not cross a boundary.
 */
struct layout {
	unsigned int segment;	/* the longest that the device takes */
	u64 boundary;		/* mask: segments do not cross its multiples */
	u64 span;
};

static u64 place_entry(struct layout *layout, const struct scatterlist *sg,
		       unsigned int offset)
{
	u64 pages = PAGE_ALIGN(offset + sg->length), at = layout->span;

	if ((at & layout->boundary) + offset + sg->length - 1 >
	    layout->boundary)
		at = ALIGN(at, layout->boundary + 1);
	layout->span = at + pages;
	if (!strict_settings.merge)
		layout->span += PAGE_SIZE;
	return at;
}

/* Whether the device may have an entry of that length. */
static bool fits(const struct layout *layout, const struct scatterlist *sg)
{
	if (sg->length <= layout->segment &&
	    sg->length - 1 <= layout->boundary)
		return true;
	strict_report(STRICT_BAD_MAP, NULL,
		      "an entry of %u bytes; segments have %u, within %#llx",
		      sg->length, layout->segment, layout->boundary);
	return false;
}

/* Fills in the device's segments. Returns their number. */
static int merge(const struct layout *layout, struct scatterlist *sgl,
		 int count, u64 base)
{
	struct layout again = { layout->segment, layout->boundary };
	struct scatterlist *sg, *segment = NULL;
	int i, segments = 0;

	for_each_sg(sgl, sg, count, i) {
		unsigned int offset = kept_offset(sg_phys(sg));
		u64 address = base + place_entry(&again, sg, offset) + offset;
		u64 joined = segment ? (u64)sg_dma_len(segment) + sg->length : 0;

		if (segment && strict_settings.merge &&
		    address == sg_dma_address(segment) + sg_dma_len(segment) &&
		    joined <= layout->segment &&
		    (sg_dma_address(segment) & layout->boundary) + joined - 1 <=
			    layout->boundary) {
			sg_dma_len(segment) += sg->length;
			continue;
		}
		segment = segment ? sg_next(segment) : sgl;
		sg_dma_address(segment) = address;
		sg_dma_len(segment) = sg->length;
		segments++;
	}
	if (segments < count) {
		segment = sg_next(segment);
		sg_dma_address(segment) = DMA_MAPPING_ERROR;
		sg_dma_len(segment) = 0;
	}
	return segments;
}

static int map_sg(struct device *dev, struct scatterlist *sgl, int count,
		  enum dma_data_direction direction, unsigned long attrs)
{
	struct layout layout = {
		.segment = dma_get_max_seg_size(dev),
		.boundary = dma_get_seg_boundary(dev),
	};
	struct layout again = layout;
	struct strict_mapping *mapping, *next;
	struct scatterlist *sg;
	int i, status = -ENOMEM;
	unsigned long flags;
	LIST_HEAD(made);
	u64 base;

	if (fails() || strict_error(STRICT_MAP_FAILS))
		return -ENOMEM;
	spin_lock_irqsave(&strict_lock, flags);
	for_each_sg(sgl, sg, count, i) {
		unsigned int offset = kept_offset(sg_phys(sg));

		if (!has_memory(sg_phys(sg), sg->length, attrs) ||
		    !fits(&layout, sg)) {
			status = -EINVAL;
			goto failed;
		}
		mapping = strict_new(dev, phys_to_virt(sg_phys(sg)), sg->length,
				     offset, direction);
		if (!mapping)
			goto failed;
		list_add_tail(&mapping->list, &made);
		place_entry(&layout, sg, offset);
	}
	/* So aligned, the boundaries are where the layout has them. */
	if (strict_place(dev, layout.span,
			 min(roundup_pow_of_two(layout.span),
			     layout.boundary + 1 ?: U64_MAX),
			 &base))
		goto failed;
	sg = sgl;
	list_for_each_entry_safe(mapping, next, &made, list) {
		list_del(&mapping->list);
		begin(mapping,
		      base + place_entry(&again, sg, mapping->offset), attrs);
		sg = sg_next(sg);
	}
	status = merge(&layout, sgl, count, base);
	spin_unlock_irqrestore(&strict_lock, flags);
	return status;

failed:
	list_for_each_entry_safe(mapping, next, &made, list)
		strict_discard(mapping);
	spin_unlock_irqrestore(&strict_lock, flags);
	return status;
}

/* Returns the mapping of a range that is to be synced, or reports it. */
static struct strict_mapping *synced(struct device *dev, u64 address,
				     size_t len,
				     enum dma_data_direction direction)
{
	struct strict_mapping *mapping = strict_find(address);

	if (mapping && !mapping->gone && mapping->owner == dev &&
	    direction == mapping->direction &&
	    address >= mapping->base + mapping->offset &&
	    address - mapping->base - mapping->offset + len <= mapping->len)
		return mapping;
	strict_report(STRICT_BAD_SYNC, mapping,
		      "%zu bytes at %#llx, direction %d, by %s", len, address,
		      direction, dev_name(dev));
	return NULL;
}

/* Gives a range back to the CPU that must be of one mapping. */
static void give_to_cpu(struct device *dev, u64 address, size_t len,
			enum dma_data_direction direction, unsigned long attrs)
{
	struct strict_mapping *mapping = synced(dev, address, len, direction);

	if (mapping)
		strict_give_to_cpu(mapping,
				   address - mapping->base - mapping->offset,
				   len);
}

static void give_to_device(struct device *dev, u64 address, size_t len,
			   enum dma_data_direction direction,
			   unsigned long attrs)
{
	struct strict_mapping *mapping = synced(dev, address, len, direction);

	if (mapping)
		strict_give_to_device(mapping,
				      address - mapping->base - mapping->offset,
				      len);
}

/* What is done to an address range, with the lock held. */
typedef void action_fn(struct device *dev, u64 address, size_t len,
		       enum dma_data_direction direction, unsigned long attrs);

static void one(action_fn *action, struct device *dev, u64 address, size_t len,
		enum dma_data_direction direction, unsigned long attrs)
{
	unsigned long flags;

	spin_lock_irqsave(&strict_lock, flags);
	action(dev, address, len, direction, attrs);
	spin_unlock_irqrestore(&strict_lock, flags);
}

/* The same for each entry of a list; they lie in its segments in order. */
static void each(action_fn *action, struct device *dev, struct scatterlist *sgl,
		 int count, enum dma_data_direction direction,
		 unsigned long attrs)
{
	struct scatterlist *sg, *segment = sgl;
	u64 address = 0, stop = 0;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&strict_lock, flags);
	for_each_sg(sgl, sg, count, i) {
		if (address == stop) {
			address = sg_dma_address(segment);
			stop = address + sg_dma_len(segment);
			segment = sg_next(segment);
		}
		action(dev, address, sg->length, direction, attrs);
		address += sg->length;
	}
	spin_unlock_irqrestore(&strict_lock, flags);
}

static void unmap_phys(struct device *dev, dma_addr_t address, size_t len,
		       enum dma_data_direction direction, unsigned long attrs)
{
	one(end, dev, address, len, direction, attrs);
}

static void unmap_sg(struct device *dev, struct scatterlist *sgl, int count,
		     enum dma_data_direction direction, unsigned long attrs)
{
	each(end, dev, sgl, count, direction, attrs);
}

static void sync_single_for_cpu(struct device *dev, dma_addr_t address,
				size_t len, enum dma_data_direction direction)
{
	one(give_to_cpu, dev, address, len, direction, 0);
}

static void sync_single_for_device(struct device *dev, dma_addr_t address,
				   size_t len,
				   enum dma_data_direction direction)
{
	one(give_to_device, dev, address, len, direction, 0);
}

static void sync_sg_for_cpu(struct device *dev, struct scatterlist *sgl,
			    int count, enum dma_data_direction direction)
{
	each(give_to_cpu, dev, sgl, count, direction, 0);
}

static void sync_sg_for_device(struct device *dev, struct scatterlist *sgl,
			       int count, enum dma_data_direction direction)
{
	each(give_to_device, dev, sgl, count, direction, 0);
}

static int dma_supported(struct device *dev, u64 mask)
{
	return mask >= DMA_BIT_MASK(32);
}

const struct dma_map_ops strict_operations = {
	.map_phys = map_phys,
	.unmap_phys = unmap_phys,
	.map_sg = map_sg,
	.unmap_sg = unmap_sg,
	.sync_single_for_cpu = sync_single_for_cpu,
	.sync_single_for_device = sync_single_for_device,
	.sync_sg_for_cpu = sync_sg_for_cpu,
	.sync_sg_for_device = sync_sg_for_device,
	.dma_supported = dma_supported,
};
