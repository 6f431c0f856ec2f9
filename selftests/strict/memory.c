// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings by device address, and how a device reaches them.
 *
 * Addresses are not used again until all others were, and between two mappings
 * is a page that none has, so an access that misses meets nobody else's. The
 * last mappings that are gone are remembered, for the report of an access.
 */
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "strict.h"

#define REMEMBERED 4096
/* What memory has while only the device may write to it. */
#define POISON 0xa5

DEFINE_SPINLOCK(strict_lock);

static struct rb_root mappings = RB_ROOT;
static LIST_HEAD(gone);
static unsigned int remembered;
/* Pages that no mapping has. */
static LIST_HEAD(spare);

static struct page *take_page(void)
{
	struct page *page = list_first_entry_or_null(&spare, struct page, lru);

	if (page)
		list_del(&page->lru);
	else
		page = alloc_page(GFP_ATOMIC | __GFP_NOWARN);
	return page;
}

/* Gives back what never got an address. */
void strict_discard(struct strict_mapping *mapping)
{
	while (mapping->count)
		list_add(&mapping->pages[--mapping->count]->lru, &spare);
	kfree(mapping);
}

/* Makes a mapping, which has no address yet. */
struct strict_mapping *strict_new(struct device *owner, void *memory, size_t len,
				  unsigned int offset,
				  enum dma_data_direction direction)
{
	unsigned int wanted = DIV_ROUND_UP(offset + len, PAGE_SIZE);
	struct strict_mapping *mapping;

	lockdep_assert_held(&strict_lock);
	mapping = kzalloc(struct_size(mapping, pages, wanted),
			  GFP_ATOMIC | __GFP_NOWARN);
	if (!mapping)
		return NULL;
	mapping->owner = owner;
	mapping->offset = offset;
	mapping->len = len;
	mapping->memory = memory;
	mapping->direction = direction;
	while (mapping->count < wanted) {
		struct page *page = take_page();

		if (!page) {
			strict_discard(mapping);
			return NULL;
		}
		mapping->pages[mapping->count++] = page;
	}
	return mapping;
}

static u64 end_of(const struct strict_mapping *mapping)
{
	return mapping->base + (u64)DIV_ROUND_UP(mapping->offset + mapping->len,
						 PAGE_SIZE) * PAGE_SIZE;
}

/* The last mapping that does not begin behind the address. */
static struct strict_mapping *before(u64 address)
{
	struct strict_mapping *found = NULL;
	struct rb_node *node = mappings.rb_node;

	while (node) {
		struct strict_mapping *mapping =
			rb_entry(node, struct strict_mapping, node);

		if (mapping->base <= address) {
			found = mapping;
			node = node->rb_right;
		} else {
			node = node->rb_left;
		}
	}
	return found;
}

/* Returns the mapping with a page at that address, be it there or gone. */
struct strict_mapping *strict_find(u64 address)
{
	struct strict_mapping *mapping = before(address);

	return mapping && address < end_of(mapping) ? mapping : NULL;
}

static void forget(struct strict_mapping *mapping)
{
	rb_erase(&mapping->node, &mappings);
	list_del(&mapping->list);
	remembered--;
	kfree(mapping);
}

/*
 * Returns the end of a mapping that is in the way of one at [start, end), or 0.
 * Those that are gone are forgotten instead.
 */
static u64 in_the_way(u64 start, u64 end)
{
	struct strict_mapping *mapping;

	while ((mapping = before(end - 1)) && end_of(mapping) > start) {
		if (!mapping->gone)
			return end_of(mapping);
		forget(mapping);
	}
	return 0;
}

/* Finds room for `span` bytes of device addresses and a page behind them. */
int strict_place(struct device *owner, u64 span, u64 align, u64 *base)
{
	static u64 next[2];
	bool narrow = dma_get_mask(owner) < STRICT_ADDRESS;
	u64 first = narrow ? SZ_1M : BIT_ULL(58);
	u64 last = min(dma_get_mask(owner), STRICT_ADDRESS);
	u64 at = max(next[narrow], first), other;
	unsigned int wraps = 0;

	lockdep_assert_held(&strict_lock);
	align = max_t(u64, align, PAGE_SIZE);
	span += PAGE_SIZE;
	for (;;) {
		at = ALIGN(at, align);
		if (at > last || span > last - at + 1) {
			if (wraps++)
				return -ENOSPC;
			at = first;
			continue;
		}
		other = in_the_way(at, at + span);
		if (!other)
			break;
		at = other + PAGE_SIZE;
	}
	next[narrow] = at + span;
	*base = at;
	return 0;
}

