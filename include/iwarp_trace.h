/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace points of iwarp.ko. An RDMA device has the number that `rdma dev`
 * shows, a queue pair and a completion queue those of `rdma resource show`.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM iwarp

#if !defined(IWARP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define IWARP_TRACE_H

#include <linux/in6.h>
#include <linux/socket.h>
#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <trace/misc/rdma.h>

/* The numbers are those of QpState in rust/provider/driver.rs. */
#define iwarp_show_state(x)						\
		__print_symbolic(x,					\
				{ 0, "RESET" },				\
				{ 1, "INIT" },				\
				{ 2, "RTR" },				\
				{ 3, "RTS" },				\
				{ 4, "CLOSING" },			\
				{ 5, "ERROR" })

TRACE_EVENT(iwarp_qp_state,
	TP_PROTO(u32 device, u32 qp, u32 from, u32 to),
	TP_ARGS(device, qp, from, to),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("dev=%u qp=%u %s -> %s",
		__entry->device, __entry->qp,
		iwarp_show_state(__entry->from), iwarp_show_state(__entry->to)
	)
);

/* A connection, from the first attempt to the end. */

TRACE_EVENT(iwarp_connect,
	TP_PROTO(u32 device, u32 qp, const struct sockaddr *local,
		 const struct sockaddr *peer),
	TP_ARGS(device, qp, local, peer),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
	),
	TP_printk("dev=%u qp=%u %pISpc -> %pISpc",
		__entry->device, __entry->qp, __entry->local, __entry->peer
	)
);

TRACE_EVENT(iwarp_connect_err,
	TP_PROTO(u32 device, u32 qp, const struct sockaddr *local,
		 const struct sockaddr *peer, const char *reason),
	TP_ARGS(device, qp, local, peer, reason),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
		__string(reason, reason)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
		__assign_str(reason);
	),
	TP_printk("dev=%u qp=%u %pISpc -> %pISpc %s",
		__entry->device, __entry->qp, __entry->local, __entry->peer,
		__get_str(reason)
	)
);

TRACE_EVENT(iwarp_established,
	TP_PROTO(u32 device, u32 qp, const struct sockaddr *local,
		 const struct sockaddr *peer, u32 ird, u32 ord),
	TP_ARGS(device, qp, local, peer, ird, ord),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
		__field(u32, ird)
		__field(u32, ord)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
		__entry->ird = ird;
		__entry->ord = ord;
	),
	TP_printk("dev=%u qp=%u %pISpc -> %pISpc ird=%u ord=%u",
		__entry->device, __entry->qp, __entry->local, __entry->peer,
		__entry->ird, __entry->ord
	)
);

DECLARE_EVENT_CLASS(iwarp_terminate,
	TP_PROTO(u32 device, u32 qp, const struct sockaddr *local,
		 const struct sockaddr *peer, u32 layer, u32 type, u32 code),
	TP_ARGS(device, qp, local, peer, layer, type, code),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
		__field(u32, layer)
		__field(u32, type)
		__field(u32, code)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
		__entry->layer = layer;
		__entry->type = type;
		__entry->code = code;
	),
	TP_printk("dev=%u qp=%u %pISpc -> %pISpc layer=%u type=%u code=0x%02x",
		__entry->device, __entry->qp, __entry->local, __entry->peer,
		__entry->layer, __entry->type, __entry->code
	)
);

#define IWARP_TERMINATE_EVENT(name)					\
	DEFINE_EVENT(iwarp_terminate, name,				\
		TP_PROTO(u32 device, u32 qp,				\
			 const struct sockaddr *local,			\
			 const struct sockaddr *peer,			\
			 u32 layer, u32 type, u32 code),		\
		TP_ARGS(device, qp, local, peer, layer, type, code))

IWARP_TERMINATE_EVENT(iwarp_terminate_sent);
IWARP_TERMINATE_EVENT(iwarp_terminate_received);

