// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of the profile. What a user of the device asks for beyond them fails
 * as with the adapter's driver; a work request beyond what its queue pair was
 * made for is a fault.
 *
 * rxe rounds queues up, and forgets what it has sent. So that a queue that is
 * too small is found, each work request counts from when it is posted until its
 * completion, or a later one of that queue, was polled.
 */
#include <linux/log2.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "faults.h"
#include "limits.h"
#include "strict.h"

/* The operations of rxe, from its first device. */
typeof_member(struct ib_device, ops) strict_rxe;
/* Access of which rxe would go past the device addresses. */
static const int refused_access = IB_ACCESS_REMOTE_ATOMIC |
				  IB_ACCESS_FLUSH_GLOBAL |
				  IB_ACCESS_FLUSH_PERSISTENT;
/* The profile of devices that are made from now on. */
static const struct strict_profile *profile;

/* The most that a user of the kernel asked for, since the module was loaded. */
static unsigned int asked[STRICT_LIMITS];

/* A work request that may not have completed. */
struct posted {
	u64 id;
	bool signaled;
};

struct ring {
	struct posted *entries;
	unsigned int size;
	/* Count without end; an entry is at the remainder. */
	unsigned int head, tail;
};

/* What stands behind rxe's own part of a queue pair. */
struct strict_qp {
	spinlock_t lock;		/* protects the rings */
	struct ib_qp_cap cap;
	struct ring send, receive;
	bool signals_all;
	bool limited;
	bool connects;			/* a reliable connection of the kernel */
	bool failed;			/* takes requests only to flush them */
};

/* All queue pairs. Completions may be of one that is gone. */
static DEFINE_XARRAY_FLAGS(queue_pairs, XA_FLAGS_LOCK_IRQ);
/* While it is held, no queue pair goes. */
static DEFINE_MUTEX(life);

static struct strict_qp *strict_qp(struct ib_qp *qp)
{
	return (void *)qp + strict_rxe.size_ib_qp;
}

static unsigned int limit(unsigned int wanted, unsigned int ours)
{
	return wanted ? min(wanted, ours) : ours;
}

void strict_asked(enum strict_limit limit, unsigned int value)
{
	if (value > READ_ONCE(asked[limit]))
		WRITE_ONCE(asked[limit], value);
}

static void ask(const struct ib_qp_cap *cap)
{
	strict_asked(STRICT_SEND_ELEMENTS, cap->max_send_sge);
	strict_asked(STRICT_RECEIVE_ELEMENTS, cap->max_recv_sge);
	strict_asked(STRICT_REQUESTS, max(cap->max_send_wr, cap->max_recv_wr));
	strict_asked(STRICT_INLINE_BYTES, cap->max_inline_data);
}

/*
 * How many entries a completion queue has for whom so many are asked, and how
 * many its driver reports.
 */
unsigned int strict_room(unsigned int wanted, unsigned int *reported)
{
	unsigned int multiple = profile->cq_multiple;
	unsigned int more = wanted + profile->cq_plus;

	if (!multiple)		/* rxe */
		*reported = roundup_pow_of_two(wanted + 1) - 1;
	else if (multiple == STRICT_POWER_OF_TWO)
		*reported = roundup_pow_of_two(more) - profile->cq_less;
	else
		*reported = roundup(more, multiple) - profile->cq_less;
	return max(wanted, *reported);
}

static int query_device(struct ib_device *device, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	int status = strict_rxe.query_device(device, attr, udata);

	if (status)
		return status;
	attr->max_send_sge = limit(profile->send_sge, attr->max_send_sge);
	attr->max_recv_sge = limit(profile->recv_sge, attr->max_recv_sge);
	attr->max_sge_rd = limit(profile->sge_rd, attr->max_sge_rd);
	attr->max_qp_wr = limit(profile->qp_wr, attr->max_qp_wr);
	attr->max_fast_reg_page_list_len =
		limit(profile->reg_pages, attr->max_fast_reg_page_list_len);
	attr->max_qp_rd_atom =
		limit(profile->answers_reads, attr->max_qp_rd_atom);
	attr->max_qp_init_rd_atom =
		limit(profile->sends_reads, attr->max_qp_init_rd_atom);
	attr->max_cqe = limit(profile->cqe, attr->max_cqe);
	/* They would go past the device addresses. */
	attr->atomic_cap = IB_ATOMIC_NONE;
	if (profile->gaps)
		attr->kernel_cap_flags |= IBK_SG_GAPS_REG;
	if (profile->no_registrations)
		attr->device_cap_flags &= ~IB_DEVICE_MEM_MGT_EXTENSIONS;
	return 0;
}

