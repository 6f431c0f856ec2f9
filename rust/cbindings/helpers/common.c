// SPDX-License-Identifier: GPL-2.0
/*
 * What both modules call, sorted.
 */
#include "bindings.h"

struct workqueue_struct *rust_rdma_helper_alloc_workqueue(const char *name,
							  unsigned int flags)
{
	return alloc_workqueue("%s", flags, 0, name);
}

void rust_rdma_helper_folio_get(struct page *page)
{
	folio_get(page_folio(page));
}

void rust_rdma_helper_folio_put(struct page *page)
{
	folio_put(page_folio(page));
}

struct net *rust_rdma_helper_get_net(struct net *net)
{
	return get_net(net);
}

bool rust_rdma_helper_ib_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

void rust_rdma_helper_memalloc_nofs_restore(unsigned int flags)
{
	memalloc_nofs_restore(flags);
}

unsigned int rust_rdma_helper_memalloc_nofs_save(void)
{
	return memalloc_nofs_save();
}

void rust_rdma_helper_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

unsigned int rust_rdma_helper_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

void rust_rdma_helper_memalloc_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}

unsigned int rust_rdma_helper_memalloc_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

void rust_rdma_helper_memcpy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

int rust_rdma_helper_page_ref_count(struct page *page)
{
	return page_ref_count(page);
}

void rust_rdma_helper_percpu_counter_add_local(struct percpu_counter *counter,
					       s64 amount)
{
	percpu_counter_add_local(counter, amount);
}

void rust_rdma_helper_percpu_counter_destroy(struct percpu_counter *counter)
{
	percpu_counter_destroy(counter);
}

int rust_rdma_helper_percpu_counter_init(struct percpu_counter *counter,
					 s64 amount, gfp_t flags)
{
	return percpu_counter_init(counter, amount, flags);
}

s64 rust_rdma_helper_percpu_counter_sum_positive(struct percpu_counter *counter)
{
	return percpu_counter_sum_positive(counter);
}

void rust_rdma_helper_put_net(struct net *net)
{
	put_net(net);
}

u64 rust_rdma_helper_sg_dma_address(struct scatterlist *sg)
{
	return sg_dma_address(sg);
}

unsigned int rust_rdma_helper_sg_dma_len(struct scatterlist *sg)
{
	return sg_dma_len(sg);
}

unsigned long rust_rdma_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void rust_rdma_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

void rust_rdma_helper_timer_setup(struct timer_list *timer,
				  void (*function)(struct timer_list *),
				  unsigned int flags)
{
	timer_setup(timer, function, flags);
}

struct page *rust_rdma_helper_virt_to_page(const void *address)
{
	return virt_to_page(address);
}

/* The in-tree module has no version, so only this one has /sys/module/rpcrdma/version. */
MODULE_VERSION("0.9.0");
