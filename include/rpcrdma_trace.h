/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace points. Tools know them by their names, fields and formats, so
 * these are the in-tree module's (include/trace/events/rpcrdma.h in the kernel
 * source); selftests/vm/trace-formats.sh compares them. What a trace point is
 * given differs: numbers and strings, for that is what Rust has.
 *
 * The file has a name of its own because the kernel's header of the subsystem's
 * name comes first on the include path.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rpcrdma

#if !defined(RPCRDMA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RPCRDMA_TRACE_H

#include <linux/dma-direction.h>
#include <linux/in6.h>
#include <linux/inet.h>
#include <linux/ktime.h>
#include <linux/socket.h>
#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <trace/misc/rdma.h>
#include <trace/misc/sunrpc.h>

#ifndef RPCRDMA_TRACE_ENUMS
#define RPCRDMA_TRACE_ENUMS
/* How a Call or a reply travels. */
enum rpcrdma_chunktype {
	rpcrdma_noch,
	rpcrdma_noch_pullup,
	rpcrdma_noch_mapped,
	rpcrdma_readch,
	rpcrdma_areadch,
	rpcrdma_writech,
	rpcrdma_replych,
};

/* RFC 8166, section 4.2.4. */
enum rpcrdma_trace_proc {
	RDMA_MSG,
	RDMA_NOMSG,
	RDMA_MSGP,
	RDMA_DONE,
	RDMA_ERROR,
};
#endif

TRACE_DEFINE_ENUM(DMA_BIDIRECTIONAL);
TRACE_DEFINE_ENUM(DMA_TO_DEVICE);
TRACE_DEFINE_ENUM(DMA_FROM_DEVICE);
TRACE_DEFINE_ENUM(DMA_NONE);

TRACE_DEFINE_ENUM(rpcrdma_noch);
TRACE_DEFINE_ENUM(rpcrdma_noch_pullup);
TRACE_DEFINE_ENUM(rpcrdma_noch_mapped);
TRACE_DEFINE_ENUM(rpcrdma_readch);
TRACE_DEFINE_ENUM(rpcrdma_areadch);
TRACE_DEFINE_ENUM(rpcrdma_writech);
TRACE_DEFINE_ENUM(rpcrdma_replych);

TRACE_DEFINE_ENUM(RDMA_MSG);
TRACE_DEFINE_ENUM(RDMA_NOMSG);
TRACE_DEFINE_ENUM(RDMA_MSGP);
TRACE_DEFINE_ENUM(RDMA_DONE);
TRACE_DEFINE_ENUM(RDMA_ERROR);

#define rpcrdma_show_direction(x)					\
		__print_symbolic(x,					\
				{ DMA_BIDIRECTIONAL, "BIDIR" },		\
				{ DMA_TO_DEVICE, "TO_DEVICE" },		\
				{ DMA_FROM_DEVICE, "FROM_DEVICE" },	\
				{ DMA_NONE, "NONE" })

#define rpcrdma_show_chunktype(x)					\
		__print_symbolic(x,					\
				{ rpcrdma_noch, "inline" },		\
				{ rpcrdma_noch_pullup, "pullup" },	\
				{ rpcrdma_noch_mapped, "mapped" },	\
				{ rpcrdma_readch, "read list" },	\
				{ rpcrdma_areadch, "*read list" },	\
				{ rpcrdma_writech, "write list" },	\
				{ rpcrdma_replych, "reply chunk" })

#define rpcrdma_show_proc(x)						\
		__print_symbolic(x,					\
				{ RDMA_MSG, "RDMA_MSG" },		\
				{ RDMA_NOMSG, "RDMA_NOMSG" },		\
				{ RDMA_MSGP, "RDMA_MSGP" },		\
				{ RDMA_DONE, "RDMA_DONE" },		\
				{ RDMA_ERROR, "RDMA_ERROR" })

/* Completions, of either side. */

DECLARE_EVENT_CLASS(rpcrdma_cid,
	TP_PROTO(u32 cq_id, int completion_id),
	TP_ARGS(cq_id, completion_id),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
	),
	TP_printk("cq.id=%d cid=%d",
		__entry->cq_id, __entry->completion_id
	)
);

