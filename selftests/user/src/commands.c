// SPDX-License-Identifier: GPL-2.0
/*
 * The write commands of /dev/infiniband/uverbs* as plain functions, for
 * kernel.rs. Nothing of libibverbs is used, so that nothing checks what is
 * asked for. Each function returns 0 or a negative error.
 */

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/types.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/siw-abi.h>

/* A command of uverbs, with what is the driver's behind it. */
struct verbs {
	struct ib_uverbs_cmd_hdr hdr;
	union {
		struct ib_uverbs_get_context get_context;
		struct ib_uverbs_alloc_pd alloc_pd;
		struct ib_uverbs_dealloc_pd dealloc_pd;
		struct ib_uverbs_create_comp_channel create_comp_channel;
		struct ib_uverbs_create_cq create_cq;
		struct ib_uverbs_destroy_cq destroy_cq;
		struct ib_uverbs_create_qp create_qp;
		struct ib_uverbs_modify_qp modify_qp;
		struct ib_uverbs_destroy_qp destroy_qp;
		struct ib_uverbs_reg_mr reg_mr;
		struct ib_uverbs_dereg_mr dereg_mr;
		struct ib_uverbs_post_send post_send;
		struct ib_uverbs_post_recv post_recv;
		struct ib_uverbs_post_srq_recv post_srq_recv;
		struct ib_uverbs_poll_cq poll_cq;
		struct ib_uverbs_req_notify_cq req_notify_cq;
		struct ib_uverbs_create_srq create_srq;
		struct ib_uverbs_create_xsrq create_xsrq;
		struct ib_uverbs_modify_srq modify_srq;
		struct ib_uverbs_query_srq query_srq;
		struct ib_uverbs_destroy_srq destroy_srq;
		__u8 octets[512];
	};
};

static int verbs_write(int fd, struct verbs *cmd, __u32 command, size_t in,
		       size_t out)
{
	ssize_t done;

	cmd->hdr.command = command;
	cmd->hdr.in_words = (sizeof(cmd->hdr) + in) / 4;
	cmd->hdr.out_words = out / 4;
	done = write(fd, cmd, sizeof(cmd->hdr) + in);
	return done < 0 ? -errno : 0;
}

int user_context(int fd, __s32 *async_fd)
{
	struct verbs cmd = {};
	struct {
		struct ib_uverbs_get_context_resp core;
		struct siw_uresp_alloc_ctx driver;
	} resp = {};
	int ret;

	cmd.get_context.response = (uintptr_t)&resp;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_GET_CONTEXT,
			  sizeof(cmd.get_context), sizeof(resp));
	*async_fd = resp.core.async_fd;
	return ret;
}

int user_alloc_pd(int fd, __u32 *pd)
{
	struct verbs cmd = {};
	struct ib_uverbs_alloc_pd_resp resp = {};
	int ret;

	cmd.alloc_pd.response = (uintptr_t)&resp;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_ALLOC_PD,
			  sizeof(cmd.alloc_pd), sizeof(resp));
	*pd = resp.pd_handle;
	return ret;
}

int user_dealloc_pd(int fd, __u32 pd)
{
	struct verbs cmd = {};

	cmd.dealloc_pd.pd_handle = pd;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_DEALLOC_PD,
			   sizeof(cmd.dealloc_pd), 0);
}

/* What kernel.rs declares as RawRing. */
struct user_ring {
	__u64 offset;
	__u32 slots;
	__u32 reserved;
};

/* What kernel.rs declares as RawCq. */
struct user_cq {
	struct user_ring ring;
	__u32 handle;
	__u32 reserved;
};

int user_create_channel(int fd, __s32 *channel)
{
	struct verbs cmd = {};
	struct ib_uverbs_create_comp_channel_resp resp = {};
	int ret;

	cmd.create_comp_channel.response = (uintptr_t)&resp;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
			  sizeof(cmd.create_comp_channel), sizeof(resp));
	*channel = resp.fd;
	return ret;
}

/* The channel is -1 if there is none. */
int user_create_cq(int fd, __u32 entries, __s32 channel, struct user_cq *out)
{
	struct verbs cmd = {};
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct siw_uresp_create_cq driver;
	} resp = {};
	int ret;

	cmd.create_cq.response = (uintptr_t)&resp;
	cmd.create_cq.cqe = entries;
	cmd.create_cq.comp_channel = channel;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_CREATE_CQ,
			  sizeof(cmd.create_cq), sizeof(resp));
	out->handle = resp.core.cq_handle;
	out->ring.slots = resp.driver.num_cqe;
	out->ring.offset = resp.driver.cq_key;
	return ret;
}