static bool exceeds(const struct ib_device_attr *limits,
		    const struct ib_qp_cap *cap)
{
	return cap->max_send_wr > limits->max_qp_wr ||
	       cap->max_recv_wr > limits->max_qp_wr ||
	       cap->max_send_sge > limits->max_send_sge ||
	       cap->max_recv_sge > limits->max_recv_sge;
}

static u32 rounded(u32 wanted, u32 most)
{
	return min_t(u32, roundup_pow_of_two(max(wanted, 1U)), most);
}

/* How much inline data a queue pair may have, or an error. */
static int inline_bytes(unsigned int wanted)
{
	if (profile->inlines == STRICT_NO_INLINE)
		return 0;
	if (profile->inline_most && wanted > profile->inline_most)
		return profile->inlines == STRICT_ROUNDED ?
			       profile->inline_most : -EINVAL;
	switch (profile->inlines) {
	case STRICT_MOST_IF_ASKED:
		return wanted ? profile->inline_most : 0;
	case STRICT_MOST:
		return profile->inline_most;
	case STRICT_ROUNDED:
		return wanted ? rounded(wanted, profile->inline_most) : 0;
	default:
		return wanted;
	}
}

static int make_ring(struct ring *ring, unsigned int size)
{
	ring->size = size;
	ring->entries = kvcalloc(max(size, 1U), sizeof(*ring->entries),
				 GFP_KERNEL);
	return ring->entries ? 0 : -ENOMEM;
}

static void free_rings(struct strict_qp *strict)
{
	kvfree(strict->send.entries);
	kvfree(strict->receive.entries);
}

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *init,
		     struct ib_udata *udata)
{
	const struct ib_device_attr *limits = &qp->device->attrs;
	struct strict_qp *strict = strict_qp(qp);
	struct ib_qp_cap cap = init->cap;
	int status;

	if (exceeds(limits, &cap))
		return -EINVAL;
	if (!udata) {
		status = inline_bytes(cap.max_inline_data);
		if (status < 0)
			return status;
		if (init->qp_type == IB_QPT_RC)
			ask(&cap);
		cap.max_inline_data = status;
		init->cap.max_inline_data = status;
	}
	if (profile->no_connections && init->qp_type == IB_QPT_RC)
		return -EOPNOTSUPP;
	strict->connects = !udata && init->qp_type == IB_QPT_RC;
	status = strict->connects ? strict_error(STRICT_QP_FAILS) : 0;
	if (status)
		return status;
	if (profile->rounds) {
		cap.max_send_wr = rounded(cap.max_send_wr, limits->max_qp_wr);
		cap.max_recv_wr = rounded(cap.max_recv_wr, limits->max_qp_wr);
		cap.max_recv_sge = rounded(cap.max_recv_sge,
					   limits->max_recv_sge);
	}
	spin_lock_init(&strict->lock);
	status = make_ring(&strict->send, cap.max_send_wr) ?:
		 make_ring(&strict->receive, cap.max_recv_wr);
	if (status)
		goto free;
	strict->cap = cap;
	strict->limited = !udata;
	strict->signals_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	status = xa_err(xa_store_irq(&queue_pairs, (uintptr_t)qp, strict,
				     GFP_KERNEL));
	if (status)
		goto free;
	status = strict_rxe.create_qp(qp, init, udata);
	if (status)
		goto erase;
	init->cap = cap;
	if (strict->connects) {
		strict_join(qp->send_cq);
		strict_join(qp->recv_cq);
	}
	return 0;

erase:
	xa_erase_irq(&queue_pairs, (uintptr_t)qp);
free:
	free_rings(strict);
	return status;
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	struct strict_qp *strict = strict_qp(qp);
	int status;

	guard(mutex)(&life);
	status = strict_rxe.destroy_qp(qp, udata);
	if (status)
		return status;
	xa_erase_irq(&queue_pairs, (uintptr_t)qp);
	if (strict->connects) {
		strict_part(qp->send_cq);
		strict_part(qp->recv_cq);
	}
	free_rings(strict);
	return 0;
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	const struct ib_device_attr *limits = &qp->device->attrs;
	struct ib_qp_attr ours = *attr;

