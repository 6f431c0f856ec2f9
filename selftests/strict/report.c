// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of faults, with the stack of who does it, of who mapped the memory,
 * and of who unmapped it. They begin with BUG, so a test during which there is
 * one has failed. The tests of the strict device itself expect some.
 */
#include <linux/panic.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>

#include "strict.h"

/* After so many the log has enough of them. */
#define REPORTS 50

static atomic_t counts[STRICT_FAULTS];
static atomic_t reports;
/* The fault that a test expects, or STRICT_FAULTS, and how often it came. */
static int expected = STRICT_FAULTS;
static atomic_t met;

static const char * const names[STRICT_FAULTS] = {
	[STRICT_OUTSIDE] = "access-outside",
	[STRICT_AFTER_UNMAP] = "access-after-unmap",
	[STRICT_DIRECTION] = "access-against-direction",
	[STRICT_FOREIGN] = "access-of-another-device",
	[STRICT_CPU_OWNS] = "access-while-cpu-owns",
	[STRICT_NOT_SYNCED] = "access-not-synced",
	[STRICT_CPU_WROTE] = "cpu-wrote",
	[STRICT_BAD_UNMAP] = "bad-unmap",
	[STRICT_BAD_SYNC] = "bad-sync",
	[STRICT_BAD_MAP] = "bad-map",
	[STRICT_LEFT] = "left-mapped",
	[STRICT_LIMIT] = "beyond-limit",
};

const char *strict_name(enum strict_fault fault)
{
	return names[fault];
}

unsigned int strict_count(enum strict_fault fault)
{
	return atomic_read(&counts[fault]);
}

void strict_trace(struct strict_trace *trace)
{
	trace->count = stack_trace_save(trace->frames, STRICT_FRAMES, 2);
	trace->pid = current->pid;
	strscpy(trace->comm, current->comm, sizeof(trace->comm));
}

static void print(const char *what, const struct strict_trace *trace)
{
	pr_err("strict: %s by %s (%d):\n", what, trace->comm, trace->pid);
	stack_trace_print(trace->frames, trace->count, 4);
}

/* From here on, faults of that kind are expected, and only those. */
void strict_expect(enum strict_fault fault)
{
	atomic_set(&met, 0);
	WRITE_ONCE(expected, fault);
}

/* How many came. From here on none is expected. */
unsigned int strict_met(void)
{
	WRITE_ONCE(expected, STRICT_FAULTS);
	return atomic_read(&met);
}

void strict_report(enum strict_fault fault, struct strict_mapping *mapping,
		   const char *format, ...)
{
	bool is_expected = READ_ONCE(expected) == fault;
	struct strict_trace here;
	struct va_format text;
	va_list arguments;

	if (is_expected) {
		atomic_inc(&met);
	} else {
		atomic_inc(&counts[fault]);
		add_taint(TAINT_WARN, LOCKDEP_STILL_OK);
		if (atomic_inc_return(&reports) > REPORTS)
			return;
	}

	va_start(arguments, format);
	text.fmt = format;
	text.va = &arguments;
	pr_err("%s strict: %s: %pV\n", is_expected ? "expected:" : "BUG:",
	       names[fault], &text);
	va_end(arguments);

	strict_trace(&here);
	print("found", &here);
	if (!mapping)
		return;
	pr_err("strict: %s mapping of %zu bytes at %#llx, memory %p, direction %d\n",
	       mapping->gone ? "former" : "live", mapping->len,
	       mapping->base + mapping->offset, mapping->memory,
	       mapping->direction);
	print("mapped", &mapping->mapped);
	if (mapping->gone)
		print("unmapped", &mapping->unmapped);
}