int user_destroy_cq(int fd, __u32 cq)
{
	struct verbs cmd = {};
	struct ib_uverbs_destroy_cq_resp resp = {};

	cmd.destroy_cq.response = (uintptr_t)&resp;
	cmd.destroy_cq.cq_handle = cq;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_DESTROY_CQ,
			   sizeof(cmd.destroy_cq), sizeof(resp));
}

/* What kernel.rs declares as RawQp. */
struct user_qp {
	struct user_ring send;
	struct user_ring receive;
	__u32 handle;
	__u32 number;
};

/* Events of the queue pair name it by the handle of its completion queue. */
static int create_qp(int fd, struct verbs *cmd, __u32 pd, __u32 cq, __u32 sends,
		     struct user_qp *out)
{
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct siw_uresp_create_qp driver;
	} resp = {};
	int ret;

	cmd->create_qp.response = (uintptr_t)&resp;
	cmd->create_qp.user_handle = cq;
	cmd->create_qp.pd_handle = pd;
	cmd->create_qp.send_cq_handle = cq;
	cmd->create_qp.recv_cq_handle = cq;
	cmd->create_qp.max_send_wr = sends;
	cmd->create_qp.max_send_sge = SIW_MAX_SGE;
	cmd->create_qp.qp_type = IB_UVERBS_QPT_RC;
	ret = verbs_write(fd, cmd, IB_USER_VERBS_CMD_CREATE_QP,
			  sizeof(cmd->create_qp), sizeof(resp));
	out->handle = resp.core.qp_handle;
	out->number = resp.core.qpn;
	out->send.slots = resp.driver.num_sqe;
	out->send.offset = resp.driver.sq_key;
	out->receive.slots = resp.driver.num_rqe;
	out->receive.offset = resp.driver.rq_key;
	return ret;
}

int user_create_qp(int fd, __u32 pd, __u32 cq, __u32 sends, __u32 receives,
		   struct user_qp *out)
{
	struct verbs cmd = {};

	cmd.create_qp.max_recv_wr = receives;
	cmd.create_qp.max_recv_sge = SIW_MAX_SGE;
	return create_qp(fd, &cmd, pd, cq, sends, out);
}

/* Its Receives are those of a shared receive queue. */
int user_create_shared_qp(int fd, __u32 pd, __u32 cq, __u32 sends, __u32 srq,
			  struct user_qp *out)
{
	struct verbs cmd = {};

	cmd.create_qp.is_srq = 1;
	cmd.create_qp.srq_handle = srq;
	return create_qp(fd, &cmd, pd, cq, sends, out);
}

/* To INIT, which is 1, with IB_QP_STATE and IB_QP_ACCESS_FLAGS. */
int user_init_qp(int fd, __u32 qp, __u32 access)
{
	struct verbs cmd = {};

	cmd.modify_qp.qp_handle = qp;
	cmd.modify_qp.attr_mask = 1 << 0 | 1 << 3;
	cmd.modify_qp.qp_state = 1;
	cmd.modify_qp.qp_access_flags = access;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_MODIFY_QP,
			   sizeof(cmd.modify_qp), 0);
}

/* To ERR, which is 6. */
int user_fail_qp(int fd, __u32 qp)
{
	struct verbs cmd = {};

	cmd.modify_qp.qp_handle = qp;
	cmd.modify_qp.attr_mask = 1 << 0;
	cmd.modify_qp.qp_state = 6;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_MODIFY_QP,
			   sizeof(cmd.modify_qp), 0);
}

int user_destroy_qp(int fd, __u32 qp)
{
	struct verbs cmd = {};
	struct ib_uverbs_destroy_qp_resp resp = {};

	cmd.destroy_qp.response = (uintptr_t)&resp;
	cmd.destroy_qp.qp_handle = qp;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_DESTROY_QP,
			   sizeof(cmd.destroy_qp), sizeof(resp));
}

/* What kernel.rs declares as RawSrq. */
struct user_srq {
	struct user_ring ring;
	__u32 handle;
	__u32 max_wr;
	__u32 max_sge;
	__u32 reserved;
};

int user_create_srq(int fd, __u32 pd, __u32 receives, __u32 max_sge,
		    __u32 limit, __u64 tag, struct user_srq *out)
{
	struct verbs cmd = {};
	struct {
		struct ib_uverbs_create_srq_resp core;
		struct siw_uresp_create_srq driver;
	} resp = {};
	int ret;

	cmd.create_srq.response = (uintptr_t)&resp;
	cmd.create_srq.user_handle = tag;
	cmd.create_srq.pd_handle = pd;
	cmd.create_srq.max_wr = receives;
	cmd.create_srq.max_sge = max_sge;
	cmd.create_srq.srq_limit = limit;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_CREATE_SRQ,
			  sizeof(cmd.create_srq), sizeof(resp));
	out->handle = resp.core.srq_handle;
	out->max_wr = resp.core.max_wr;
	out->max_sge = resp.core.max_sge;
	out->ring.slots = resp.driver.num_rqe;
	out->ring.offset = resp.driver.srq_key;
	return ret;
}

