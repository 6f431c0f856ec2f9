// SPDX-License-Identifier: GPL-2.0
/* Makes and connects the queue pairs of the tests of the strict device. */
#include <linux/dma-map-ops.h>
#include <linux/etherdevice.h>
#include <linux/platform_device.h>
#include <rdma/ib_cache.h>

#include "rig.h"

/* Less than two such queues can complete, and than any profile makes of it. */
#define COMPLETIONS 6
#define INLINE 16

/* Connects one queue pair to the other, by the device's own address. */
static int connect(struct rig *rig, struct ib_qp *qp, struct ib_qp *peer,
		   const struct ib_gid_attr *gid)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.min_rnr_timer = 1,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	struct net_device *netdev;
	int status;

	status = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			      IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (status)
		return status;
	attr.qp_state = IB_QPS_RTR;
	attr.ah_attr.type = rdma_ah_find_type(rig->device, 1);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, gid->index,
			1, 0);
	rcu_read_lock();
	netdev = rcu_dereference(gid->ndev);
	if (netdev)
		ether_addr_copy(attr.ah_attr.roce.dmac, netdev->dev_addr);
	rcu_read_unlock();
	status = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV |
			      IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			      IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (status)
		return status;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

static int connect_both(struct rig *rig)
{
	const struct ib_gid_attr *gid;
	int status = -ENODEV, i;

	for (i = 0; i < 16; i++) {
		gid = rdma_get_gid_attr(rig->device, 1, i);
		if (IS_ERR(gid))
			continue;
		if (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		    ipv6_addr_v4mapped((struct in6_addr *)&gid->gid)) {
			status = connect(rig, rig->sender, rig->receiver, gid);
			if (!status)
				status = connect(rig, rig->receiver,
						 rig->sender, gid);
			i = 16;
		}
		rdma_put_gid_attr(gid);
	}
	return status;
}

static struct ib_qp *make_qp(struct rig *rig)
{
	struct ib_qp_init_attr init = {
		.send_cq = rig->cq,
		.recv_cq = rig->cq,
		.cap = {
			.max_send_wr = QUEUE,
			.max_recv_wr = QUEUE,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = INLINE,
		},
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_qp *qp = ib_create_qp(rig->pd, &init);

	rig->inline_bytes = init.cap.max_inline_data;
	return IS_ERR(qp) ? NULL : qp;
}

void rig_take_down(struct rig *rig)
{
	if (rig->sender)
		ib_destroy_qp(rig->sender);
	if (rig->receiver)
		ib_destroy_qp(rig->receiver);
	if (rig->cq)
		ib_free_cq(rig->cq);
	if (rig->pd)
		ib_dealloc_pd(rig->pd);
	if (rig->other)
		platform_device_unregister(rig->other);
	free_pages((unsigned long)rig->from, 1);
	free_pages((unsigned long)rig->to, 1);
}

int rig_set_up(struct rig *rig)
{
	rig->device = strict_device();
	if (!rig->device)
		return -ENODEV;
	rig->dma = rig->device->dma_device;
	rig->from = (void *)__get_free_pages(GFP_KERNEL, 1);
	rig->to = (void *)__get_free_pages(GFP_KERNEL, 1);
	if (!rig->from || !rig->to)
		return -ENOMEM;
	rig->other = platform_device_register_simple("strict-other", -1, NULL,
						     0);
	if (IS_ERR(rig->other)) {
		rig->other = NULL;
		return -ENOMEM;
	}
	set_dma_ops(&rig->other->dev, &strict_operations);
	dma_set_mask_and_coherent(&rig->other->dev, DMA_BIT_MASK(64));
	rig->pd = ib_alloc_pd(rig->device, 0);
	if (IS_ERR(rig->pd)) {
		rig->pd = NULL;
		return -ENOMEM;
	}
	rig->cq = ib_alloc_cq(rig->device, NULL, COMPLETIONS, 0,
			      IB_POLL_DIRECT);
	if (IS_ERR(rig->cq)) {
		rig->cq = NULL;
		return -ENOMEM;
	}
	rig->sender = make_qp(rig);
	rig->receiver = make_qp(rig);
	if (!rig->sender || !rig->receiver)
		return -ENOMEM;
	return connect_both(rig);
}
