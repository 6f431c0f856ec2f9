// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of kernel verbs that uses RDMA Write with Immediate Data and
 * atomic operations. It knows nothing of iWARP: over rxe it does the same.
 *
 * With port= and without connect= it listens. Each connection gets a region of
 * its own over the same page of numbers, whose key and address a first Send
 * tells. Receives have no memory. cpu_adds= is how often this machine itself
 * adds to the first number meanwhile. The parameter `numbers` has what came
 * about.
 *
 * With connect= it connects qps= times at once, uses the peer's numbers rounds=
 * times on each, and loading fails unless all went well. With fails=, a single
 * request is posted, and loading fails unless that fails: fails=1 is a FetchAdd
 * at an address that is not aligned, 2 one without the right to it, 3 one with
 * a key that there is not, 4 one like all others. Nothing happens behind it.
 */
#include <linux/inet.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define RECEIVES 256
#define SENDS 16
#define NUMBERS 512
#define PATIENCE (30 * HZ)

/* What each number is for. */
enum { SUM, FIELDS, LOCK, BITS, SLOTS };

static ushort port = 7306;
module_param(port, ushort, 0444);
static char *connect = "";
module_param(connect, charp, 0444);
static int qps = 4;
module_param(qps, int, 0444);
static int rounds = 100;
module_param(rounds, int, 0444);
static bool masked = true;
module_param(masked, bool, 0444);
static int fails;
module_param(fails, int, 0444);
static int cpu_adds;
module_param(cpu_adds, int, 0444);
/* Whether the peer grants atomic operations. */
static bool atomic = true;
module_param(atomic, bool, 0444);

static u64 *numbers;
static atomic_t immediates, mismatches, lengths;

static int show_numbers(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d %d %d %llu %llx %llu %llx\n",
			  atomic_read(&immediates), atomic_read(&mismatches),
			  atomic_read(&lengths), READ_ONCE(numbers[SUM]),
			  READ_ONCE(numbers[FIELDS]), READ_ONCE(numbers[LOCK]),
			  READ_ONCE(numbers[BITS]));
}

static const struct kernel_param_ops numbers_ops = { .get = show_numbers };
module_param_cb(numbers, &numbers_ops, NULL, 0444);

/* The first message of the listener. */
struct hello {
	__be32 key;
	__be32 reserved;
	__be64 address;
};

struct connection {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_mr *mr;
	struct ib_cqe receive_done, send_done;
	/* A hello, then the result of an atomic operation. */
	u64 *memory;
	u64 address;
	struct completion event, done;
	int status;
	enum ib_wc_status wc_status;
	enum ib_wc_opcode wc_opcode;
	struct work_struct gone;
	unsigned long ended;
	struct list_head list;
	int index;
};

static LIST_HEAD(connections);
static DEFINE_MUTEX(lock);
static struct rdma_cm_id *listener;
static struct workqueue_struct *ends;
static struct task_struct *adder;

static struct ib_sge memory_of(struct connection *conn, u32 length)
{
	struct ib_sge sge = {
		.addr = conn->address,
		.length = length,
		.lkey = conn->pd->local_dma_lkey,
	};

	return sge;
}

static int post_receive(struct connection *conn, struct ib_sge *sge)
{
	struct ib_recv_wr wr = {
		.wr_cqe = &conn->receive_done,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
	};

	return ib_post_recv(conn->id->qp, &wr, NULL);
}

/* Of the listener: a number was written, then came the slot and the number. */
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

static void hello_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		atomic_inc(&mismatches);
}

static void release(struct connection *conn)
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

