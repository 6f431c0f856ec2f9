// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs and the connection manager as plain functions over plain structures,
 * for ../src/verbs.rs. Many of them are inline functions, macros or unions in
 * C, which Rust cannot name.
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <linux/types.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

/* What verbs.rs declares as Event. */
struct peer_event {
	__u32 kind;
	__s32 status;
	struct rdma_cm_id *id;
	__u32 private_len;
	__u8 private_data[256];
};

/* What verbs.rs declares as Completion. */
struct peer_completion {
	__u64 id;
	__u32 status;
	__u32 length;
	__u32 received;
	__u32 invalidates;
	__u32 key;
};

/* What verbs.rs declares as Work. */
struct peer_work {
	__u64 id;
	__u32 opcode;
	__u32 key;
	__u64 remote;
	__u64 local;
	__u32 length;
	__u32 lkey;
};

/* Waits for the next event. 0, or a negative error. */
int peer_event(struct rdma_event_channel *channel, int timeout_ms,
	       struct peer_event *out)
{
	struct pollfd pollfd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	const struct rdma_conn_param *conn;
	int ret;

	ret = poll(&pollfd, 1, timeout_ms);
	if (ret <= 0)
		return ret < 0 ? -errno : -ETIMEDOUT;
	if (rdma_get_cm_event(channel, &event))
		return -errno;

	memset(out, 0, sizeof(*out));
	out->kind = event->event;
	out->status = event->status;
	out->id = event->id;
	conn = &event->param.conn;
	if (conn->private_data) {
		out->private_len = conn->private_data_len;
		memcpy(out->private_data, conn->private_data,
		       conn->private_data_len);
	}
	return rdma_ack_cm_event(event) ? -errno : 0;
}

struct ibv_context *peer_context(struct rdma_cm_id *id)
{
	return id->verbs;
}

static struct ibv_qp_init_attr qp_attr(struct ibv_cq *cq, __u32 sends,
				       __u32 receives)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {
			.max_send_wr = sends,
			.max_recv_wr = receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
}

int peer_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_cq *cq, __u32 sends, __u32 receives)
{
	struct ibv_qp_init_attr attr = qp_attr(cq, sends, receives);

	return rdma_create_qp(id, pd, &attr) ? -errno : 0;
}

/* A queue pair of no connection. */
struct ibv_qp *peer_lone_qp(struct ibv_pd *pd, struct ibv_cq *cq, __u32 sends,
			    __u32 receives)
{
	struct ibv_qp_init_attr attr = qp_attr(cq, sends, receives);

	return ibv_create_qp(pd, &attr);
}

/* Connects (active) or accepts. `depth` is how many RDMA Reads both ends may have under way. */
int peer_connect(struct rdma_cm_id *id, int active, const void *private_data,
		 __u8 private_len, __u8 depth, __u8 rnr_retries)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = private_len,
		.responder_resources = depth,
		.initiator_depth = depth,
		.retry_count = 7,
		.rnr_retry_count = rnr_retries,
	};

	if (active ? rdma_connect(id, &param) : rdma_accept(id, &param))
		return -errno;
	return 0;
}

/* How long the other device shall wait before it sends again; before the route is resolved. */
int peer_ask_ack_timeout(struct rdma_cm_id *id, __u8 timeout)
{
	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			       &timeout, sizeof(timeout)) ? -errno : 0;
}

/* From now on the device ignores all packets for the queue pair. */
int peer_fall_silent(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return -ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
}

int peer_post_receive(struct rdma_cm_id *id, __u64 wr_id, __u64 address,
		      __u32 length, __u32 lkey)
{
	struct ibv_sge sge = { address, length, lkey };
	struct ibv_recv_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(id->qp, &wr, &bad);
}

