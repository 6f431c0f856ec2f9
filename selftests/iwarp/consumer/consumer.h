/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define RECEIVES 256
#define SENDS 16
#define NUMBERS 512
#define TIMEOUT_JIFFIES (30 * HZ)

/* The use of each number. */
enum { SUM, FIELDS, LOCK, BITS, SLOTS };

/* The parameters of the module. */
struct settings {
	ushort port;
	char *connect;
	int qps;
	int rounds;
	bool masked;
	int fails;
	int cpu_adds;
	/* Whether the listener grants atomic operations. */
	bool atomic;
	/* Whether this side listens, although it connects as well. */
	bool listens;
	/* The index of the first connection. */
	int first;
};

extern struct settings settings;
extern u64 *numbers;
extern atomic_t immediates, mismatches, lengths;

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

struct connection *new_connection(struct rdma_cm_id *id);
int make_queues(struct connection *conn);
struct ib_sge memory_of(struct connection *conn, u32 length);
int post_receive(struct connection *conn, struct ib_sge *sge);
void release(struct connection *conn);

int begin_to_listen(void);
void end_listening(void);

int use_peer(void);

#endif
