// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues that hold completions back: those of Sends, of Receives, of
 * both, or flushes. Meanwhile others pass, so that the two queues of a pair are
 * out of step; each keeps its own order. In the end all come in one burst.
 *
 * The timer that ends this calls the handler of the completion queue, which
 * queues work. ib_free_cq() ends that work before it destroys the queue, so
 * nothing may call the handler any more by then: the timer ends with the last
 * queue pair of the completion queue, which is gone before.
 */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include "rxe.h"
#include "rxe_queue.h"

#include "faults.h"
#include "limits.h"
#include "strict.h"

enum held {
	HELD_NONE,
	HELD_SENDS,
	HELD_RECEIVES,
	HELD_ALL,
	HELD_FLUSHES,
};

/* What stands behind rxe's own part of a completion queue. */
struct strict_cq {
	spinlock_t lock;	/* protects all below */
	struct ib_cq *cq;
	struct timer_list timer;
	enum held held;
	unsigned int users;	/* queue pairs that complete here */
	unsigned int flush_ms;	/* how long the next flushes are held */
	struct ib_wc *wcs;	/* a ring of what is held */
	unsigned int size, head, tail;
	unsigned int room;	/* entries that the adapter's queue has */
	bool overrun;		/* which was reported */
};

static_assert(sizeof(struct strict_cq) <= STRICT_CQ_BYTES);

#define RXE_MOST_CQE (BIT(RXE_MAX_LOG_CQE) - 1)

static struct strict_cq *strict_cq(struct ib_cq *cq)
{
	return (void *)cq + strict_rxe.size_ib_cq;
}

static void held_long_enough(struct timer_list *timer)
{
	struct strict_cq *strict = timer_container_of(strict, timer, timer);
	unsigned long flags;

	spin_lock_irqsave(&strict->lock, flags);
	strict->held = HELD_NONE;
	spin_unlock_irqrestore(&strict->lock, flags);
	strict->cq->comp_handler(strict->cq, strict->cq->cq_context);
}

int strict_create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	struct strict_cq *strict = strict_cq(cq);
	struct ib_cq_init_attr ours = *attr;
	unsigned int reported;
	int status;

	if (attr->comp_vector >= cq->device->num_comp_vectors ||
	    attr->cqe > cq->device->attrs.max_cqe)
		return -EINVAL;
	if (attrs)		/* of a process, which gets what rxe has */
		return strict_rxe.create_cq(cq, attr, attrs);
	strict_asked(STRICT_COMPLETIONS, attr->cqe);
	strict_asked(STRICT_VECTORS, attr->comp_vector + 1);
	strict->room = strict_room(attr->cqe, &reported);
	/* rxe is to lose none, so that what is too much is seen. */
	ours.cqe = min(4 * strict->room, RXE_MOST_CQE);
	strict->wcs = kvcalloc(attr->cqe, sizeof(*strict->wcs), GFP_KERNEL);
	if (!strict->wcs)
		return -ENOMEM;
	spin_lock_init(&strict->lock);
	timer_setup(&strict->timer, held_long_enough, 0);
	strict->cq = cq;
	strict->size = attr->cqe;
	status = strict_rxe.create_cq(cq, &ours, attrs);
	if (status)
		kvfree(strict->wcs);
	else
		cq->cqe = reported;
	return status;
}

int strict_destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	struct strict_cq *strict = strict_cq(cq);
	int status = strict_rxe.destroy_cq(cq, udata);

	/* Those of processes are made elsewhere. */
	if (!status && strict->wcs) {
		timer_shutdown_sync(&strict->timer);
		kvfree(strict->wcs);
	}
	return status;
}

/* A queue pair of the kernel completes to that queue from now on. */
void strict_join(struct ib_cq *cq)
{
	struct strict_cq *strict = strict_cq(cq);

	spin_lock_irq(&strict->lock);
	strict->users++;
	spin_unlock_irq(&strict->lock);
}

/* A queue pair that completed there is gone. */
void strict_part(struct ib_cq *cq)
{
	struct strict_cq *strict = strict_cq(cq);
	bool last;

	spin_lock_irq(&strict->lock);
	last = !--strict->users;
	if (last) {
		strict->held = HELD_NONE;
		strict->flush_ms = 0;
		strict->tail = strict->head;
	}
	spin_unlock_irq(&strict->lock);
	if (last)
		timer_delete_sync(&strict->timer);
}