#define RPCRDMA_CID_EVENT(name)						\
	DEFINE_EVENT(rpcrdma_cid, name,					\
		TP_PROTO(u32 cq_id, int completion_id),			\
		TP_ARGS(cq_id, completion_id))

RPCRDMA_CID_EVENT(svcrdma_read_finished);

DECLARE_EVENT_CLASS(rpcrdma_failed,
	TP_PROTO(u32 cq_id, int completion_id, u32 status, u32 vendor_err),
	TP_ARGS(cq_id, completion_id, status, vendor_err),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(unsigned long, status)
		__field(unsigned int, vendor_err)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->status = status;
		__entry->vendor_err = vendor_err;
	),
	TP_printk("cq.id=%u cid=%d status=%s (%lu/0x%x)",
		__entry->cq_id, __entry->completion_id,
		rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err
	)
);

#define RPCRDMA_FAILED_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_failed, name,				\
		TP_PROTO(u32 cq_id, int completion_id, u32 status,	\
			 u32 vendor_err),				\
		TP_ARGS(cq_id, completion_id, status, vendor_err))

RPCRDMA_FAILED_EVENT(svcrdma_wc_recv_err);
RPCRDMA_FAILED_EVENT(svcrdma_wc_recv_flush);
RPCRDMA_FAILED_EVENT(svcrdma_wc_read_err);
RPCRDMA_FAILED_EVENT(svcrdma_wc_read_flush);

/* Connections of the client. */

DECLARE_EVENT_CLASS(xprtrdma_connection,
	TP_PROTO(const char *peer, const char *peer_port, int rc,
		 int connect_status),
	TP_ARGS(peer, peer_port, rc, connect_status),
	TP_STRUCT__entry(
		__field(int, rc)
		__field(int, connect_status)
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__entry->rc = rc;
		__entry->connect_status = connect_status;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s rc=%d connection status=%d",
		__get_str(addr), __get_str(port),
		__entry->rc, __entry->connect_status
	)
);

#define XPRTRDMA_CONNECTION_EVENT(name)					\
	DEFINE_EVENT(xprtrdma_connection, name,				\
		TP_PROTO(const char *peer, const char *peer_port,	\
			 int rc, int connect_status),			\
		TP_ARGS(peer, peer_port, rc, connect_status))

XPRTRDMA_CONNECTION_EVENT(xprtrdma_connect);
XPRTRDMA_CONNECTION_EVENT(xprtrdma_disconnect);

TRACE_EVENT(xprtrdma_op_inject_dsc,
	TP_PROTO(const char *peer, const char *peer_port),
	TP_ARGS(peer, peer_port),
	TP_STRUCT__entry(
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s",
		__get_str(addr), __get_str(port)
	)
);

TRACE_EVENT(xprtrdma_op_connect,
	TP_PROTO(const char *peer, const char *peer_port, unsigned long delay),
	TP_ARGS(peer, peer_port, delay),
	TP_STRUCT__entry(
		__field(unsigned long, delay)
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__entry->delay = delay;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s delay=%lu",
		__get_str(addr), __get_str(port), __entry->delay
	)
);

TRACE_EVENT(xprtrdma_inline_thresh,
	TP_PROTO(const struct sockaddr *source,
		 const struct sockaddr *destination,
		 unsigned int inline_send, unsigned int inline_recv,
		 unsigned int max_send, unsigned int max_recv),
	TP_ARGS(source, destination, inline_send, inline_recv, max_send,
		max_recv),
	TP_STRUCT__entry(
		__field(unsigned int, inline_send)
		__field(unsigned int, inline_recv)
		__field(unsigned int, max_send)
		__field(unsigned int, max_recv)
		__array(unsigned char, srcaddr, sizeof(struct sockaddr_in6))
		__array(unsigned char, dstaddr, sizeof(struct sockaddr_in6))
	),
	TP_fast_assign(
		__entry->inline_send = inline_send;
		__entry->inline_recv = inline_recv;
		__entry->max_send = max_send;
		__entry->max_recv = max_recv;
		memcpy(__entry->srcaddr, source, sizeof(struct sockaddr_in6));
		memcpy(__entry->dstaddr, destination,
		       sizeof(struct sockaddr_in6));
	),
	TP_printk("%pISpc -> %pISpc neg send/recv=%u/%u, calc send/recv=%u/%u",
		__entry->srcaddr, __entry->dstaddr,
		__entry->inline_send, __entry->inline_recv,
		__entry->max_send, __entry->max_recv
	)
);

