// SPDX-License-Identifier: GPL-2.0
/*
 * A connection: its queue pair and its memory, on either side.
 */
#include <linux/slab.h>

#include "consumer.h"

struct ib_sge memory_of(struct connection *conn, u32 length)
{
	struct ib_sge sge = {
		.addr = conn->address,
		.length = length,
		.lkey = conn->pd->local_dma_lkey,
	};

	return sge;
}

int post_receive(struct connection *conn, struct ib_sge *sge)
{
	struct ib_recv_wr wr = {
		.wr_cqe = &conn->receive_done,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
	};

	return ib_post_recv(conn->id->qp, &wr, NULL);
}

void release(struct connection *conn)
{
	if (conn->id->qp) {
		ib_drain_qp(conn->id->qp);
		rdma_destroy_qp(conn->id);
	}
	if (conn->mr)
		ib_dereg_mr(conn->mr);
	if (conn->cq)
		ib_free_cq(conn->cq);
	if (conn->address)
		ib_dma_unmap_single(conn->id->device, conn->address, PAGE_SIZE,
				    DMA_BIDIRECTIONAL);
	if (conn->pd)
		ib_dealloc_pd(conn->pd);
	rdma_destroy_id(conn->id);
	kfree(conn->memory);
	kfree(conn);
}

static void queues_event(struct ib_event *event, void *context)
{
	pr_info("queue pair: %s\n", ib_event_msg(event->event));
}

/* Makes them, once the device is known. */
int make_queues(struct connection *conn)
{
	struct ib_device *device = conn->id->device;
	struct ib_qp_init_attr attr = {
		.event_handler = queues_event,
		.cap = {
			.max_send_wr = SENDS,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	conn->memory = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!conn->memory)
		return -ENOMEM;
	conn->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(conn->pd)) {
		conn->pd = NULL;
		return -ENOMEM;
	}
	conn->address = ib_dma_map_single(device, conn->memory, PAGE_SIZE,
					  DMA_BIDIRECTIONAL);
	conn->cq = ib_alloc_cq(device, conn, SENDS + RECEIVES, 0,
			       IB_POLL_WORKQUEUE);
	if (IS_ERR(conn->cq)) {
		conn->cq = NULL;
		return -ENOMEM;
	}
	attr.send_cq = conn->cq;
	attr.recv_cq = conn->cq;
	return rdma_create_qp(conn->id, conn->pd, &attr);
}

struct connection *new_connection(struct rdma_cm_id *id)
{
	struct connection *conn = kzalloc(sizeof(*conn), GFP_KERNEL);

	if (!conn)
		return NULL;
	conn->id = id;
	init_completion(&conn->event);
	init_completion(&conn->done);
	INIT_LIST_HEAD(&conn->list);
	return conn;
}
