/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults by a plan, and completions that are held back.
 */
#ifndef _STRICT_FAULTS_H
#define _STRICT_FAULTS_H

#include <rdma/ib_verbs.h>

/* What an adapter does at times that soft devices do not. */
enum strict_kind {
	STRICT_MAP_FAILS,	/* a scatter list cannot be mapped */
	STRICT_SEND_FAILS,	/* a request for the Send queue is not taken */
	STRICT_RECEIVE_FAILS,	/* one for the Receive queue is not taken */
	STRICT_HOLD_SENDS,	/* completions of Sends come late, in a burst */
	STRICT_HOLD_RECEIVES,	/* those of Receives */
	STRICT_HOLD_ALL,	/* both */
	STRICT_FATAL,		/* a queue pair fails, its flushes come late */
	STRICT_PORT,		/* a port is reported down, then up */
	STRICT_REMOVE,		/* a device goes */
	STRICT_QP_FAILS,	/* a queue pair cannot be made */
	STRICT_MR_FAILS,	/* a region cannot be made */
	STRICT_RECEIVE_MAP_FAILS,	/* a Receive cannot be mapped */
	STRICT_KINDS
};

/* One fault. */
struct strict_occasion {
	enum strict_kind kind;
	int error;		/* what the call returns, or 0 */
	unsigned int ms;	/* how long something lasts */
};

/* faults.c */
bool strict_occurs(enum strict_kind kind, struct strict_occasion *occasion);
int strict_error(enum strict_kind kind);
int strict_plan(u32 seed, unsigned int count, const char *kind);
void strict_end_plan(void);
void strict_show_plan(struct seq_file *file);

/* completions.c */
#define STRICT_CQ_BYTES 256	/* for what stands behind rxe's part of a queue */
void strict_complete_late(struct ib_cq *cq, unsigned int ms);
void strict_join(struct ib_cq *cq);
void strict_part(struct ib_cq *cq);
int strict_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs);
int strict_destroy_cq(struct ib_cq *cq, struct ib_udata *udata);
int strict_poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc);

/* limits.c */
enum strict_queue {
	STRICT_NO_QUEUE,	/* of no reliable connection of the kernel */
	STRICT_SEND_QUEUE,
	STRICT_RECEIVE_QUEUE,
};

extern typeof_member(struct ib_device, ops) strict_rxe;
enum strict_queue strict_queue_of(const struct ib_wc *wc);
void strict_completed(const struct ib_wc *wc);
bool strict_connected(void);
bool strict_fail_one(u32 choice, unsigned int flush_ms);

#endif