DECLARE_EVENT_CLASS(rpcrdma_device_removal,
	TP_PROTO(const char *device, const struct sockaddr *peer),
	TP_ARGS(device, peer),
	TP_STRUCT__entry(
		__string(name, device)
		__array(unsigned char, addr, sizeof(struct sockaddr_in6))
	),
	TP_fast_assign(
		__assign_str(name);
		memcpy(__entry->addr, peer, sizeof(struct sockaddr_in6));
	),
	TP_printk("device %s to be removed, disconnecting %pISpc\n",
		__get_str(name), __entry->addr
	)
);

#define RPCRDMA_DEVICE_REMOVAL_EVENT(name)				\
	DEFINE_EVENT(rpcrdma_device_removal, name,			\
		TP_PROTO(const char *device,				\
			 const struct sockaddr *peer),			\
		TP_ARGS(device, peer))

RPCRDMA_DEVICE_REMOVAL_EVENT(xprtrdma_device_removal);
RPCRDMA_DEVICE_REMOVAL_EVENT(svcrdma_device_removal);

TRACE_EVENT(xprtrdma_createmrs,
	TP_PROTO(const char *peer, const char *peer_port, unsigned int count),
	TP_ARGS(peer, peer_port, count),
	TP_STRUCT__entry(
		__string(addr, peer)
		__string(port, peer_port)
		__field(unsigned int, count)
	),
	TP_fast_assign(
		__entry->count = count;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s created %u MRs",
		__get_str(addr), __get_str(port), __entry->count
	)
);

/* Calls of the client. */

TRACE_EVENT(xprtrdma_nomrs_err,
	TP_PROTO(unsigned int task_id, unsigned int client_id,
		 const char *peer, const char *peer_port),
	TP_ARGS(task_id, client_id, peer, peer_port),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " peer=[%s]:%s",
		__entry->task_id, __entry->client_id,
		__get_str(addr), __get_str(port)
	)
);

TRACE_EVENT(xprtrdma_marshal,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 xid,
		 unsigned int hdrlen, unsigned int headlen,
		 unsigned int pagelen, unsigned int taillen,
		 unsigned int rtype, unsigned int wtype),
	TP_ARGS(task_id, client_id, xid, hdrlen, headlen, pagelen, taillen,
		rtype, wtype),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, xid)
		__field(unsigned int, hdrlen)
		__field(unsigned int, headlen)
		__field(unsigned int, pagelen)
		__field(unsigned int, taillen)
		__field(unsigned int, rtype)
		__field(unsigned int, wtype)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->xid = xid;
		__entry->hdrlen = hdrlen;
		__entry->headlen = headlen;
		__entry->pagelen = pagelen;
		__entry->taillen = taillen;
		__entry->rtype = rtype;
		__entry->wtype = wtype;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER
		  " xid=0x%08x hdr=%u xdr=%u/%u/%u %s/%s",
		__entry->task_id, __entry->client_id, __entry->xid,
		__entry->hdrlen,
		__entry->headlen, __entry->pagelen, __entry->taillen,
		rpcrdma_show_chunktype(__entry->rtype),
		rpcrdma_show_chunktype(__entry->wtype)
	)
);

TRACE_EVENT(xprtrdma_marshal_failed,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 xid,
		 int ret),
	TP_ARGS(task_id, client_id, xid, ret),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, xid)
		__field(int, ret)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->xid = xid;
		__entry->ret = ret;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x ret=%d",
		__entry->task_id, __entry->client_id, __entry->xid,
		__entry->ret
	)
);

