// SPDX-License-Identifier: GPL-2.0
/*
 * The side that connects, and uses the numbers of the other one.
 */
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "consumer.h"

static void hello_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct connection *conn = cq->cq_context;

	conn->wc_status = wc->status;
	complete(&conn->event);
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct connection *conn = cq->cq_context;

	conn->wc_status = wc->status;
	conn->wc_opcode = wc->opcode;
	complete(&conn->done);
}

static int connecting_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct connection *conn = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		conn->status = 0;
		complete(&conn->event);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		return 0;
	default:
		conn->status = event->status ? event->status : -ECONNREFUSED;
		complete(&conn->event);
		return 0;
	}
}

/*
 * Waits for the next event, or for the hello. -ETIME if none comes, not
 * -ETIMEDOUT: that is the status of an attempt to connect that took too long.
 */
static int next_event(struct connection *conn, int status)
{
	if (status)
		return status;
	if (!wait_for_completion_timeout(&conn->event, TIMEOUT_JIFFIES))
		return -ETIME;
	return conn->status;
}

/* Posts a request, and waits for its completion. -ETIME if it is lost. */
static int carry_out(struct connection *conn, struct ib_send_wr *wr,
		     enum ib_wc_opcode opcode)
{
	int status;

	wr->wr_cqe = &conn->send_done;
	wr->send_flags = IB_SEND_SIGNALED;
	status = ib_post_send(conn->id->qp, wr, NULL);
	if (status)
		return status;
	if (!wait_for_completion_timeout(&conn->done, TIMEOUT_JIFFIES))
		return -ETIME;
	if (conn->wc_status != IB_WC_SUCCESS)
		return -EIO;
	return conn->wc_opcode == opcode ? 0 : -EPROTO;
}

static int connect_to(struct connection *conn)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(settings.port),
	};
	struct rdma_conn_param param = {
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	/* Over iWARP the side that connects is the first to send. */
	struct ib_rdma_wr first = { .wr.opcode = IB_WR_RDMA_WRITE };
	struct ib_sge sge;
	int status;

	if (!in4_pton(settings.connect, -1, (u8 *)&address.sin_addr, -1, NULL))
		return -EINVAL;
	status = next_event(conn, rdma_resolve_addr(conn->id, NULL,
						    (struct sockaddr *)&address,
						    2000));
	if (!status)
		status = next_event(conn, rdma_resolve_route(conn->id, 2000));
	if (!status)
		status = make_queues(conn);
	if (status)
		return status;
	conn->receive_done.done = hello_received;
	conn->send_done.done = send_done;
	sge = memory_of(conn, sizeof(struct hello));
	status = post_receive(conn, &sge);
	if (!status)
		status = next_event(conn, rdma_connect(conn->id, &param));
	if (!status)
		status = carry_out(conn, &first.wr, IB_WC_RDMA_WRITE);
	/* The hello. */
	return next_event(conn, status);
}

struct atomic_op {
	enum ib_wr_opcode opcode;
	enum ib_wc_opcode completed;
	u64 compare_add, swap, compare_add_mask, swap_mask;
};

static int change(struct connection *conn, struct hello *there, int number,
		  struct atomic_op op, u64 *original)
{
	struct ib_sge sge = memory_of(conn, sizeof(u64));
	struct ib_atomic_wr wr = {
		.wr = {
			.opcode = op.opcode,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = be64_to_cpu(there->address) + 8 * number,
		.compare_add = op.compare_add,
		.swap = op.swap,
		.compare_add_mask = op.compare_add_mask,
		.swap_mask = op.swap_mask,
		.rkey = be32_to_cpu(there->key),
	};
	int status;

	WRITE_ONCE(*conn->memory, 0xdead);
	status = carry_out(conn, &wr.wr, op.completed);
	*original = READ_ONCE(*conn->memory);
	return status;
}

static int add(struct connection *conn, struct hello *there, int number, u64 by,
	       u64 *original)
{
	struct atomic_op op = {
		.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
		.completed = IB_WC_FETCH_ADD,
		.compare_add = by,
	};

	return change(conn, there, number, op, original);
}

static int add_to_fields(struct connection *conn, struct hello *there)
{
	struct atomic_op op = {
		.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
		.completed = IB_WC_MASKED_FETCH_ADD,
		/* The lower field wraps, and nothing is carried out of it. */
		.compare_add = 0x00000001ffffffff,
		.compare_add_mask = 0x8000000080000000,
	};
	u64 original;

	return change(conn, there, FIELDS, op, &original);
}

/* Adds one, as who holds no lock does it. */
static int swap_until_it_fits(struct connection *conn, struct hello *there)
{
	struct atomic_op op = {
		.opcode = IB_WR_ATOMIC_CMP_AND_SWP,
		.completed = IB_WC_COMP_SWAP,
	};
	u64 original;
	int status;

	status = add(conn, there, LOCK, 0, &original);
	do {
		if (status)
			return status;
		op.compare_add = original;
		op.swap = original + 1;
		status = change(conn, there, LOCK, op, &original);
	} while (status || original != op.compare_add);
	return 0;
}

/* Turns this connection's bit, whatever the others do to theirs. */
static int turn_bit(struct connection *conn, struct hello *there, int turn)
{
	u64 bit = BIT_ULL(conn->index), before = turn % 2 ? 0 : bit, original;
	struct atomic_op op = {
		.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
		.completed = IB_WC_MASKED_COMP_SWAP,
		.compare_add = before,
		.compare_add_mask = bit,
		.swap = ~before,
		.swap_mask = bit,
	};
	int status;

	status = change(conn, there, BITS, op, &original);
	if (!status && (original & bit) != before)
		return -EPROTO;
	return status;
}

static int write_number(struct connection *conn, struct hello *there, u64 number)
{
	struct ib_sge sge = memory_of(conn, sizeof(u64));
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE_WITH_IMM,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.imm_data = cpu_to_be32(conn->index << 20 | number),
		},
		.remote_addr = be64_to_cpu(there->address) +
			       8 * (SLOTS + conn->index),
		.rkey = be32_to_cpu(there->key),
	};

	*conn->memory = number;
	return carry_out(conn, &wr.wr, IB_WC_RDMA_WRITE);
}