/* The next flush, and those after it, come so late. */
void strict_complete_late(struct ib_cq *cq, unsigned int ms)
{
	struct strict_cq *strict = strict_cq(cq);

	spin_lock_irq(&strict->lock);
	strict->flush_ms = ms;
	spin_unlock_irq(&strict->lock);
}

static void begin(struct strict_cq *strict, enum held held, unsigned int ms)
{
	strict->held = held;
	mod_timer(&strict->timer, jiffies + msecs_to_jiffies(ms));
}

/* Begins to hold completions back, if it is time for that. */
static void consider(struct strict_cq *strict, enum strict_queue queue,
		     const struct ib_wc *wc)
{
	struct strict_occasion occasion;

	if (strict->held != HELD_NONE || !strict->users ||
	    queue == STRICT_NO_QUEUE || strict->cq->poll_ctx == IB_POLL_DIRECT)
		return;
	if (wc->status == IB_WC_WR_FLUSH_ERR && strict->flush_ms) {
		begin(strict, HELD_FLUSHES, strict->flush_ms);
		strict->flush_ms = 0;
	} else if (strict_occurs(STRICT_HOLD_ALL, &occasion)) {
		begin(strict, HELD_ALL, occasion.ms);
	} else if (queue == STRICT_SEND_QUEUE &&
		   strict_occurs(STRICT_HOLD_SENDS, &occasion)) {
		begin(strict, HELD_SENDS, occasion.ms);
	} else if (queue == STRICT_RECEIVE_QUEUE &&
		   strict_occurs(STRICT_HOLD_RECEIVES, &occasion)) {
		begin(strict, HELD_RECEIVES, occasion.ms);
	}
}

static bool is_held(const struct strict_cq *strict, enum strict_queue queue,
		    const struct ib_wc *wc)
{
	switch (strict->held) {
	case HELD_SENDS:
		return queue == STRICT_SEND_QUEUE;
	case HELD_RECEIVES:
		return queue == STRICT_RECEIVE_QUEUE;
	case HELD_ALL:
		return true;
	case HELD_FLUSHES:
		return wc->status == IB_WC_WR_FLUSH_ERR;
	default:
		return false;
	}
}

/* Takes one completion that is not held back. */
static bool next(struct strict_cq *strict, struct ib_wc *wc)
{
	if (strict->held == HELD_NONE && strict->head != strict->tail) {
		*wc = strict->wcs[strict->tail++ % strict->size];
		return true;
	}
	while (strict->head - strict->tail < strict->size &&
	       strict_rxe.poll_cq(strict->cq, 1, wc) == 1) {
		enum strict_queue queue = strict_queue_of(wc);

		consider(strict, queue, wc);
		if (!is_held(strict, queue, wc))
			return true;
		strict->wcs[strict->head++ % strict->size] = *wc;
	}
	return false;
}

/* How many completions wait to be polled. */
unsigned int strict_waiting(struct ib_cq *cq)
{
	struct strict_cq *strict = strict_cq(cq);

	return READ_ONCE(strict->head) - READ_ONCE(strict->tail) +
	       queue_count(to_rcq(cq)->queue, QUEUE_TYPE_TO_CLIENT);
}

/*
 * Looks whether more completions wait than an adapter's queue has room for. Their
 * number only grows until they are polled.
 */
static void check_room(struct strict_cq *strict)
{
	unsigned int waiting = strict_waiting(strict->cq);

	if (waiting <= strict->room || strict->overrun)
		return;
	strict->overrun = true;
	strict_report(STRICT_LIMIT, NULL,
		      "completion queue %u: completions: %u, of %u",
		      strict->cq->res.id, waiting, strict->room);
}

int strict_poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	struct strict_cq *strict = strict_cq(cq);
	unsigned long flags;
	int polled = 0;

	spin_lock_irqsave(&strict->lock, flags);
	if (strict->cq)
		check_room(strict);
	while (polled < count && next(strict, &wc[polled]))
		polled++;
	spin_unlock_irqrestore(&strict->lock, flags);
	for (count = 0; count < polled; count++)
		strict_completed(&wc[count]);
	return polled;
}