TRACE_EVENT(xprtrdma_post_send,
	TP_PROTO(u32 cq_id, int completion_id, unsigned int task_id,
		 unsigned int client_id, int num_sge, int signaled),
	TP_ARGS(cq_id, completion_id, task_id, client_id, num_sge, signaled),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(int, num_sge)
		__field(int, signaled)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->num_sge = num_sge;
		__entry->signaled = signaled;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " cq.id=%u cid=%d (%d SGE%s) %s",
		__entry->task_id, __entry->client_id,
		__entry->cq_id, __entry->completion_id,
		__entry->num_sge, (__entry->num_sge == 1 ? "" : "s"),
		(__entry->signaled ? "signaled" : "")
	)
);

TRACE_EVENT(xprtrdma_post_send_err,
	TP_PROTO(u32 cq_id, unsigned int task_id, unsigned int client_id,
		 int rc),
	TP_ARGS(cq_id, task_id, client_id, rc),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(int, rc)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->rc = rc;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " cq.id=%u rc=%d",
		__entry->task_id, __entry->client_id,
		__entry->cq_id, __entry->rc
	)
);

TRACE_EVENT(xprtrdma_wc_receive,
	TP_PROTO(u32 cq_id, int completion_id, u32 received, u32 status,
		 u32 vendor_err),
	TP_ARGS(cq_id, completion_id, received, status, vendor_err),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(u32, received)
		__field(unsigned long, status)
		__field(unsigned int, vendor_err)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->received = received;
		__entry->status = status;
		__entry->vendor_err = vendor_err;
	),
	TP_printk("cq.id=%u cid=%d status=%s (%lu/0x%x) received=%u",
		__entry->cq_id, __entry->completion_id,
		rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err,
		__entry->received
	)
);

/* Memory regions of the client. */

DECLARE_EVENT_CLASS(xprtrdma_region,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 mr_id,
		 int nents, u32 handle, u32 length, u64 offset, u32 dir),
	TP_ARGS(task_id, client_id, mr_id, nents, handle, length, offset, dir),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, mr_id)
		__field(int, nents)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
		__field(u32, dir)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->mr_id = mr_id;
		__entry->nents = nents;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->dir = dir;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER
		  " mr.id=%u nents=%d %u@0x%016llx:0x%08x (%s)",
		__entry->task_id, __entry->client_id,
		__entry->mr_id, __entry->nents, __entry->length,
		(unsigned long long)__entry->offset, __entry->handle,
		rpcrdma_show_direction(__entry->dir)
	)
);

#define XPRTRDMA_REGION_EVENT(name)					\
	DEFINE_EVENT(xprtrdma_region, name,				\
		TP_PROTO(unsigned int task_id, unsigned int client_id,	\
			 u32 mr_id, int nents, u32 handle, u32 length,	\
			 u64 offset, u32 dir),				\
		TP_ARGS(task_id, client_id, mr_id, nents, handle,	\
			length, offset, dir))

XPRTRDMA_REGION_EVENT(xprtrdma_mr_fastreg);
XPRTRDMA_REGION_EVENT(xprtrdma_mr_localinv);
XPRTRDMA_REGION_EVENT(xprtrdma_mr_reminv);

TRACE_EVENT(xprtrdma_post_linv_err,
	TP_PROTO(unsigned int task_id, unsigned int client_id, int status),
	TP_ARGS(task_id, client_id, status),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->status = status;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " status=%d",
		__entry->task_id, __entry->client_id, __entry->status
	)
);

/* Replies and callbacks, as the client receives them. */

TRACE_EVENT(xprtrdma_reply,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 xid,
		 unsigned int credits),
	TP_ARGS(task_id, client_id, xid, credits),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, xid)
		__field(unsigned int, credits)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->xid = xid;
		__entry->credits = credits;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x credits=%u",
		__entry->task_id, __entry->client_id, __entry->xid,
		__entry->credits
	)
);