	if ((mask & IB_QP_MAX_QP_RD_ATOMIC &&
	     attr->max_rd_atomic > limits->max_qp_init_rd_atom) ||
	    (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	     attr->max_dest_rd_atomic > limits->max_qp_rd_atom))
		return -EINVAL;
	if (!udata && mask & IB_QP_MAX_QP_RD_ATOMIC)
		strict_asked(STRICT_SENT_READS, attr->max_rd_atomic);
	if (!udata && mask & IB_QP_MAX_DEST_RD_ATOMIC)
		strict_asked(STRICT_ANSWERED_READS, attr->max_dest_rd_atomic);
	/* rdma_cm asks for it whenever a peer may read. */
	ours.qp_access_flags &= ~refused_access;
	/* From here on each request is taken: what drains the queue waits. */
	if (mask & IB_QP_STATE)
		WRITE_ONCE(strict_qp(qp)->failed,
			   attr->qp_state == IB_QPS_ERR);
	return strict_rxe.modify_qp(qp, &ours, mask, udata);
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
{
	if (access & refused_access)
		return ERR_PTR(-EOPNOTSUPP);
	return strict_rxe.get_dma_mr(pd, access);
}

static struct ib_mr *alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
			      u32 pages)
{
	int status = strict_error(STRICT_MR_FAILS);

	if (status)
		return ERR_PTR(status);
	if (profile->no_registrations ||
	    pages > pd->device->attrs.max_fast_reg_page_list_len)
		return ERR_PTR(-EINVAL);
	if (type == IB_MR_TYPE_SG_GAPS && !profile->gaps)
		return ERR_PTR(-EINVAL);
	strict_asked(STRICT_REGION_PAGES, pages);
	if (type == IB_MR_TYPE_SG_GAPS) {
		strict_asked(STRICT_GAP_REGIONS, pages);
		return strict_alloc_gaps(pd, pages);
	}
	return strict_rxe.alloc_mr(pd, type, pages);
}

/* Whether the queue has room for one more, which it then has. */
static bool enter(struct ring *ring, u64 id, bool signaled)
{
	if (ring->head - ring->tail >= ring->size)
		return false;
	ring->entries[ring->head++ % ring->size] =
		(struct posted){ id, signaled };
	return true;
}

/* Ends the request that completed, and all before it. */
static bool leave(struct ring *ring, u64 id, bool failed)
{
	unsigned int at;

	for (at = ring->tail; at != ring->head; at++) {
		struct posted *entry = &ring->entries[at % ring->size];

		if (entry->id == id && (entry->signaled || failed)) {
			ring->tail = at + 1;
			return true;
		}
	}
	return false;
}

static int refuse(struct ib_qp *qp, const char *what, unsigned int wanted,
		  unsigned int most)
{
	strict_report(STRICT_LIMIT, NULL, "queue pair %u: %s: %u, of %u",
		      qp->qp_num, what, wanted, most);
	return -EINVAL;
}

/*
 * rxe does these at the memory itself, through what it takes for a pointer to
 * it, and not by a copy, which would be looked up.
 */
static bool goes_past_addresses(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_ATOMIC_WRITE:
	case IB_WR_FLUSH:
		return true;
	case IB_WR_REG_MR:
		return reg_wr(wr)->access & refused_access;
	default:
		return false;
	}
}

static unsigned int length(const struct ib_send_wr *wr)
{
	unsigned int sum = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	return sum;
}

static int check_send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	const struct ib_device_attr *limits = &qp->device->attrs;
	struct strict_qp *strict = strict_qp(qp);
	bool signaled = strict->signals_all ||
			wr->send_flags & IB_SEND_SIGNALED;

	if (goes_past_addresses(wr))
		return -EOPNOTSUPP;
	if (wr->opcode == IB_WR_RDMA_READ && wr->num_sge > limits->max_sge_rd)
		return refuse(qp, "elements of a Read", wr->num_sge,
			      limits->max_sge_rd);
	if (wr->num_sge > strict->cap.max_send_sge)
		return refuse(qp, "elements", wr->num_sge,
			      strict->cap.max_send_sge);
	if (wr->send_flags & IB_SEND_INLINE &&
	    length(wr) > strict->cap.max_inline_data)
		return refuse(qp, "bytes of inline data", length(wr),
			      strict->cap.max_inline_data);
	if (wr->opcode == IB_WR_RDMA_READ)
		strict_asked(STRICT_READ_ELEMENTS, wr->num_sge);
	if (!enter(&strict->send, wr->wr_id, signaled))
		return refuse(qp, "requests in the Send queue",
			      strict->send.size + 1, strict->send.size);
	return 0;
}

/* Whether a request is not taken, though there is nothing wrong with it. */
static int fails(struct strict_qp *strict, enum strict_kind kind)
{
	return strict->connects && !READ_ONCE(strict->failed) ?
		       strict_error(kind) : 0;
}