void strict_insert(struct strict_mapping *mapping, u64 base)
{
	struct rb_node **link = &mappings.rb_node, *parent = NULL;

	lockdep_assert_held(&strict_lock);
	mapping->base = base;
	strict_trace(&mapping->mapped);
	while (*link) {
		struct strict_mapping *other =
			rb_entry(*link, struct strict_mapping, node);

		parent = *link;
		link = base < other->base ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&mapping->node, parent, link);
	rb_insert_color(&mapping->node, &mappings);
}

/* Ends a mapping, and remembers it. */
static void remove(struct strict_mapping *mapping)
{
	while (mapping->count)
		list_add_tail(&mapping->pages[--mapping->count]->lru, &spare);
	mapping->gone = true;
	strict_trace(&mapping->unmapped);
	list_add_tail(&mapping->list, &gone);
	if (++remembered > REMEMBERED)
		forget(list_first_entry(&gone, struct strict_mapping, list));
}

/* Ends and reports what is still mapped for that device. */
unsigned int strict_left(struct device *owner)
{
	struct rb_node *node;
	unsigned int count = 0;

	lockdep_assert_held(&strict_lock);
	for (node = rb_first(&mappings); node; node = rb_next(node)) {
		struct strict_mapping *mapping =
			rb_entry(node, struct strict_mapping, node);

		if (mapping->owner != owner)
			continue;
		if (!mapping->gone) {
			strict_report(STRICT_LEFT, mapping,
				      "the device is gone");
			remove(mapping);
			count++;
		}
		mapping->owner = NULL;
	}
	return count;
}