DECLARE_EVENT_CLASS(xprtrdma_bad_reply,
	TP_PROTO(const char *peer, const char *peer_port, u32 xid, u32 version,
		 u32 proc),
	TP_ARGS(peer, peer_port, xid, version, proc),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, version)
		__field(u32, proc)
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->version = version;
		__entry->proc = proc;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s xid=0x%08x version=%u proc=%u",
		__get_str(addr), __get_str(port),
		__entry->xid, __entry->version, __entry->proc
	)
);

#define XPRTRDMA_BAD_REPLY_EVENT(name)					\
	DEFINE_EVENT(xprtrdma_bad_reply, name,				\
		TP_PROTO(const char *peer, const char *peer_port,	\
			 u32 xid, u32 version, u32 proc),		\
		TP_ARGS(peer, peer_port, xid, version, proc))

XPRTRDMA_BAD_REPLY_EVENT(xprtrdma_reply_vers_err);
XPRTRDMA_BAD_REPLY_EVENT(xprtrdma_reply_rqst_err);
XPRTRDMA_BAD_REPLY_EVENT(xprtrdma_reply_short_err);
XPRTRDMA_BAD_REPLY_EVENT(xprtrdma_reply_hdr_err);

TRACE_EVENT(xprtrdma_err_vers,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 xid,
		 u32 lowest, u32 highest),
	TP_ARGS(task_id, client_id, xid, lowest, highest),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, xid)
		__field(u32, min)
		__field(u32, max)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->xid = xid;
		__entry->min = lowest;
		__entry->max = highest;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x versions=[%u, %u]",
		__entry->task_id, __entry->client_id, __entry->xid,
		__entry->min, __entry->max
	)
);

TRACE_EVENT(xprtrdma_err_chunk,
	TP_PROTO(unsigned int task_id, unsigned int client_id, u32 xid),
	TP_ARGS(task_id, client_id, xid),
	TP_STRUCT__entry(
		__field(unsigned int, task_id)
		__field(unsigned int, client_id)
		__field(u32, xid)
	),
	TP_fast_assign(
		__entry->task_id = task_id;
		__entry->client_id = client_id;
		__entry->xid = xid;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x",
		__entry->task_id, __entry->client_id, __entry->xid
	)
);

DECLARE_EVENT_CLASS(xprtrdma_callback,
	TP_PROTO(const char *peer, const char *peer_port, u32 xid),
	TP_ARGS(peer, peer_port, xid),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(addr, peer)
		__string(port, peer_port)
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(addr);
		__assign_str(port);
	),
	TP_printk("peer=[%s]:%s xid=0x%08x",
		__get_str(addr), __get_str(port), __entry->xid
	)
);

#define XPRTRDMA_CALLBACK_EVENT(name)					\
	DEFINE_EVENT(xprtrdma_callback, name,				\
		TP_PROTO(const char *peer, const char *peer_port,	\
			 u32 xid),					\
		TP_ARGS(peer, peer_port, xid))

XPRTRDMA_CALLBACK_EVENT(xprtrdma_cb_call);
XPRTRDMA_CALLBACK_EVENT(xprtrdma_cb_reply);

/* Connections of the server. */

DECLARE_EVENT_CLASS(svcrdma_accepting,
	TP_PROTO(const char *peer, int status),
	TP_ARGS(peer, status),
	TP_STRUCT__entry(
		__field(long, status)
		__string(addr, peer)
	),
	TP_fast_assign(
		__entry->status = status;
		__assign_str(addr);
	),
	TP_printk("addr=%s status=%ld",
		__get_str(addr), __entry->status
	)
);

#define SVCRDMA_ACCEPTING_EVENT(name)					\
	DEFINE_EVENT(svcrdma_accepting, name,				\
		TP_PROTO(const char *peer, int status),		\
		TP_ARGS(peer, status))

SVCRDMA_ACCEPTING_EVENT(svcrdma_pd_err);
SVCRDMA_ACCEPTING_EVENT(svcrdma_qp_err);
SVCRDMA_ACCEPTING_EVENT(svcrdma_initdepth_err);
SVCRDMA_ACCEPTING_EVENT(svcrdma_accept_err);

