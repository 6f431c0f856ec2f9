// SPDX-License-Identifier: GPL-2.0
/*
 * A plan: so many faults, chosen by a seed, one after the other. The same seed
 * has the same faults in the same order. Each waits until the device has come
 * so often to where it can happen; if that takes too long while something is
 * connected, it is passed over.
 *
 * What happens once for each connection waits for one occasion only, and comes
 * after a fault that ends connections, or the plan would never end.
 */
#include <linux/jiffies.h>
#include <linux/prandom.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "faults.h"
#include "strict.h"

/* How long a fault may wait for its occasion. */
#define PATIENCE (8 * HZ)

static const char * const names[STRICT_KINDS] = {
	[STRICT_MAP_FAILS] = "map-fails",
	[STRICT_SEND_FAILS] = "send-fails",
	[STRICT_RECEIVE_FAILS] = "receive-fails",
	[STRICT_HOLD_SENDS] = "hold-sends",
	[STRICT_HOLD_RECEIVES] = "hold-receives",
	[STRICT_HOLD_ALL] = "hold-all",
	[STRICT_FATAL] = "queue-pair-fatal",
	[STRICT_PORT] = "port-down-and-up",
	[STRICT_REMOVE] = "device-removal",
	[STRICT_QP_FAILS] = "queue-pair-fails",
	[STRICT_MR_FAILS] = "region-fails",
	[STRICT_RECEIVE_MAP_FAILS] = "receive-map-fails",
};

static const int errors[] = { -EAGAIN, -ENOSPC, -EINVAL, -ENOMEM };

static DEFINE_SPINLOCK(plan_lock);
static struct {
	struct rnd_state random;
	u32 seed;
	unsigned int planned, met, passed;
	enum strict_kind only;	/* STRICT_KINDS: all */
	bool active;
	/* The next fault, and for how many occasions it waits. */
	struct strict_occasion next;
	unsigned int left;
	unsigned long since;
} plan;

static void run_plan(struct work_struct *work);
static DECLARE_DELAYED_WORK(runner, run_plan);

static unsigned int draw(unsigned int from, unsigned int to)
{
	return from + prandom_u32_state(&plan.random) % (to - from + 1);
}

static enum strict_kind draw_kind(enum strict_kind last)
{
	/* Of every 16. */
	static const enum strict_kind kinds[] = {
		STRICT_MAP_FAILS, STRICT_MAP_FAILS, STRICT_HOLD_SENDS,
		STRICT_HOLD_SENDS, STRICT_HOLD_RECEIVES, STRICT_HOLD_RECEIVES,
		STRICT_HOLD_ALL, STRICT_HOLD_ALL, STRICT_HOLD_SENDS,
		STRICT_HOLD_ALL, STRICT_PORT, STRICT_SEND_FAILS,
		STRICT_RECEIVE_FAILS, STRICT_FATAL, STRICT_FATAL, STRICT_REMOVE,
	};
	unsigned int choice = draw(0, ARRAY_SIZE(kinds) - 1);

	if (last == STRICT_REMOVE && choice < 10)
		return choice < 5 ? STRICT_MR_FAILS : STRICT_QP_FAILS;
	if ((last == STRICT_FATAL || last == STRICT_SEND_FAILS) && choice < 4)
		return STRICT_QP_FAILS;
	return kinds[choice];
}

/* Chooses the next fault, or ends the plan. Always draws the same numbers. */
static void choose(void)
{
	enum strict_kind drawn = draw_kind(plan.next.kind);
	enum strict_kind kind = plan.only == STRICT_KINDS ? drawn : plan.only;
	unsigned int often = draw(1, 30), ms = draw(1, 200);
	unsigned int error = draw(0, ARRAY_SIZE(errors) - 1);
	unsigned int slow = draw(0, 3);

	plan.next = (struct strict_occasion){ kind, errors[error], ms };
	plan.since = jiffies;
	plan.left = often;
	switch (kind) {
	case STRICT_QP_FAILS:
	case STRICT_MR_FAILS:
	case STRICT_RECEIVE_MAP_FAILS:
		plan.left = 1;
		break;
	case STRICT_HOLD_SENDS:
		/* Few Sends ask for a completion. */
		plan.left = often % 3 + 1;
		break;
	case STRICT_FATAL:
		/* A slow driver drains for seconds. */
		plan.next.ms = slow ? ms : 2000;
		break;
	default:
		break;
	}
	plan.active = plan.met + plan.passed < plan.planned;
}