static int use_numbers(struct connection *conn, struct hello *there)
{
	u64 original, before = 0;
	int status = 0, at;

	for (at = 1; !status && at <= settings.rounds; at++) {
		status = write_number(conn, there, at);
		if (!status)
			status = add(conn, there, SUM, 1, &original);
		/* It grows with each round of this connection. */
		if (!status && at > 1 && original <= before)
			return -EPROTO;
		before = original;
		if (!status)
			status = swap_until_it_fits(conn, there);
		if (!status && settings.masked)
			status = add_to_fields(conn, there);
		if (!status && settings.masked)
			status = turn_bit(conn, there, at);
	}
	return status;
}

/* RFC 7306 has no such message. */
static int send_with_immediate(struct connection *conn)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_IMM,
		.wr_cqe = &conn->send_done,
	};

	return ib_post_send(conn->id->qp, &wr, NULL) == -EINVAL ? 0 : -EPROTO;
}

static DECLARE_COMPLETION(posted_all);

static void waits(struct ib_cq *cq, struct ib_wc *wc)
{
	wait_for_completion_timeout(&posted_all, TIMEOUT_JIFFIES);
}

/* Posts while nobody polls, for as long as that works. */
static int fill_queue(struct connection *conn)
{
	struct ib_rdma_wr write = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
			.wr_cqe = &conn->send_done,
		},
	};
	int posted = 0, refused = 0, status;

	conn->send_done.done = waits;
	while (posted < 2 * (SENDS + RECEIVES) && refused < 100) {
		status = ib_post_send(conn->id->qp, &write.wr, NULL);
		if (!status)
			posted++;
		else if (status != -ENOMEM)
			break;
		else if (++refused)
			msleep(20);
	}
	complete_all(&posted_all);
	/* What drains the queue needs a place. */
	ssleep(1);
	pr_info("%d requests were posted while nobody polled\n", posted);
	/* The core polled some of them together with the one that waits. */
	return refused == 100 && posted >= SENDS && posted < RECEIVES ? 0 : -EPROTO;
}

static int use_wrongly(struct connection *conn, struct hello *there)
{
	u64 original;
	int status;

	if (settings.fails == 5)
		return send_with_immediate(conn);
	if (settings.fails == 6)
		return fill_queue(conn);
	if (settings.fails == 1)
		be64_add_cpu(&there->address, 4);
	if (settings.fails == 3)
		there->key ^= cpu_to_be32(0x40);
	status = add(conn, there, SUM, 1, &original);
	pr_info("it completed with status %d\n", conn->wc_status);
	return status == -EIO ? 0 : -EPROTO;
}

static DECLARE_COMPLETION(began);

static int connecting(void *data)
{
	struct connection *conn = data;
	struct hello there;
	int status;

	complete(&began);
	status = connect_to(conn);
	if (!status && conn->wc_status != IB_WC_SUCCESS)
		status = -EIO;
	if (!status) {
		memcpy(&there, conn->memory, sizeof(there));
		status = settings.fails ? use_wrongly(conn, &there) :
				 use_numbers(conn, &there);
	}
	if (status)
		pr_err("connection %d: %d, work completion %d\n", conn->index,
		       status, conn->wc_status);
	rdma_disconnect(conn->id);
	release(conn);
	return status;
}

int use_peer(void)
{
	struct task_struct *tasks[SLOTS + 28];
	struct connection *conn;
	struct rdma_cm_id *id;
	int status = 0, started = 0, result;

	settings.qps = clamp_t(int, settings.fails ? 1 : settings.qps, 1,
			       ARRAY_SIZE(tasks));
	settings.rounds = min(settings.rounds, RECEIVES - 1);
	while (started < settings.qps) {
		conn = new_connection(NULL);
		if (!conn)
			break;
		id = rdma_create_id(&init_net, connecting_event, conn,
				    RDMA_PS_TCP, IB_QPT_RC);
		if (IS_ERR(id)) {
			kfree(conn);
			break;
		}
		conn->id = id;
		conn->index = settings.first + started;
		tasks[started] = kthread_create(connecting, conn, "consumer_%d",
						conn->index);
		if (IS_ERR(tasks[started])) {
			release(conn);
			break;
		}
		get_task_struct(tasks[started]);
		wake_up_process(tasks[started]);
		/* Who is stopped before does nothing. */
		wait_for_completion(&began);
		started++;
	}
	if (started < settings.qps)
		status = -ENOMEM;
	while (started--) {
		result = kthread_stop_put(tasks[started]);
		status = status ? status : result;
	}
	return status;
}