TRACE_EVENT(svcrdma_qp_error,
	TP_PROTO(unsigned int event, const char *name, const char *peer),
	TP_ARGS(event, name, peer),
	TP_STRUCT__entry(
		__field(unsigned int, event)
		__string(device, name)
		__array(__u8, addr, INET6_ADDRSTRLEN + 10)
	),
	TP_fast_assign(
		__entry->event = event;
		__assign_str(device);
		strscpy_pad(__entry->addr, peer, INET6_ADDRSTRLEN + 10);
	),
	TP_printk("addr=%s dev=%s event=%s (%u)",
		__entry->addr, __get_str(device),
		rdma_show_ib_event(__entry->event), __entry->event
	)
);

/* Calls, as the server receives them. */

TRACE_EVENT(svcrdma_decode_rqst,
	TP_PROTO(u32 cq_id, int completion_id, u32 xid, u32 vers, u32 credits,
		 u32 proc, unsigned int hdrlen),
	TP_ARGS(cq_id, completion_id, xid, vers, credits, proc, hdrlen),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(u32, xid)
		__field(u32, vers)
		__field(u32, proc)
		__field(u32, credits)
		__field(unsigned int, hdrlen)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->xid = xid;
		__entry->vers = vers;
		__entry->credits = credits;
		__entry->proc = proc;
		__entry->hdrlen = hdrlen;
	),
	TP_printk("cq.id=%u cid=%d xid=0x%08x vers=%u credits=%u proc=%s hdrlen=%u",
		__entry->cq_id, __entry->completion_id,
		__entry->xid, __entry->vers, __entry->credits,
		rpcrdma_show_proc(__entry->proc), __entry->hdrlen)
);

TRACE_EVENT(svcrdma_decode_short_err,
	TP_PROTO(u32 cq_id, int completion_id, unsigned int hdrlen),
	TP_ARGS(cq_id, completion_id, hdrlen),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(unsigned int, hdrlen)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->hdrlen = hdrlen;
	),
	TP_printk("cq.id=%u cid=%d hdrlen=%u",
		__entry->cq_id, __entry->completion_id,
		__entry->hdrlen)
);

DECLARE_EVENT_CLASS(svcrdma_bad_call,
	TP_PROTO(u32 cq_id, int completion_id, u32 xid, u32 vers, u32 credits,
		 u32 proc),
	TP_ARGS(cq_id, completion_id, xid, vers, credits, proc),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(u32, xid)
		__field(u32, vers)
		__field(u32, proc)
		__field(u32, credits)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->xid = xid;
		__entry->vers = vers;
		__entry->credits = credits;
		__entry->proc = proc;
	),
	TP_printk("cq.id=%u cid=%d xid=0x%08x vers=%u credits=%u proc=%u",
		__entry->cq_id, __entry->completion_id,
		__entry->xid, __entry->vers, __entry->credits, __entry->proc)
);

#define SVCRDMA_BAD_CALL_EVENT(name)					\
	DEFINE_EVENT(svcrdma_bad_call, name,				\
		TP_PROTO(u32 cq_id, int completion_id, u32 xid,		\
			 u32 vers, u32 credits, u32 proc),		\
		TP_ARGS(cq_id, completion_id, xid, vers, credits, proc))

SVCRDMA_BAD_CALL_EVENT(svcrdma_decode_badvers_err);
SVCRDMA_BAD_CALL_EVENT(svcrdma_decode_drop_err);
SVCRDMA_BAD_CALL_EVENT(svcrdma_decode_badproc_err);
SVCRDMA_BAD_CALL_EVENT(svcrdma_decode_parse_err);

TRACE_EVENT(svcrdma_wc_recv,
	TP_PROTO(u32 cq_id, int completion_id, u32 received),
	TP_ARGS(cq_id, completion_id, received),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(u32, received)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->received = received;
	),
	TP_printk("cq.id=%u cid=%d received=%u",
		__entry->cq_id, __entry->completion_id,
		__entry->received
	)
);