/* Frees all pages and all that is remembered. No device is left. */
void strict_forget(void)
{
	struct page *page, *next;

	spin_lock_irq(&strict_lock);
	while (!list_empty(&gone))
		forget(list_first_entry(&gone, struct strict_mapping, list));
	list_for_each_entry_safe(page, next, &spare, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
	spin_unlock_irq(&strict_lock);
}

/* The address of a byte in the pages of a mapping, and how many follow it. */
static void *device_side(struct strict_mapping *mapping, size_t at, size_t *len)
{
	size_t offset = mapping->offset + at;

	*len = min(*len, PAGE_SIZE - offset_in_page(offset));
	return page_address(mapping->pages[offset / PAGE_SIZE]) +
	       offset_in_page(offset);
}

/* Gives the device what memory has. */
static void to_device(struct strict_mapping *mapping, size_t start, size_t len)
{
	size_t at, part;

	for (at = start; at < start + len; at += part) {
		void *bounce;

		part = start + len - at;
		bounce = device_side(mapping, at, &part);
		memcpy(bounce, mapping->memory + at, part);
	}
}

/* Gives memory what the device has. */
static void to_memory(struct strict_mapping *mapping, size_t start, size_t len)
{
	size_t at, part;

	for (at = start; at < start + len; at += part) {
		void *bounce;

		part = start + len - at;
		bounce = device_side(mapping, at, &part);
		memcpy(mapping->memory + at, bounce, part);
	}
}

/* If the device may write to memory, who reads it meanwhile reads poison. */
static void poison(struct strict_mapping *mapping, size_t start, size_t len)
{
	if (mapping->direction == DMA_FROM_DEVICE)
		memset(mapping->memory + start, POISON, len);
}

static void check_poison(struct strict_mapping *mapping, size_t start,
			 size_t stop)
{
	if (mapping->direction == DMA_FROM_DEVICE && start < stop &&
	    memchr_inv(mapping->memory + start, POISON, stop - start))
		strict_report(STRICT_CPU_WROTE, mapping,
			      "within bytes %zu to %zu", start, stop);
}

/* Looks whether the CPU wrote to what of a range the device has. */
static void check_unwritten(struct strict_mapping *mapping, size_t start,
			    size_t stop)
{
	check_poison(mapping, start, min(stop, mapping->cpu_start));
	check_poison(mapping, max(start, mapping->cpu_end), stop);
}

void strict_begin(struct strict_mapping *mapping, bool sync)
{
	lockdep_assert_held(&strict_lock);
	if (!sync)
		return;
	to_device(mapping, 0, mapping->len);
	poison(mapping, 0, mapping->len);
}

void strict_end(struct strict_mapping *mapping, bool sync)
{
	lockdep_assert_held(&strict_lock);
	if (sync && mapping->direction != DMA_TO_DEVICE) {
		check_unwritten(mapping, 0, mapping->len);
		/* As a bounce buffer, it overwrites what the CPU has, too. */
		to_memory(mapping, 0, mapping->len);
	}
	remove(mapping);
}

void strict_give_to_cpu(struct strict_mapping *mapping, size_t start,
			size_t len)
{
	lockdep_assert_held(&strict_lock);
	if (mapping->direction != DMA_TO_DEVICE) {
		check_unwritten(mapping, start, start + len);
		to_memory(mapping, start, len);
	}
	if (mapping->cpu_start == mapping->cpu_end) {
		mapping->cpu_start = start;
		mapping->cpu_end = start + len;
	} else {
		mapping->cpu_start = min(mapping->cpu_start, start);
		mapping->cpu_end = max(mapping->cpu_end, start + len);
	}
}

void strict_give_to_device(struct strict_mapping *mapping, size_t start,
			   size_t len)
{
	lockdep_assert_held(&strict_lock);
	if (mapping->direction != DMA_FROM_DEVICE)
		to_device(mapping, start, len);
	poison(mapping, start, len);
	if (start > mapping->cpu_start)
		mapping->cpu_end = min(mapping->cpu_end, start);
	else
		mapping->cpu_start = max(mapping->cpu_start, start + len);
	if (mapping->cpu_start >= mapping->cpu_end) {
		mapping->cpu_start = 0;
		mapping->cpu_end = 0;
	}
}

/* Whether the device may do that to a part of a mapping; otherwise reports it. */
static bool permitted(struct ib_device *device, struct strict_mapping *mapping,
		      size_t at, size_t len, bool write)
{
	const char *what = write ? "write" : "read";

	if (mapping->gone) {
		strict_report(STRICT_AFTER_UNMAP, mapping, "%s of %zu bytes, byte %zu",
			      what, len, at);
		return false;
	}
	if (device && device->dma_device != mapping->owner) {
		strict_report(STRICT_FOREIGN, mapping, "%s by %s", what,
			      dev_name(&device->dev));
		return false;
	}
	if (mapping->direction == (write ? DMA_TO_DEVICE : DMA_FROM_DEVICE)) {
		strict_report(STRICT_DIRECTION, mapping, "%s of %zu bytes, byte %zu",
			      what, len, at);
		return false;
	}
	if (strict_settings.ownership && at < mapping->cpu_end &&
	    at + len > mapping->cpu_start) {
		strict_report(STRICT_CPU_OWNS, mapping,
			      "%s of %zu bytes, byte %zu; the CPU has %zu to %zu",
			      what, len, at, mapping->cpu_start,
			      mapping->cpu_end);
		return false;
	}
	return true;
}

/*
 * Data in pages of files may change while they are written, and nobody minds.
 * What is mapped alone are messages.
 */
static void check_synced(struct strict_mapping *mapping, size_t at,
			 const void *bounce, size_t len)
{
	if (mapping->single && mapping->direction == DMA_TO_DEVICE &&
	    memcmp(bounce, mapping->memory + at, len))
		strict_report(STRICT_NOT_SYNCED, mapping,
			      "read of %zu bytes, byte %zu", len, at);
}

/* Reads from, or writes to, device addresses that are mapped here. */
static void access_mapped(struct ib_device *device, u64 address, void *buffer,
			  size_t len, bool write)
{
	unsigned long flags;

	spin_lock_irqsave(&strict_lock, flags);
	while (len) {
		struct strict_mapping *mapping = strict_find(address);
		size_t at, part = len;
		void *bounce;

		if (!mapping || address < mapping->base + mapping->offset ||
		    address >= mapping->base + mapping->offset + mapping->len) {
			if (!mapping)
				mapping = before(address);
			strict_report(STRICT_OUTSIDE, mapping,
				      "%s of %zu bytes at %#llx",
				      write ? "write" : "read", len, address);
			break;
		}
		at = address - mapping->base - mapping->offset;
		part = min(part, mapping->len - at);
		if (!permitted(device, mapping, at, part, write))
			break;
		bounce = device_side(mapping, at, &part);
		if (write) {
			memcpy(bounce, buffer, part);
		} else {
			check_synced(mapping, at, bounce, part);
			memcpy(buffer, bounce, part);
		}
		address += part;
		buffer += part;
		len -= part;
	}
	if (!write)
		memset(buffer, STRICT_NOTHING, len);
	spin_unlock_irqrestore(&strict_lock, flags);
}

/* Reads from, or writes to, addresses that the device has. */
void strict_access(struct ib_device *device, u64 address, void *buffer,
		   size_t len, bool write)
{
	while (len) {
		size_t part = len;
		u64 behind = strict_behind(address, &part);

		if (strict_pci())
			strict_pci_access(behind, buffer, part, write);
		else
			access_mapped(device, behind, buffer, part, write);
		address += part;
		buffer += part;
		len -= part;
	}
}

/* Is called for memcpy() in rxe: one side may be a device address. */
void strict_copy(struct ib_device *device, void *to, const void *from,
		 size_t len)
{
	if (strict_is_address(to))
		strict_access(device, (uintptr_t)to & STRICT_ADDRESS,
			      (void *)from, len, true);
	else if (strict_is_address(from))
		strict_access(device, (uintptr_t)from & STRICT_ADDRESS, to, len,
			      false);
	else
		memcpy(to, from, len);
}
