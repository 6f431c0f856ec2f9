// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer of kernel verbs that uses RDMA Write with Immediate Data and
 * atomic operations. It knows nothing of iWARP: over rxe it does the same.
 *
 * With port= and without connect= it listens. Each connection gets a region of
 * its own over the same page of numbers, whose key and address a first Send
 * tells. Receives have no memory. cpu_adds= is how often this machine itself
 * adds to the first number meanwhile. The parameter `numbers` has what came
 * about.
 *
 * With listens=1 it does both: it begins to connect when somebody else has.
 *
 * With connect= it connects qps= times at once, uses the peer's numbers rounds=
 * times on each, and loading fails unless all went well. first= is the index of
 * the first connection, which no other may have. With fails=, a single
 * request is posted, and loading fails unless that fails: fails=1 is a FetchAdd
 * at an address that is not aligned, 2 one without the right to it, 3 one with
 * a key that there is not, 4 one like all others. Nothing happens behind it.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "consumer.h"

struct settings settings = {
	.port = 7306,
	.connect = "",
	.qps = 4,
	.rounds = 100,
	.masked = true,
	.atomic = true,
};
module_param_named(port, settings.port, ushort, 0444);
module_param_named(connect, settings.connect, charp, 0444);
module_param_named(qps, settings.qps, int, 0444);
module_param_named(rounds, settings.rounds, int, 0444);
module_param_named(masked, settings.masked, bool, 0444);
module_param_named(fails, settings.fails, int, 0444);
module_param_named(cpu_adds, settings.cpu_adds, int, 0444);
module_param_named(atomic, settings.atomic, bool, 0444);
module_param_named(listens, settings.listens, bool, 0444);
module_param_named(first, settings.first, int, 0444);

u64 *numbers;
atomic_t immediates, mismatches, lengths;

static int show_numbers(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d %d %d %llu %llx %llu %llx\n",
			  atomic_read(&immediates), atomic_read(&mismatches),
			  atomic_read(&lengths), READ_ONCE(numbers[SUM]),
			  READ_ONCE(numbers[FIELDS]), READ_ONCE(numbers[LOCK]),
			  READ_ONCE(numbers[BITS]));
}

static const struct kernel_param_ops numbers_ops = { .get = show_numbers };
module_param_cb(numbers, &numbers_ops, NULL, 0444);

static int __init consumer_init(void)
{
	int status;

	numbers = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!numbers)
		return -ENOMEM;
	settings.listens |= !*settings.connect;
	status = settings.listens ? begin_to_listen() : use_peer();
	if (status)
		kfree(numbers);
	return status;
}
module_init(consumer_init);

static void __exit consumer_exit(void)
{
	if (settings.listens)
		end_listening();
	kfree(numbers);
}
module_exit(consumer_exit);

MODULE_DESCRIPTION("Consumer of atomic operations and immediate data");
MODULE_LICENSE("GPL");