TRACE_EVENT(iwarp_end,
	TP_PROTO(u32 device, u32 qp, const struct sockaddr *local,
		 const struct sockaddr *peer, const char *reason, int error,
		 bool aborted),
	TP_ARGS(device, qp, local, peer, reason, error, aborted),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
		__string(reason, reason)
		__field(int, error)
		__field(bool, aborted)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
		__assign_str(reason);
		__entry->error = error;
		__entry->aborted = aborted;
	),
	TP_printk("dev=%u qp=%u %pISpc -> %pISpc %s: %s (%d)",
		__entry->device, __entry->qp, __entry->local, __entry->peer,
		__entry->aborted ? "aborted" : "half-closed",
		__get_str(reason), __entry->error
	)
);

/* Requests of peers, which have no queue pair until they are accepted. */

DECLARE_EVENT_CLASS(iwarp_request,
	TP_PROTO(const struct sockaddr *local, const struct sockaddr *peer),
	TP_ARGS(local, peer),
	TP_STRUCT__entry(
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
	),
	TP_fast_assign(
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
	),
	TP_printk("%pISpc -> %pISpc", __entry->local, __entry->peer)
);

#define IWARP_REQUEST_EVENT(name)					\
	DEFINE_EVENT(iwarp_request, name,				\
		TP_PROTO(const struct sockaddr *local,			\
			 const struct sockaddr *peer),			\
		TP_ARGS(local, peer))

IWARP_REQUEST_EVENT(iwarp_request_indicated);
IWARP_REQUEST_EVENT(iwarp_request_rejected);
IWARP_REQUEST_EVENT(iwarp_request_lost);

/* Work requests and completions. */

#define iwarp_show_queue(x)						\
		__print_symbolic(x,					\
				{ 0, "send" },				\
				{ 1, "receive" })

TRACE_EVENT(iwarp_wr_refused,
	TP_PROTO(u32 device, u32 qp, bool receive, u64 wr_id, u32 opcode,
		 int error),
	TP_ARGS(device, qp, receive, wr_id, opcode, error),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__field(u32, receive)
		__field(u64, wr_id)
		__field(u32, opcode)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		__entry->receive = receive;
		__entry->wr_id = wr_id;
		__entry->opcode = opcode;
		__entry->error = error;
	),
	TP_printk("dev=%u qp=%u queue=%s wr_id=0x%llx opcode=%u error=%d",
		__entry->device, __entry->qp,
		iwarp_show_queue(__entry->receive), __entry->wr_id,
		__entry->opcode, __entry->error
	)
);

TRACE_EVENT(iwarp_wr_failed,
	TP_PROTO(u32 device, u32 qp, bool receive, u64 wr_id, u32 status),
	TP_ARGS(device, qp, receive, wr_id, status),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, qp)
		__field(u32, receive)
		__field(u64, wr_id)
		__field(u32, status)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->qp = qp;
		__entry->receive = receive;
		__entry->wr_id = wr_id;
		__entry->status = status;
	),
	TP_printk("dev=%u qp=%u queue=%s wr_id=0x%llx status=%s",
		__entry->device, __entry->qp,
		iwarp_show_queue(__entry->receive), __entry->wr_id,
		rdma_show_wc_status(__entry->status)
	)
);

TRACE_EVENT(iwarp_cq_overrun,
	TP_PROTO(u32 device, u32 cq_id, u32 qp, u64 wr_id, u64 lost),
	TP_ARGS(device, cq_id, qp, wr_id, lost),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u32, cq_id)
		__field(u32, qp)
		__field(u64, wr_id)
		__field(u64, lost)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->cq_id = cq_id;
		__entry->qp = qp;
		__entry->wr_id = wr_id;
		__entry->lost = lost;
	),
	TP_printk("dev=%u cq.id=%u qp=%u wr_id=0x%llx lost=%llu",
		__entry->device, __entry->cq_id, __entry->qp, __entry->wr_id,
		__entry->lost
	)
);

#endif /* IWARP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE iwarp_trace
#include <trace/define_trace.h>
