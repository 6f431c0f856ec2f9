/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The limits of a device, which its users keep to.
 */
#ifndef _STRICT_LIMITS_H
#define _STRICT_LIMITS_H

#include <rdma/ib_verbs.h>

struct seq_file;

/* What a driver says of inline data when it has made a queue pair. */
enum strict_inline {
	STRICT_AS_ASKED,	/* what was asked for */
	STRICT_MOST,		/* what there is, whatever was asked for */
	STRICT_MOST_IF_ASKED,	/* the same, but nothing if nothing was asked */
	STRICT_ROUNDED,		/* a power of two */
	STRICT_NO_INLINE,	/* nothing, whatever was asked for */
};

#define STRICT_POWER_OF_TWO UINT_MAX

/* Limits of an adapter. Zero is the limit of rxe. */
struct strict_profile {
	const char *name;
	unsigned int send_sge;		/* scatter elements of a Send or Write */
	unsigned int recv_sge;		/* of a Receive */
	unsigned int sge_rd;		/* of an RDMA Read */
	unsigned int qp_wr;		/* work requests of a queue */
	unsigned int reg_pages;		/* pages of a registration */
	unsigned int answers_reads;	/* RDMA Reads in flight, as responder */
	unsigned int sends_reads;	/* the same, as requester */
	unsigned int vectors;		/* completion vectors */
	unsigned int cqe;		/* entries of a completion queue */
	/* An entry is asked for, and the driver says: rounded up, plus, less. */
	unsigned int cq_multiple, cq_plus, cq_less;
	unsigned int inline_most;	/* bytes of inline data, at most */
	enum strict_inline inlines;
	bool rounds;			/* queues are larger than asked for */
	bool gaps;			/* registrations with gaps */
	bool no_registrations;
	bool no_connections;		/* no reliable ones */
};

/* gaps.c */
struct ib_mr *strict_alloc_gaps(struct ib_pd *pd, u32 entries);
int strict_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);
int strict_map_mr_sg(struct ib_mr *mr, struct scatterlist *sgl, int count,
		     unsigned int *offset);

/* What users of a device ask for. */
enum strict_limit {
	STRICT_SEND_ELEMENTS,
	STRICT_RECEIVE_ELEMENTS,
	STRICT_READ_ELEMENTS,
	STRICT_REQUESTS,
	STRICT_COMPLETIONS,
	STRICT_REGION_PAGES,
	STRICT_ANSWERED_READS,
	STRICT_SENT_READS,
	STRICT_VECTORS,
	STRICT_INLINE_BYTES,
	STRICT_GAP_REGIONS,
	STRICT_LIMITS
};

extern const struct strict_profile strict_profiles[];

const struct strict_profile *strict_profile(const char *name);
int strict_limit(struct ib_device *device);
unsigned int strict_room(unsigned int asked, unsigned int *reported);
unsigned int strict_waiting(struct ib_cq *cq);
void strict_asked(enum strict_limit limit, unsigned int value);
void strict_show_limits(struct seq_file *file);

#endif
