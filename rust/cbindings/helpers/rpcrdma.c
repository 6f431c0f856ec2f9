// SPDX-License-Identifier: GPL-2.0
/*
 * What only rpcrdma.ko calls, sorted.
 */
#include "bindings.h"

void rust_rdma_helper_clear_bit(unsigned int nr, unsigned long *word)
{
	clear_bit(nr, word);
}

struct ib_cq *rust_rdma_helper_ib_alloc_cq_any(struct ib_device *device,
					       void *private, int nr_cqe,
					       enum ib_poll_context poll_ctx)
{
	return ib_alloc_cq_any(device, private, nr_cqe, poll_ctx);
}

struct ib_pd *rust_rdma_helper_ib_alloc_pd(struct ib_device *device,
					   unsigned int flags)
{
	return ib_alloc_pd(device, flags);
}

void rust_rdma_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

int rust_rdma_helper_ib_dereg_mr(struct ib_mr *mr)
{
	return ib_dereg_mr(mr);
}

int rust_rdma_helper_ib_dma_map_sg(struct ib_device *device,
				   struct scatterlist *sg, int nents,
				   enum dma_data_direction direction)
{
	return ib_dma_map_sg(device, sg, nents, direction);
}

u64 rust_rdma_helper_ib_dma_map_single(struct ib_device *device, void *address,
				       size_t size,
				       enum dma_data_direction direction)
{
	return ib_dma_map_single(device, address, size, direction);
}

int rust_rdma_helper_ib_dma_mapping_error(struct ib_device *device, u64 address)
{
	return ib_dma_mapping_error(device, address);
}

void rust_rdma_helper_ib_dma_sync_single_for_cpu(struct ib_device *device,
						 u64 address, size_t size,
						 enum dma_data_direction direction)
{
	ib_dma_sync_single_for_cpu(device, address, size, direction);
}

void rust_rdma_helper_ib_dma_sync_single_for_device(struct ib_device *device,
						    u64 address, size_t size,
						    enum dma_data_direction direction)
{
	ib_dma_sync_single_for_device(device, address, size, direction);
}

void rust_rdma_helper_ib_dma_unmap_sg(struct ib_device *device,
				      struct scatterlist *sg, int nents,
				      enum dma_data_direction direction)
{
	ib_dma_unmap_sg(device, sg, nents, direction);
}

void rust_rdma_helper_ib_dma_unmap_unsynced(struct ib_device *device, u64 address,
					    size_t size,
					    enum dma_data_direction direction)
{
	if (!ib_uses_virt_dma(device))
		dma_unmap_single_attrs(device->dma_device, address, size,
				       direction, DMA_ATTR_SKIP_CPU_SYNC);
}

int rust_rdma_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
				  const struct ib_recv_wr **bad_wr)
{
	return ib_post_recv(qp, wr, bad_wr);
}

int rust_rdma_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
				  const struct ib_send_wr **bad_wr)
{
	return ib_post_send(qp, wr, bad_wr);
}

void rust_rdma_helper_ib_update_fast_reg_key(struct ib_mr *mr, u8 key)
{
	ib_update_fast_reg_key(mr, key);
}

int rust_rdma_helper_ibdev_to_node(struct ib_device *device)
{
	return ibdev_to_node(device);
}

void rust_rdma_helper_init_delayed_work(struct delayed_work *work,
					work_func_t function,
					struct lock_class_key *key)
{
	INIT_DELAYED_WORK(work, function);
	/* One kind of work may wait for another, so each has a class. */
	lockdep_init_map(&work->work.lockdep_map, "rpcrdma_work", key, 0);
}

void rust_rdma_helper_kfree_rcu_mightsleep(const void *object)
{
	kfree_rcu_mightsleep(object);
}

int rust_rdma_helper_kref_get_unless_zero(struct kref *kref)
{
	return kref_get_unless_zero(kref);
}

bool rust_rdma_helper_lwq_enqueue(struct lwq_node *node, struct lwq *queue)
{
	return lwq_enqueue(node, queue);
}

void *rust_rdma_helper_page_address(const struct page *page)
{
	return page_address(page);
}

struct folio *rust_rdma_helper_page_folio(struct page *page)
{
	return page_folio(page);
}

phys_addr_t rust_rdma_helper_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

void rust_rdma_helper_percpu_counter_set(struct percpu_counter *counter,
					 s64 amount)
{
	percpu_counter_set(counter, amount);
}

struct rdma_cm_id *rust_rdma_helper_rdma_create_id(struct net *net,
						   rdma_cm_event_handler handler,
						   void *context,
						   enum rdma_ucm_port_space ps,
						   enum ib_qp_type qp_type)
{
	return rdma_create_id(net, handler, context, ps, qp_type);
}

bool rust_rdma_helper_rdma_protocol_iwarp(const struct ib_device *device,
					  u32 port)
{
	return rdma_protocol_iwarp(device, port);
}

unsigned short rust_rdma_helper_rpc_get_port(const struct sockaddr *address)
{
	return rpc_get_port(address);
}

int rust_rdma_helper_rpc_reply_expected(struct rpc_task *task)
{
	return rpc_reply_expected(task);
}

void rust_rdma_helper_rpc_set_port(struct sockaddr *address, unsigned short port)
{
	rpc_set_port(address, port);
}

bool rust_rdma_helper_sendpage_ok(struct page *page)
{
	return sendpage_ok(page);
}

void rust_rdma_helper_set_bit(unsigned int nr, unsigned long *word)
{
	set_bit(nr, word);
}

void rust_rdma_helper_sg_mark_end(struct scatterlist *sg)
{
	sg_mark_end(sg);
}

void rust_rdma_helper_sg_set_page(struct scatterlist *sg, struct page *page,
				  unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}

struct shrinker *rust_rdma_helper_shrinker_alloc(unsigned int flags,
						 const char *name)
{
	return shrinker_alloc(flags, "%s", name);
}

bool rust_rdma_helper_svc_xprt_is_dead(const struct svc_xprt *xprt)
{
	return svc_xprt_is_dead(xprt);
}

void rust_rdma_helper_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

bool rust_rdma_helper_virt_addr_valid(const void *address)
{
	return virt_addr_valid(address);
}

void rust_rdma_helper_xprt_clear_connecting(struct rpc_xprt *xprt)
{
	xprt_clear_connecting(xprt);
}

int rust_rdma_helper_xprt_connected(struct rpc_xprt *xprt)
{
	return xprt_connected(xprt);
}

void rust_rdma_helper_xprt_set_bound(struct rpc_xprt *xprt)
{
	xprt_set_bound(xprt);
}

void rust_rdma_helper_xprt_set_connected(struct rpc_xprt *xprt)
{
	xprt_set_connected(xprt);
}