/* What the server posts. */

DECLARE_EVENT_CLASS(svcrdma_chunk,
	TP_PROTO(u32 cq_id, int completion_id, int sqecount),
	TP_ARGS(cq_id, completion_id, sqecount),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(int, sqecount)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->sqecount = sqecount;
	),
	TP_printk("cq.id=%u cid=%d sqecount=%d",
		__entry->cq_id, __entry->completion_id,
		__entry->sqecount
	)
);

#define SVCRDMA_CHUNK_EVENT(name)					\
	DEFINE_EVENT(svcrdma_chunk, name,				\
		TP_PROTO(u32 cq_id, int completion_id, int sqecount),	\
		TP_ARGS(cq_id, completion_id, sqecount))

SVCRDMA_CHUNK_EVENT(svcrdma_post_read_chunk);
SVCRDMA_CHUNK_EVENT(svcrdma_post_write_chunk);
SVCRDMA_CHUNK_EVENT(svcrdma_post_reply_chunk);

TRACE_EVENT(svcrdma_wc_read,
	TP_PROTO(u32 cq_id, int completion_id, unsigned int totalbytes,
		 s64 read_latency),
	TP_ARGS(cq_id, completion_id, totalbytes, read_latency),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(s64, read_latency)
		__field(unsigned int, totalbytes)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->totalbytes = totalbytes;
		__entry->read_latency = read_latency;
	),
	TP_printk("cq.id=%u cid=%d totalbytes=%u latency-us=%lld",
		__entry->cq_id, __entry->completion_id,
		__entry->totalbytes, __entry->read_latency
	)
);

TRACE_EVENT(svcrdma_post_send,
	TP_PROTO(u32 cq_id, int completion_id, unsigned int num_sge,
		 u32 inv_rkey),
	TP_ARGS(cq_id, completion_id, num_sge, inv_rkey),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(unsigned int, num_sge)
		__field(u32, inv_rkey)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->num_sge = num_sge;
		__entry->inv_rkey = inv_rkey;
	),
	TP_printk("cq.id=%u cid=%d num_sge=%u inv_rkey=0x%08x",
		__entry->cq_id, __entry->completion_id,
		__entry->num_sge, __entry->inv_rkey
	)
);

TRACE_EVENT(svcrdma_send_err,
	TP_PROTO(const char *peer, u32 xid, int status),
	TP_ARGS(peer, xid, status),
	TP_STRUCT__entry(
		__field(int, status)
		__field(u32, xid)
		__string(addr, peer)
	),
	TP_fast_assign(
		__entry->status = status;
		__entry->xid = xid;
		__assign_str(addr);
	),
	TP_printk("addr=%s xid=0x%08x status=%d", __get_str(addr),
		__entry->xid, __entry->status
	)
);

DECLARE_EVENT_CLASS(svcrdma_refusal,
	TP_PROTO(u32 xid),
	TP_ARGS(xid),
	TP_STRUCT__entry(
		__field(u32, xid)
	),
	TP_fast_assign(
		__entry->xid = xid;
	),
	TP_printk("xid=0x%08x",
		__entry->xid
	)
);

DEFINE_EVENT(svcrdma_refusal, svcrdma_err_vers,
	     TP_PROTO(u32 xid), TP_ARGS(xid));
DEFINE_EVENT(svcrdma_refusal, svcrdma_err_chunk,
	     TP_PROTO(u32 xid), TP_ARGS(xid));

TRACE_EVENT(svcrdma_sq_full,
	TP_PROTO(u32 cq_id, int completion_id, int avail, int depth),
	TP_ARGS(cq_id, completion_id, avail, depth),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(int, avail)
		__field(int, depth)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->avail = avail;
		__entry->depth = depth;
	),
	TP_printk("cq.id=%u cid=%d sc_sq_avail=%d/%d",
		__entry->cq_id, __entry->completion_id,
		__entry->avail, __entry->depth
	)
);

#endif /* RPCRDMA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rpcrdma_trace
#include <trace/define_trace.h>
