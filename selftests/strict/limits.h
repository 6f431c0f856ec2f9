/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The limits of a device, which its users keep to.
 */
#ifndef _STRICT_LIMITS_H
#define _STRICT_LIMITS_H

#include <rdma/ib_verbs.h>

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
	bool rounds;			/* queues are larger than asked for */
	bool no_connections;		/* no reliable ones, and no regions */
};

extern const struct strict_profile strict_profiles[];

const struct strict_profile *strict_profile(const char *name);
int strict_limit(struct ib_device *device);

#endif