/* One for tag matching, which has a completion queue. */
int user_create_tag_srq(int fd, __u32 pd, __u32 cq)
{
	struct verbs cmd = {};
	struct {
		struct ib_uverbs_create_srq_resp core;
		struct siw_uresp_create_srq driver;
	} resp = {};

	cmd.create_xsrq.response = (uintptr_t)&resp;
	cmd.create_xsrq.srq_type = IB_UVERBS_SRQT_TM;
	cmd.create_xsrq.pd_handle = pd;
	cmd.create_xsrq.cq_handle = cq;
	cmd.create_xsrq.max_wr = 1;
	cmd.create_xsrq.max_sge = 1;
	cmd.create_xsrq.max_num_tags = 1;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_CREATE_XSRQ,
			   sizeof(cmd.create_xsrq), sizeof(resp));
}

/* The mask is of IB_SRQ_MAX_WR, which is 1, and IB_SRQ_LIMIT, which is 2. */
int user_modify_srq(int fd, __u32 srq, __u32 mask, __u32 receives, __u32 limit)
{
	struct verbs cmd = {};

	cmd.modify_srq.srq_handle = srq;
	cmd.modify_srq.attr_mask = mask;
	cmd.modify_srq.max_wr = receives;
	cmd.modify_srq.srq_limit = limit;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_MODIFY_SRQ,
			   sizeof(cmd.modify_srq), 0);
}

int user_query_srq(int fd, __u32 srq, __u32 *limit)
{
	struct verbs cmd = {};
	struct ib_uverbs_query_srq_resp resp = {};
	int ret;

	cmd.query_srq.response = (uintptr_t)&resp;
	cmd.query_srq.srq_handle = srq;
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_QUERY_SRQ,
			  sizeof(cmd.query_srq), sizeof(resp));
	*limit = resp.srq_limit;
	return ret;
}

int user_destroy_srq(int fd, __u32 srq)
{
	struct verbs cmd = {};
	struct ib_uverbs_destroy_srq_resp resp = {};

	cmd.destroy_srq.response = (uintptr_t)&resp;
	cmd.destroy_srq.srq_handle = srq;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_DESTROY_SRQ,
			   sizeof(cmd.destroy_srq), sizeof(resp));
}

/* What kernel.rs declares as RawAsync. */
struct user_async {
	__u64 tag;
	__u32 kind;
	__u32 reserved;
};

/* The next event of the file for those that are of no completion. */
int user_async_event(int fd, int timeout_ms, struct user_async *out)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct ib_uverbs_async_event_desc event = {};
	int ret;

	ret = poll(&pollfd, 1, timeout_ms);
	if (ret <= 0)
		return ret < 0 ? -errno : -ETIMEDOUT;
	if (read(fd, &event, sizeof(event)) != sizeof(event))
		return -errno;
	out->tag = event.element;
	out->kind = event.event_type;
	return 0;
}

/* What kernel.rs declares as RawMr. */
struct user_mr {
	__u32 handle;
	__u32 lkey;
	__u32 rkey;
};

int user_reg_mr(int fd, __u32 pd, __u64 start, __u64 length, __u32 access,
		struct user_mr *out)
{
	struct verbs cmd = {};
	struct siw_ureq_reg_mr driver = {};
	struct {
		struct ib_uverbs_reg_mr_resp core;
		struct siw_uresp_reg_mr driver;
	} resp = {};
	size_t in = sizeof(cmd.reg_mr);
	int ret;

	cmd.reg_mr.response = (uintptr_t)&resp;
	cmd.reg_mr.start = start;
	cmd.reg_mr.length = length;
	cmd.reg_mr.hca_va = start;
	cmd.reg_mr.pd_handle = pd;
	cmd.reg_mr.access_flags = access;
	memcpy(cmd.octets + in, &driver, sizeof(driver));
	ret = verbs_write(fd, &cmd, IB_USER_VERBS_CMD_REG_MR,
			  in + sizeof(driver), sizeof(resp));
	out->handle = resp.core.mr_handle;
	out->lkey = resp.core.lkey;
	out->rkey = resp.core.rkey;
	return ret;
}

int user_dereg_mr(int fd, __u32 mr)
{
	struct verbs cmd = {};

	cmd.dereg_mr.mr_handle = mr;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_DEREG_MR,
			   sizeof(cmd.dereg_mr), 0);
}

