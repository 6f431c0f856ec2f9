// SPDX-License-Identifier: GPL-2.0
/*
 * The write commands of /dev/infiniband/rdma_cm as plain functions, for
 * kernel.rs, as commands.c has those of uverbs*: nothing of librdmacm is used.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/types.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_cm.h>

/* A command of rdma_ucm. */
struct ucm {
	struct rdma_ucm_cmd_hdr hdr;
	union {
		struct rdma_ucm_create_id create_id;
		struct rdma_ucm_destroy_id destroy_id;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_resolve_route resolve_route;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_get_event get_event;
	};
};

static int ucm_write(int fd, struct ucm *cmd, __u32 command, size_t in,
		     size_t out)
{
	ssize_t done;

	cmd->hdr.cmd = command;
	cmd->hdr.in = in;
	cmd->hdr.out = out;
	done = write(fd, cmd, sizeof(cmd->hdr) + in);
	return done < 0 ? -errno : 0;
}

static int address(struct __kernel_sockaddr_storage *to, const char *ip,
		   __u16 port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};

	if (inet_pton(AF_INET, ip, &in.sin_addr) != 1)
		return -EINVAL;
	memcpy(to, &in, sizeof(in));
	return 0;
}

int user_cm_create(int fd, __u32 *id)
{
	struct ucm cmd = {};
	struct rdma_ucm_create_id_resp resp = {};
	int ret;

	/* The kernel keeps events of ids whose user has not named them. */
	cmd.create_id.uid = 1;
	cmd.create_id.response = (uintptr_t)&resp;
	cmd.create_id.ps = RDMA_PS_TCP;
	cmd.create_id.qp_type = IB_UVERBS_QPT_RC;
	ret = ucm_write(fd, &cmd, RDMA_USER_CM_CMD_CREATE_ID,
			sizeof(cmd.create_id), sizeof(resp));
	*id = resp.id;
	return ret;
}

int user_cm_destroy(int fd, __u32 id)
{
	struct ucm cmd = {};
	struct rdma_ucm_destroy_id_resp resp = {};

	cmd.destroy_id.response = (uintptr_t)&resp;
	cmd.destroy_id.id = id;
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_DESTROY_ID,
			 sizeof(cmd.destroy_id), sizeof(resp));
}

int user_cm_listen(int fd, __u32 id, const char *ip, __u16 port)
{
	struct ucm cmd = {};
	int ret;

	cmd.bind.id = id;
	cmd.bind.addr_size = sizeof(struct sockaddr_in);
	ret = address(&cmd.bind.addr, ip, port);
	if (!ret)
		ret = ucm_write(fd, &cmd, RDMA_USER_CM_CMD_BIND,
				sizeof(cmd.bind), 0);
	if (ret)
		return ret;

	memset(&cmd, 0, sizeof(cmd));
	cmd.listen.id = id;
	cmd.listen.backlog = 64;
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_LISTEN, sizeof(cmd.listen),
			 0);
}

int user_cm_resolve_address(int fd, __u32 id, const char *ip, __u16 port)
{
	struct ucm cmd = {};
	int ret;

	cmd.resolve_addr.id = id;
	cmd.resolve_addr.timeout_ms = 5000;
	cmd.resolve_addr.dst_size = sizeof(struct sockaddr_in);
	ret = address(&cmd.resolve_addr.dst_addr, ip, port);
	if (ret)
		return ret;
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_RESOLVE_ADDR,
			 sizeof(cmd.resolve_addr), 0);
}

int user_cm_resolve_route(int fd, __u32 id)
{
	struct ucm cmd = {};

	cmd.resolve_route.id = id;
	cmd.resolve_route.timeout_ms = 5000;
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_RESOLVE_ROUTE,
			 sizeof(cmd.resolve_route), 0);
}

static void parameters(struct rdma_ucm_conn_param *param, __u32 qp)
{
	param->qp_num = qp;
	param->responder_resources = 4;
	param->initiator_depth = 4;
	param->valid = 1;
}

int user_cm_connect(int fd, __u32 id, __u32 qp)
{
	struct ucm cmd = {};

	cmd.connect.id = id;
	parameters(&cmd.connect.conn_param, qp);
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_CONNECT,
			 sizeof(cmd.connect), 0);
}

int user_cm_accept(int fd, __u32 id, __u32 qp)
{
	struct ucm cmd = {};

	cmd.accept.uid = 1;
	cmd.accept.id = id;
	parameters(&cmd.accept.conn_param, qp);
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_ACCEPT, sizeof(cmd.accept),
			 0);
}

int user_cm_disconnect(int fd, __u32 id)
{
	struct ucm cmd = {};

	cmd.disconnect.id = id;
	return ucm_write(fd, &cmd, RDMA_USER_CM_CMD_DISCONNECT,
			 sizeof(cmd.disconnect), 0);
}

/* What kernel.rs declares as RawEvent. */
struct user_event {
	__u32 id;
	__u32 kind;
	__s32 status;
};

int user_cm_event(int fd, int timeout_ms, struct user_event *out)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct ucm cmd = {};
	struct rdma_ucm_event_resp resp = {};
	int ret;

	ret = poll(&pollfd, 1, timeout_ms);
	if (ret <= 0)
		return ret < 0 ? -errno : -ETIMEDOUT;
	cmd.get_event.response = (uintptr_t)&resp;
	ret = ucm_write(fd, &cmd, RDMA_USER_CM_CMD_GET_EVENT,
			sizeof(cmd.get_event), sizeof(resp));
	out->id = resp.id;
	out->kind = resp.event;
	out->status = resp.status;
	return ret;
}
