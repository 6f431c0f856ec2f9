// SPDX-License-Identifier: GPL-2.0
/*
 * The side that listens: it registers the numbers for each connection, tells
 * the peer of them, and takes immediate data.
 */
#include <linux/kthread.h>

#include "consumer.h"

static LIST_HEAD(connections);
static DEFINE_MUTEX(lock);
static struct rdma_cm_id *listener;
static struct workqueue_struct *ends;
static struct task_struct *adder, *user;
static unsigned long user_began;

/* A number was written, then came the slot and the number. */
static void immediate_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct connection *conn = cq->cq_context;
	u32 data, slot, number;

	if (wc->status != IB_WC_SUCCESS)
		return;
	if (wc->opcode != IB_WC_RECV_RDMA_WITH_IMM ||
	    !(wc->wc_flags & IB_WC_WITH_IMM)) {
		atomic_inc(&mismatches);
		return;
	}
	data = be32_to_cpu(wc->ex.imm_data);
	slot = SLOTS + (data >> 20);
	number = data & 0xfffff;
	/* The next one may be there already. */
	if (slot >= NUMBERS || READ_ONCE(numbers[slot]) < number)
		atomic_inc(&mismatches);
	if (wc->byte_len == sizeof(u64))
		atomic_inc(&lengths);
	atomic_inc(&immediates);
	post_receive(conn, NULL);
}

static void hello_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		atomic_inc(&mismatches);
}

static void connection_gone(struct work_struct *work)
{
	struct connection *conn = container_of(work, struct connection, gone);

	mutex_lock(&lock);
	list_del(&conn->list);
	mutex_unlock(&lock);
	release(conn);
}

static void end_connection(struct connection *conn)
{
	if (!test_and_set_bit(0, &conn->ended))
		queue_work(ends, &conn->gone);
}

static int accept_connection(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.initiator_depth = 4,
	};
	struct connection *conn = new_connection(id);
	int status, at;

	if (!conn)
		return -ENOMEM;
	id->context = conn;
	INIT_WORK(&conn->gone, connection_gone);
	conn->receive_done.done = immediate_done;
	conn->send_done.done = hello_sent;
	status = make_queues(conn);
	for (at = 0; !status && at < RECEIVES; at++)
		status = post_receive(conn, NULL);
	if (!status) {
		conn->mr = ib_alloc_mr(conn->pd, IB_MR_TYPE_MEM_REG, 1);
		if (IS_ERR(conn->mr)) {
			conn->mr = NULL;
			status = -ENOMEM;
		}
	}
	mutex_lock(&lock);
	list_add(&conn->list, &connections);
	mutex_unlock(&lock);
	if (!status)
		status = rdma_accept(id, &param);
	if (status)
		end_connection(conn);
	return 0;
}

/* Registers the numbers once more, and tells the peer where they are. */
static void say_hello(struct connection *conn)
{
	struct hello *hello = (struct hello *)conn->memory;
	struct ib_sge sge = memory_of(conn, sizeof(*hello));
	struct ib_send_wr send = {
		.wr_cqe = &conn->send_done,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ib_reg_wr reg = {
		.wr = {
			.next = &send,
			.wr_cqe = &conn->send_done,
			.opcode = IB_WR_REG_MR,
		},
		.mr = conn->mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
			  IB_ACCESS_REMOTE_WRITE,
	};
	struct scatterlist sg;

	if (settings.atomic)
		reg.access |= IB_ACCESS_REMOTE_ATOMIC;
	sg_init_one(&sg, numbers, PAGE_SIZE);
	if (ib_dma_map_sg(conn->id->device, &sg, 1, DMA_BIDIRECTIONAL) != 1 ||
	    ib_map_mr_sg(conn->mr, &sg, 1, NULL, PAGE_SIZE) != 1) {
		atomic_inc(&mismatches);
		return;
	}
	ib_update_fast_reg_key(conn->mr, ib_inc_rkey(conn->mr->rkey));
	reg.key = conn->mr->rkey;
	hello->key = cpu_to_be32(conn->mr->rkey);
	hello->address = cpu_to_be64(conn->mr->iova);
	if (ib_post_send(conn->id->qp, &reg.wr, NULL))
		atomic_inc(&mismatches);
}

/* This machine connects as well, if it is to, once somebody else has. */
static int use_own_numbers(void *unused)
{
	if (use_peer())
		atomic_inc(&mismatches);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

static void begin_to_use(void)
{
	struct task_struct *task;

	if (!*settings.connect || test_and_set_bit(0, &user_began))
		return;
	task = kthread_run(use_own_numbers, NULL, "consumer_uses");
	if (IS_ERR(task))
		atomic_inc(&mismatches);
	else
		user = task;
}

static int listener_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct connection *conn = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept_connection(id);
	case RDMA_CM_EVENT_ESTABLISHED:
		say_hello(conn);
		begin_to_use();
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		rdma_disconnect(id);
		end_connection(conn);
		return 0;
	default:
		return 0;
	}
}

/* This machine adds as well, with its own instructions. */
static int add_here(void *unused)
{
	int at;

	for (at = 0; at < settings.cpu_adds && !kthread_should_stop(); at++) {
		atomic64_inc((atomic64_t *)&numbers[SUM]);
		if (at % 64 == 0)
			usleep_range(50, 100);
	}
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

int begin_to_listen(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(settings.port),
	};
	int status;

	ends = alloc_workqueue("consumer", WQ_UNBOUND, 0);
	if (!ends)
		return -ENOMEM;
	listener = rdma_create_id(&init_net, listener_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(listener)) {
		destroy_workqueue(ends);
		return PTR_ERR(listener);
	}
	status = rdma_bind_addr(listener, (struct sockaddr *)&address);
	if (!status)
		status = rdma_listen(listener, 16);
	if (status) {
		rdma_destroy_id(listener);
		destroy_workqueue(ends);
		return status;
	}
	if (settings.cpu_adds) {
		adder = kthread_run(add_here, NULL, "consumer_adds");
		if (IS_ERR(adder))
			adder = NULL;
	}
	return 0;
}

void end_listening(void)
{
	struct connection *conn;
	bool some;

	if (adder)
		kthread_stop(adder);
	if (user)
		kthread_stop(user);
	rdma_destroy_id(listener);
	do {
		mutex_lock(&lock);
		list_for_each_entry(conn, &connections, list)
			rdma_disconnect(conn->id);
		some = !list_empty(&connections);
		mutex_unlock(&lock);
		msleep(20);
	} while (some);
	destroy_workqueue(ends);
}