static int post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad)
{
	struct strict_qp *strict = strict_qp(qp);
	const struct ib_send_wr *each;
	unsigned long flags;
	unsigned int before;
	int status;

	if (!strict->limited)
		return strict_rxe.post_send(qp, wr, bad);
	spin_lock_irqsave(&strict->lock, flags);
	before = strict->send.head;
	status = fails(strict, STRICT_SEND_FAILS);
	for (each = wr; each && !status; each = each->next)
		status = check_send(qp, each);
	*bad = wr;
	if (!status)
		status = strict_rxe.post_send(qp, wr, bad);
	if (status) {
		strict->send.head = before;
		/* Those before the bad one are posted. */
		for (each = wr; each != *bad; each = each->next)
			strict->send.head++;
	}
	spin_unlock_irqrestore(&strict->lock, flags);
	return status;
}

static int post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad)
{
	struct strict_qp *strict = strict_qp(qp);
	const struct ib_recv_wr *each;
	unsigned long flags;
	unsigned int before;
	int status;

	if (!strict->limited)
		return strict_rxe.post_recv(qp, wr, bad);
	spin_lock_irqsave(&strict->lock, flags);
	before = strict->receive.head;
	status = fails(strict, STRICT_RECEIVE_FAILS);
	for (each = wr; each && !status; each = each->next) {
		if (each->num_sge > strict->cap.max_recv_sge)
			status = refuse(qp, "elements of a Receive",
					each->num_sge,
					strict->cap.max_recv_sge);
		else if (!enter(&strict->receive, each->wr_id, true))
			status = refuse(qp, "requests in the Receive queue",
					strict->receive.size + 1,
					strict->receive.size);
	}
	*bad = wr;
	if (!status)
		status = strict_rxe.post_recv(qp, wr, bad);
	if (status) {
		strict->receive.head = before;
		for (each = wr; each != *bad; each = each->next)
			strict->receive.head++;
	}
	spin_unlock_irqrestore(&strict->lock, flags);
	return status;
}

/* Whether a request is in the ring, which may have failed. */
static bool contains(const struct ring *ring, u64 id)
{
	unsigned int at;

	for (at = ring->tail; at != ring->head; at++) {
		if (ring->entries[at % ring->size].id == id)
			return true;
	}
	return false;
}

/* Which queue of a connection a completion is of. */
enum strict_queue strict_queue_of(const struct ib_wc *wc)
{
	enum strict_queue queue = STRICT_NO_QUEUE;
	struct strict_qp *strict;
	unsigned long flags;

	xa_lock_irqsave(&queue_pairs, flags);
	strict = xa_load(&queue_pairs, (uintptr_t)wc->qp);
	if (strict && strict->connects) {
		spin_lock(&strict->lock);
		if (wc->status)
			WRITE_ONCE(strict->failed, true);
		/* If it failed, nothing else says of which queue it is. */
		if (wc->status ? contains(&strict->send, wc->wr_id) :
				 !(wc->opcode & IB_WC_RECV))
			queue = STRICT_SEND_QUEUE;
		else
			queue = STRICT_RECEIVE_QUEUE;
		spin_unlock(&strict->lock);
	}
	xa_unlock_irqrestore(&queue_pairs, flags);
	return queue;
}

/* A completion was polled: its request is no more in the queue. */
void strict_completed(const struct ib_wc *wc)
{
	struct strict_qp *strict;
	unsigned long flags;

	xa_lock_irqsave(&queue_pairs, flags);
	strict = xa_load(&queue_pairs, (uintptr_t)wc->qp);
	if (strict) {
		spin_lock(&strict->lock);
		/* If it failed, nothing says of which queue it is. */
		if (wc->status) {
			if (!leave(&strict->send, wc->wr_id, true))
				leave(&strict->receive, wc->wr_id, true);
		} else if (wc->opcode & IB_WC_RECV) {
			leave(&strict->receive, wc->wr_id, false);
		} else {
			leave(&strict->send, wc->wr_id, false);
		}
		spin_unlock(&strict->lock);
	}
	xa_unlock_irqrestore(&queue_pairs, flags);
}

/* Whether a connection of the kernel is in use: it has posted something. */
static bool in_use(struct strict_qp *strict)
{
	return strict->connects && !READ_ONCE(strict->failed) &&
	       READ_ONCE(strict->send.head);
}