/* Counts the fault that is due, and chooses the next one. */
static void come(struct strict_occasion *occasion)
{
	*occasion = plan.next;
	plan.met++;
	pr_info("strict: fault %u of %u: %s, error %d, %u ms\n",
		plan.met + plan.passed, plan.planned, names[occasion->kind],
		occasion->error, occasion->ms);
	choose();
}

/* Whether a fault of that kind happens here and now. */
bool strict_occurs(enum strict_kind kind, struct strict_occasion *occasion)
{
	unsigned long flags;
	bool occurs = false;

	if (!READ_ONCE(plan.active) || READ_ONCE(plan.next.kind) != kind)
		return false;
	spin_lock_irqsave(&plan_lock, flags);
	if (plan.active && plan.next.kind == kind && !--plan.left) {
		come(occasion);
		occurs = true;
	}
	spin_unlock_irqrestore(&plan_lock, flags);
	return occurs;
}

/* Returns the error that a call returns here and now, or 0. */
int strict_error(enum strict_kind kind)
{
	struct strict_occasion occasion;

	return strict_occurs(kind, &occasion) ? occasion.error : 0;
}

/* Does what needs a task. Returns whether it could be done. */
static bool happen(const struct strict_occasion *fault, u32 choice)
{
	switch (fault->kind) {
	case STRICT_FATAL:
		return strict_fail_one(choice, fault->ms);
	case STRICT_PORT:
		return strict_report_port(fault->ms);
	case STRICT_REMOVE:
		return strict_remove();
	default:
		return false;
	}
}

/* Takes its turns until the plan ends. */
static void run_plan(struct work_struct *work)
{
	struct strict_occasion fault, met;
	unsigned int pause;
	bool active, connected, ours;
	u32 choice;

	spin_lock_irq(&plan_lock);
	active = plan.active;
	fault = plan.next;
	choice = plan.seed + plan.met;
	ours = fault.kind == STRICT_FATAL || fault.kind == STRICT_PORT ||
	       fault.kind == STRICT_REMOVE;
	spin_unlock_irq(&plan_lock);
	/* The last one came elsewhere, since this turn was chosen. */
	if (!active)
		return;

	connected = strict_connected();
	ours = ours && happen(&fault, choice);
	spin_lock_irq(&plan_lock);
	if (ours) {
		come(&met);
	} else if (!connected) {
		plan.since = jiffies;
	} else if (time_after(jiffies, plan.since + PATIENCE)) {
		plan.passed++;
		pr_info("strict: fault %u of %u: %s is passed over\n",
			plan.met + plan.passed, plan.planned,
			names[plan.next.kind]);
		choose();
	}
	active = plan.active;
	/* Those that need no occasion come at any time. */
	pause = 100 + plan.next.ms;
	spin_unlock_irq(&plan_lock);
	if (active)
		schedule_delayed_work(&runner, msecs_to_jiffies(pause));
}

/* Begins a plan of so many faults, of all kinds if none is named. */
int strict_plan(u32 seed, unsigned int count, const char *kind)
{
	enum strict_kind only = STRICT_KINDS;

	if (*kind) {
		int found = match_string(names, STRICT_KINDS, kind);

		if (found < 0)
			return found;
		only = found;
	}
	strict_end_plan();
	spin_lock_irq(&plan_lock);
	memset(&plan, 0, sizeof(plan));
	plan.seed = seed;
	plan.planned = count;
	plan.only = only;
	plan.next.kind = STRICT_KINDS;
	prandom_seed_state(&plan.random, seed);
	choose();
	spin_unlock_irq(&plan_lock);
	schedule_delayed_work(&runner, 0);
	return 0;
}

void strict_end_plan(void)
{
	spin_lock_irq(&plan_lock);
	plan.active = false;
	spin_unlock_irq(&plan_lock);
	cancel_delayed_work_sync(&runner);
}

void strict_show_plan(struct seq_file *file)
{
	spin_lock_irq(&plan_lock);
	seq_printf(file, "seed %u planned %u met %u passed %u %s\n", plan.seed,
		   plan.planned, plan.met, plan.passed,
		   plan.active ? names[plan.next.kind] : "ended");
	spin_unlock_irq(&plan_lock);
}