/* What both sides have, once the device is known. */
static int make_queues(struct connection *conn)
{
	struct ib_device *device = conn->id->device;
	struct ib_qp_init_attr attr = {
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

static struct connection *new_connection(struct rdma_cm_id *id)
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

	if (atomic)
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

static int listener_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct connection *conn = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept_connection(id);
	case RDMA_CM_EVENT_ESTABLISHED:
		say_hello(conn);
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

	for (at = 0; at < cpu_adds && !kthread_should_stop(); at++) {
		atomic64_inc((atomic64_t *)&numbers[SUM]);
		if (at % 64 == 0)
			usleep_range(50, 100);
	}
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

static int begin_to_listen(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
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
	if (cpu_adds) {
		adder = kthread_run(add_here, NULL, "consumer_adds");
		if (IS_ERR(adder))
			adder = NULL;
	}
	return 0;
}

static void end_listening(void)
{
	struct connection *conn;
	bool some;

	if (adder)
		kthread_stop(adder);
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

/* The side that connects. */

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

/* Waits for the next event, or for the hello. */
static int next_event(struct connection *conn, int status)
{
	if (status)
		return status;
	if (!wait_for_completion_timeout(&conn->event, PATIENCE))
		return -ETIMEDOUT;
	return conn->status;
}

/* Posts a request, and waits for its completion. */
static int carry_out(struct connection *conn, struct ib_send_wr *wr,
		     enum ib_wc_opcode opcode)
{
	int status;

	wr->wr_cqe = &conn->send_done;
	wr->send_flags = IB_SEND_SIGNALED;
	status = ib_post_send(conn->id->qp, wr, NULL);
	if (status)
		return status;
	if (!wait_for_completion_timeout(&conn->done, PATIENCE))
		return -ETIMEDOUT;
	if (conn->wc_status != IB_WC_SUCCESS)
		return -EIO;
	return conn->wc_opcode == opcode ? 0 : -EPROTO;
}

static int connect_to(struct connection *conn)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
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

	if (!in4_pton(connect, -1, (u8 *)&address.sin_addr, -1, NULL))
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

	for (at = 1; !status && at <= rounds; at++) {
		status = write_number(conn, there, at);
		if (!status)
			status = add(conn, there, SUM, 1, &original);
		/* It grows with each round of this connection. */
		if (!status && at > 1 && original <= before)
			return -EPROTO;
		before = original;
		if (!status)
			status = swap_until_it_fits(conn, there);
		if (!status && masked)
			status = add_to_fields(conn, there);
		if (!status && masked)
			status = turn_bit(conn, there, at);
	}
	return status;
}

static int use_wrongly(struct connection *conn, struct hello *there)
{
	u64 original;
	int status;

	if (fails == 1)
		be64_add_cpu(&there->address, 4);
	if (fails == 3)
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
		status = fails ? use_wrongly(conn, &there) :
				 use_numbers(conn, &there);
	}
	if (status)
		pr_err("connection %d: %d, work completion %d\n", conn->index,
		       status, conn->wc_status);
	rdma_disconnect(conn->id);
	release(conn);
	return status;
}

static int use_peer(void)
{
	struct task_struct *tasks[SLOTS + 28];
	struct connection *conn;
	struct rdma_cm_id *id;
	int status = 0, started = 0, result;

	qps = clamp_t(int, fails ? 1 : qps, 1, ARRAY_SIZE(tasks));
	rounds = min(rounds, RECEIVES - 1);
	while (started < qps) {
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
		conn->index = started;
		tasks[started] = kthread_create(connecting, conn, "consumer_%d",
						started);
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
	if (started < qps)
		status = -ENOMEM;
	while (started--) {
		result = kthread_stop_put(tasks[started]);
		status = status ? status : result;
	}
	return status;
}

static int __init consumer_init(void)
{
	int status;

	numbers = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!numbers)
		return -ENOMEM;
	status = *connect ? use_peer() : begin_to_listen();
	if (status)
		kfree(numbers);
	return status;
}
module_init(consumer_init);

static void __exit consumer_exit(void)
{
	if (!*connect)
		end_listening();
	kfree(numbers);
}
module_exit(consumer_exit);

MODULE_DESCRIPTION("Consumer of atomic operations and immediate data");
MODULE_LICENSE("GPL");