int user_doorbell(int fd, __u32 qp)
{
	struct verbs cmd = {};
	struct ib_uverbs_post_send_resp resp = {};

	cmd.post_send.response = (uintptr_t)&resp;
	cmd.post_send.qp_handle = qp;
	cmd.post_send.wqe_size = sizeof(struct ib_uverbs_send_wr);
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_POST_SEND,
			   sizeof(cmd.post_send), sizeof(resp));
}

/* One Send of one entry, as a device whose queues are the kernel's takes it. */
int user_post_send(int fd, __u32 qp, __u64 address, __u32 length, __u32 lkey)
{
	struct verbs cmd = {};
	struct ib_uverbs_send_wr wr = {
		.num_sge = 1,
		.opcode = IB_UVERBS_WR_SEND,
	};
	struct ib_uverbs_sge sge = {
		.addr = address,
		.length = length,
		.lkey = lkey,
	};
	struct ib_uverbs_post_send_resp resp = {};
	size_t in = sizeof(cmd.post_send);

	cmd.post_send.response = (uintptr_t)&resp;
	cmd.post_send.qp_handle = qp;
	cmd.post_send.wr_count = 1;
	cmd.post_send.sge_count = 1;
	cmd.post_send.wqe_size = sizeof(wr);
	memcpy(cmd.octets + in, &wr, sizeof(wr));
	in += sizeof(wr);
	memcpy(cmd.octets + in, &sge, sizeof(sge));
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_POST_SEND,
			   in + sizeof(sge), sizeof(resp));
}

int user_post_recv(int fd, __u32 qp, __u64 address, __u32 length, __u32 lkey)
{
	struct verbs cmd = {};
	struct ib_uverbs_recv_wr wr = { .num_sge = 1 };
	struct ib_uverbs_sge sge = {
		.addr = address,
		.length = length,
		.lkey = lkey,
	};
	struct ib_uverbs_post_recv_resp resp = {};
	size_t in = sizeof(cmd.post_recv);

	cmd.post_recv.response = (uintptr_t)&resp;
	cmd.post_recv.qp_handle = qp;
	cmd.post_recv.wr_count = 1;
	cmd.post_recv.sge_count = 1;
	cmd.post_recv.wqe_size = sizeof(wr);
	memcpy(cmd.octets + in, &wr, sizeof(wr));
	in += sizeof(wr);
	memcpy(cmd.octets + in, &sge, sizeof(sge));
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_POST_RECV,
			   in + sizeof(sge), sizeof(resp));
}

int user_post_srq_recv(int fd, __u32 srq, __u64 address, __u32 length,
		       __u32 lkey)
{
	struct verbs cmd = {};
	struct ib_uverbs_recv_wr wr = { .num_sge = 1 };
	struct ib_uverbs_sge sge = {
		.addr = address,
		.length = length,
		.lkey = lkey,
	};
	struct ib_uverbs_post_srq_recv_resp resp = {};
	size_t in = sizeof(cmd.post_srq_recv);

	cmd.post_srq_recv.response = (uintptr_t)&resp;
	cmd.post_srq_recv.srq_handle = srq;
	cmd.post_srq_recv.wr_count = 1;
	cmd.post_srq_recv.sge_count = 1;
	cmd.post_srq_recv.wqe_size = sizeof(wr);
	memcpy(cmd.octets + in, &wr, sizeof(wr));
	in += sizeof(wr);
	memcpy(cmd.octets + in, &sge, sizeof(sge));
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_POST_SRQ_RECV,
			   in + sizeof(sge), sizeof(resp));
}

int user_poll_cq(int fd, __u32 cq)
{
	struct verbs cmd = {};
	struct {
		struct ib_uverbs_poll_cq_resp core;
		struct ib_uverbs_wc wc;
	} resp = {};

	cmd.poll_cq.response = (uintptr_t)&resp;
	cmd.poll_cq.cq_handle = cq;
	cmd.poll_cq.ne = 1;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_POLL_CQ,
			   sizeof(cmd.poll_cq), sizeof(resp));
}

int user_req_notify_cq(int fd, __u32 cq)
{
	struct verbs cmd = {};

	cmd.req_notify_cq.cq_handle = cq;
	return verbs_write(fd, &cmd, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
			   sizeof(cmd.req_notify_cq), 0);
}

int user_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms);
}

/* A file whose pages the kernel cannot access itself. */
int user_secret_file(void)
{
	long fd = syscall(SYS_memfd_secret, 0);

	return fd < 0 ? -errno : fd;
}

/* A child that writes all of its copy of the memory, and ends. */
int user_child_writes(void *at, size_t len)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return -errno;
	if (!child) {
		memset(at, '?', len);
		_exit(((char *)at)[len - 1] != '?');
	}
	if (waitpid(child, &status, 0) != child)
		return -errno;
	return status ? -ECHILD : 0;
}