int peer_post(struct rdma_cm_id *id, const struct peer_work *work)
{
	struct ibv_sge sge = { work->local, work->length, work->lkey };
	struct ibv_send_wr wr = {
		.wr_id = work->id,
		.opcode = work->opcode,
		.sg_list = &sge,
		.num_sge = work->length ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	switch (wr.opcode) {
	case IBV_WR_SEND_WITH_INV:
		wr.invalidate_rkey = work->key;
		break;
	case IBV_WR_SEND_WITH_IMM:
		wr.imm_data = work->key;
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = work->remote;
		wr.wr.atomic.rkey = work->key;
		wr.wr.atomic.compare_add = 1;
		break;
	default:
		wr.wr.rdma.remote_addr = work->remote;
		wr.wr.rdma.rkey = work->key;
	}
	return -ibv_post_send(id->qp, &wr, &bad);
}

/* 1 with a completion, 0 without one, or a negative error. */
int peer_poll(struct ibv_cq *cq, struct peer_completion *out)
{
	struct ibv_wc wc;
	int ret = ibv_poll_cq(cq, 1, &wc);

	if (ret <= 0)
		return ret;
	memset(out, 0, sizeof(*out));
	out->id = wc.wr_id;
	out->status = wc.status;
	if (wc.status)
		return 1;
	out->received = !!(wc.opcode & IBV_WC_RECV);
	out->length = wc.byte_len;
	/*
	 * rxe passes on the kernel's value of this flag, which is bit 2; verbs
	 * have another meaning for that, but not on a connection.
	 */
	out->invalidates = !!(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK));
	out->key = out->invalidates ? wc.invalidated_rkey : 0;
	return 1;
}

/* As peer_poll, but sleeps until there is a completion. */
int peer_wait(struct ibv_cq *cq, struct ibv_comp_channel *events,
	      int timeout_ms, struct peer_completion *out)
{
	struct pollfd pollfd = { .fd = events->fd, .events = POLLIN };
	struct ibv_cq *told;
	void *cookie;
	int ret;

	for (;;) {
		ret = peer_poll(cq, out);
		if (ret)
			return ret;
		ret = ibv_req_notify_cq(cq, 0);
		if (ret)
			return -ret;
		/* One that came before has no event. */
		ret = peer_poll(cq, out);
		if (ret)
			return ret;
		ret = poll(&pollfd, 1, timeout_ms);
		if (ret <= 0)
			return ret < 0 ? -errno : -ETIMEDOUT;
		if (ibv_get_cq_event(events, &told, &cookie))
			return -errno;
		ibv_ack_cq_events(told, 1);
	}
}

struct ibv_mr *peer_register(struct ibv_pd *pd, void *memory, __u64 length,
			     __u64 address, int access)
{
	return ibv_reg_mr_iova(pd, memory, length, address, access);
}

/* Binds a window over memory that the peer may write through it. */
int peer_bind(struct rdma_cm_id *id, struct ibv_mw *mw, struct ibv_mr *mr,
	      __u64 wr_id, __u32 key)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = key,
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)mr->addr,
				.length = mr->length,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};
	struct ibv_send_wr *bad;

	return -ibv_post_send(id->qp, &wr, &bad);
}

/* The key after that of `mw`: the device wants another one for each binding. */
__u32 peer_next_key(struct ibv_mw *mw)
{
	return ibv_inc_rkey(mw->rkey);
}

struct ibv_mw *peer_window(struct ibv_pd *pd)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

void peer_free_window(struct ibv_mw *mw)
{
	ibv_dealloc_mw(mw);
}

__u32 peer_lkey(struct ibv_mr *mr)
{
	return mr->lkey;
}

__u32 peer_rkey(struct ibv_mr *mr)
{
	return mr->rkey;
}

/*
 * From now on the packets of a UDP socket that is not connected have no
 * identification in their IP header.
 */
int peer_without_identification(int socket)
{
	int discover = IP_PMTUDISC_DO;

	return setsockopt(socket, IPPROTO_IP, IP_MTU_DISCOVER, &discover,
			  sizeof(discover)) ? -errno : 0;
}