bool strict_connected(void)
{
	struct strict_qp *strict;
	unsigned long index;

	guard(mutex)(&life);
	xa_for_each(&queue_pairs, index, strict) {
		if (in_use(strict))
			return true;
	}
	return false;
}

/*
 * One of the connections fails, as if the device had found a fault in it. Its
 * flushes come late. Returns whether there was one.
 */
bool strict_fail_one(u32 choice, unsigned int flush_ms)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_event event = { .event = IB_EVENT_QP_FATAL };
	struct ib_qp *chosen = NULL;
	struct strict_qp *strict;
	unsigned int count = 0;
	unsigned long index;

	guard(mutex)(&life);
	xa_for_each(&queue_pairs, index, strict) {
		struct ib_qp *qp = (struct ib_qp *)index;

		if (in_use(strict) && choice % ++count == 0)
			chosen = qp;
	}
	if (!chosen)
		return false;
	strict_complete_late(chosen->send_cq, flush_ms);
	strict_complete_late(chosen->recv_cq, flush_ms);
	if (modify_qp(chosen, &attr, IB_QP_STATE, NULL))
		return false;
	event.device = chosen->device;
	event.element.qp = chosen;
	if (chosen->event_handler)
		chosen->event_handler(&event, chosen->qp_context);
	return true;
}

static const char * const names[STRICT_LIMITS] = {
	[STRICT_SEND_ELEMENTS] = "send-elements",
	[STRICT_RECEIVE_ELEMENTS] = "receive-elements",
	[STRICT_READ_ELEMENTS] = "read-elements",
	[STRICT_REQUESTS] = "requests",
	[STRICT_COMPLETIONS] = "completions",
	[STRICT_REGION_PAGES] = "region-pages",
	[STRICT_ANSWERED_READS] = "answered-reads",
	[STRICT_SENT_READS] = "sent-reads",
	[STRICT_VECTORS] = "vectors",
	[STRICT_INLINE_BYTES] = "inline-bytes",
	[STRICT_GAP_REGIONS] = "gap-regions",
};

/* Prints each limit that the profile has, and the most that was asked for. */
void strict_show_limits(struct seq_file *file)
{
	const struct strict_profile *now = profile;
	unsigned int limits[STRICT_LIMITS];
	enum strict_limit limit;

	if (!now)
		return;
	limits[STRICT_SEND_ELEMENTS] = now->send_sge;
	limits[STRICT_RECEIVE_ELEMENTS] = now->recv_sge;
	limits[STRICT_READ_ELEMENTS] = now->sge_rd;
	limits[STRICT_REQUESTS] = now->qp_wr;
	limits[STRICT_COMPLETIONS] = now->cqe;
	limits[STRICT_REGION_PAGES] = now->reg_pages;
	limits[STRICT_ANSWERED_READS] = now->answers_reads;
	limits[STRICT_SENT_READS] = now->sends_reads;
	limits[STRICT_VECTORS] = now->vectors;
	limits[STRICT_INLINE_BYTES] = now->inline_most;
	limits[STRICT_GAP_REGIONS] = now->gaps ? now->reg_pages : 0;
	for (limit = 0; limit < STRICT_LIMITS; limit++)
		seq_printf(file, "%s %u %u\n", names[limit], limits[limit],
			   asked[limit]);
}

/* Gives a device that is about to be registered the limits of the profile. */
int strict_limit(struct ib_device *device)
{
	profile = strict_profile(strict_settings.profile);
	if (!profile) {
		pr_err("strict: there is no profile %s\n",
		       strict_settings.profile);
		return -EINVAL;
	}
	if (!strict_rxe.query_device)
		strict_rxe = device->ops;
	device->ops.query_device = query_device;
	device->ops.create_cq = strict_create_cq;
	device->ops.destroy_cq = strict_destroy_cq;
	device->ops.create_qp = create_qp;
	device->ops.destroy_qp = destroy_qp;
	device->ops.modify_qp = modify_qp;
	device->ops.alloc_mr = alloc_mr;
	device->ops.map_mr_sg = strict_map_mr_sg;
	device->ops.dereg_mr = strict_dereg_mr;
	device->ops.get_dma_mr = get_dma_mr;
	device->ops.post_send = post_send;
	device->ops.post_recv = post_recv;
	device->ops.poll_cq = strict_poll_cq;
	device->ops.size_ib_qp = strict_rxe.size_ib_qp +
				 sizeof(struct strict_qp);
	device->ops.size_ib_cq = strict_rxe.size_ib_cq + STRICT_CQ_BYTES;
	if (profile->vectors)
		device->num_comp_vectors = profile->vectors;
	return 0;
}
