/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A strict device: rxe with device addresses of its own. README.md has what it
 * is for, and what it finds.
 */
#ifndef _STRICT_H
#define _STRICT_H

#include <linux/device.h>
#include <linux/dma-direction.h>
#include <linux/highmem.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

/* What a device, or who maps memory for it, does wrong. */
enum strict_fault {
	STRICT_OUTSIDE,		/* access to an address that is not mapped */
	STRICT_AFTER_UNMAP,	/* access to one that was */
	STRICT_DIRECTION,	/* access that the mapping is not for */
	STRICT_FOREIGN,		/* access to a mapping for another device */
	STRICT_CPU_OWNS,	/* access to what was not given back by a sync */
	STRICT_NOT_SYNCED,	/* access to what the CPU wrote since */
	STRICT_CPU_WROTE,	/* the CPU wrote to what is the device's */
	STRICT_BAD_UNMAP,	/* unmapped otherwise than it was mapped */
	STRICT_BAD_SYNC,	/* a sync of what is not mapped that way */
	STRICT_BAD_MAP,		/* mapped what the device cannot have */
	STRICT_LEFT,		/* mapped for a device that is gone */
	STRICT_LIMIT,		/* a request that the queue pair is not for */
	STRICT_FAULTS
};

#define STRICT_FRAMES 16

struct strict_trace {
	unsigned long frames[STRICT_FRAMES];
	unsigned int count;
	pid_t pid;
	char comm[TASK_COMM_LEN];
};

/*
 * A mapping. Its pages are what the device has; memory gets their content, and
 * they that of memory, when it is mapped, synced and unmapped.
 */
struct strict_mapping {
	struct rb_node node;	/* by base */
	struct list_head list;	/* of those that are no more, oldest first */
	struct device *owner;
	u64 base;		/* device address of the first page */
	unsigned int offset;	/* of the first byte there */
	size_t len;
	void *memory;
	enum dma_data_direction direction;
	bool single;		/* not from a scatter list */
	bool gone;
	size_t cpu_start, cpu_end;	/* what a sync gave to the CPU */
	struct strict_trace mapped, unmapped;
	unsigned int count;
	struct page *pages[];
};

/* Protects all mappings, which all devices share. */
extern spinlock_t strict_lock;

/* memory.c */
struct strict_mapping *strict_new(struct device *owner, void *memory, size_t len,
				  unsigned int offset,
				  enum dma_data_direction direction);
void strict_discard(struct strict_mapping *mapping);
int strict_place(struct device *owner, u64 span, u64 align, u64 *base);
void strict_insert(struct strict_mapping *mapping, u64 base);
struct strict_mapping *strict_find(u64 address);
void strict_begin(struct strict_mapping *mapping, bool sync);
void strict_end(struct strict_mapping *mapping, bool sync);
void strict_give_to_cpu(struct strict_mapping *mapping, size_t start,
			size_t len);
void strict_give_to_device(struct strict_mapping *mapping, size_t start,
			   size_t len);
unsigned int strict_left(struct device *owner);
void strict_forget(void);
void strict_access(struct ib_device *device, u64 address, void *buffer,
		   size_t len, bool write);
void strict_copy(struct ib_device *device, void *to, const void *from,
		 size_t len);

/* What a device reads where nothing is mapped. */
#define STRICT_NOTHING 0xdb

/* gaps.c */
u64 strict_behind(u64 address, size_t *len);

/* pci.c */
struct seq_file;
struct device *strict_pci(void);
int strict_find_pci(void);
void strict_put_pci(void);
void strict_pci_access(u64 address, void *buffer, size_t len, bool write);
void strict_show_reached(struct seq_file *file);

/* operations.c */
extern const struct dma_map_ops strict_operations;

/* report.c */
void strict_trace(struct strict_trace *trace);
void strict_report(enum strict_fault fault, struct strict_mapping *mapping,
		   const char *format, ...) __printf(3, 4);
void strict_expect(enum strict_fault fault);
unsigned int strict_met(void);
const char *strict_name(enum strict_fault fault);
unsigned int strict_count(enum strict_fault fault);

/* device.c */
struct strict_settings {
	unsigned int mask;
	unsigned int segment;
	unsigned long boundary;
	unsigned int fail_maps;
	bool merge;
	bool keep_offset;
	bool ownership;
	char profile[16];
};

extern struct strict_settings strict_settings;
int rxe_alloc_wq(void);
void rxe_net_del(struct ib_device *device);
void rxe_destroy_wq(void);
int strict_start(void);
void strict_stop(void);
int strict_register(struct ib_device *device, const char *name,
		    struct device *dma);
bool strict_report_port(unsigned int ms);
bool strict_remove(void);
struct ib_device *strict_device(void);

/* test.c */
int strict_test(void);

/*
 * A device address has 60 bits at most. The mark tells it from all pointers of
 * the kernel, and no memory is there.
 */
#define STRICT_MARK BIT_ULL(60)
#define STRICT_ADDRESS GENMASK_ULL(59, 0)

static inline void *strict_pointer(u64 address)
{
	return (void *)(uintptr_t)((address & STRICT_ADDRESS) | STRICT_MARK);
}

static inline struct page *strict_page(u64 address)
{
	return strict_pointer(address & PAGE_MASK);
}

static inline bool strict_is_address(const void *pointer)
{
	return (u64)(uintptr_t)pointer >> 60 == 1;
}

static inline void *strict_kmap(struct page *page)
{
	return strict_is_address(page) ? page : kmap_local_page(page);
}

static inline void strict_kunmap(const void *address)
{
	if (!strict_is_address(address))
		kunmap_local(address);
}

#endif
