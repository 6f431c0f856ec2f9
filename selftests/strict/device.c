// SPDX-License-Identifier: GPL-2.0
/*
 * The device that memory is mapped for, one for each RDMA device; the settings,
 * which are parameters of the module; and the files of debugfs.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/dma-map-ops.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/seq_file.h>

#include "faults.h"
#include "limits.h"
#include "strict.h"

struct strict_settings strict_settings = {
	.mask = 64,
	.segment = UINT_MAX,
	.boundary = U32_MAX,
	.merge = true,
	.keep_offset = true,
	.ownership = true,
	.profile = "none",
};

/* Of these, a device has those that were set when it was made. */
module_param_named(mask, strict_settings.mask, uint, 0644);
MODULE_PARM_DESC(mask, "bits of a device address, 32 or more");
module_param_named(segment, strict_settings.segment, uint, 0644);
MODULE_PARM_DESC(segment, "bytes of the longest segment");
module_param_named(boundary, strict_settings.boundary, ulong, 0644);
MODULE_PARM_DESC(boundary, "mask: no segment crosses a multiple of it plus one");
module_param_string(profile, strict_settings.profile,
		    sizeof(strict_settings.profile), 0644);
MODULE_PARM_DESC(profile, "the adapter whose limits the device has");
/* And these change at once. */
module_param_named(merge, strict_settings.merge, bool, 0644);
MODULE_PARM_DESC(merge, "entries of scatter lists become one segment");
module_param_named(keep_offset, strict_settings.keep_offset, bool, 0644);
MODULE_PARM_DESC(keep_offset, "device addresses have the offset in the page");
module_param_named(ownership, strict_settings.ownership, bool, 0644);
MODULE_PARM_DESC(ownership, "what the CPU has must be given back by a sync");
module_param_named(fail_maps, strict_settings.fail_maps, uint, 0644);
MODULE_PARM_DESC(fail_maps, "one in so many mappings fails");

/* A strict device, and what rxe does to free its own. */
struct strict {
	/* None, if memory is mapped for a PCI device. */
	struct platform_device *platform;
	struct ib_device *rdma;
	struct list_head list;
	void (*dealloc_driver)(struct ib_device *device);
};

static LIST_HEAD(devices);
static DEFINE_MUTEX(devices_lock);
static struct dentry *directory;

static struct ib_mr *refuse_user_memory(struct ib_pd *pd, u64 start, u64 length,
					u64 address, int access,
					struct ib_dmah *dmah,
					struct ib_udata *udata)
{
	/* rxe would go by its pages, past the device addresses. */
	return ERR_PTR(-EOPNOTSUPP);
}

static struct strict *strict_of(struct ib_device *device)
{
	struct strict *strict;

	guard(mutex)(&devices_lock);
	list_for_each_entry(strict, &devices, list) {
		if (strict->rdma == device)
			return strict;
	}
	return NULL;
}

static void dealloc_driver(struct ib_device *device)
{
	struct strict *strict = strict_of(device);

	strict->dealloc_driver(device);
	mutex_lock(&devices_lock);
	list_del(&strict->list);
	mutex_unlock(&devices_lock);
	if (strict->platform) {
		spin_lock_irq(&strict_lock);
		strict_left(&strict->platform->dev);
		spin_unlock_irq(&strict_lock);
		platform_device_unregister(strict->platform);
	}
	kfree(strict);
}

static int add_platform_device(struct strict *strict)
{
	struct platform_device *platform =
		platform_device_alloc("strict", PLATFORM_DEVID_AUTO);
	int status;

	if (!platform)
		return -ENOMEM;
	set_dma_ops(&platform->dev, &strict_operations);
	status = platform_device_add(platform);
	if (status)
		goto put;
	strict->platform = platform;
	status = dma_set_mask_and_coherent(&platform->dev,
					   DMA_BIT_MASK(strict_settings.mask));
	if (status)
		goto del;
	dma_set_max_seg_size(&platform->dev, strict_settings.segment);
	dma_set_seg_boundary(&platform->dev, strict_settings.boundary);
	return 0;

del:
	platform_device_del(platform);
put:
	platform_device_put(platform);
	return status;
}

/* Is called for ib_register_device() in rxe. */
int strict_register(struct ib_device *device, const char *name,
		    struct device *dma)
{
	struct strict *strict;
	int status;

	if (WARN_ON(dma))
		return -EINVAL;
	strict = kzalloc_obj(*strict);
	if (!strict)
		return -ENOMEM;
	status = strict_limit(device);
	if (!status && !strict_pci())
		status = add_platform_device(strict);
	if (status) {
		kfree(strict);
		return status;
	}
	strict->rdma = device;
	mutex_lock(&devices_lock);
	list_add_tail(&strict->list, &devices);
	mutex_unlock(&devices_lock);
	strict->dealloc_driver = device->ops.dealloc_driver;
	device->ops.dealloc_driver = dealloc_driver;
	device->ops.reg_user_mr = refuse_user_memory;
	dma = strict_pci() ?: &strict->platform->dev;
	/* If this fails, dealloc_driver() comes nevertheless. */
	device->dma_device = dma;
	return ib_register_device(device, name, dma);
}

/* Returns the newest device, or NULL. */
struct ib_device *strict_device(void)
{
	struct strict *strict;

	guard(mutex)(&devices_lock);
	strict = list_empty(&devices) ?
			 NULL : list_last_entry(&devices, struct strict, list);
	return strict ? strict->rdma : NULL;
}

/* Returns the newest device, which does not go before ib_device_put(). */
static struct ib_device *newest(void)
{
	struct ib_device *device = NULL;
	struct strict *strict;

	guard(mutex)(&devices_lock);
	list_for_each_entry(strict, &devices, list) {
		if (!ib_device_try_get(strict->rdma))
			continue;
		if (device)
			ib_device_put(device);
		device = strict->rdma;
	}
	return device;
}

/* Reports that the port is down, and up again. Returns whether there is one. */
bool strict_report_port(unsigned int ms)
{
	struct ib_event event = {
		.event = IB_EVENT_PORT_ERR, .element.port_num = 1,
	};

	event.device = newest();
	if (!event.device)
		return false;
	ib_dispatch_event(&event);
	msleep(ms);
	event.event = IB_EVENT_PORT_ACTIVE;
	ib_dispatch_event(&event);
	ib_device_put(event.device);
	return true;
}

/* The newest device goes, as if it had been pulled out. */
bool strict_remove(void)
{
	struct ib_device *device = newest();

	if (!device)
		return false;
	ib_unregister_device_queued(device);
	rxe_net_del(device);
	ib_device_put(device);
	return true;
}

static int faults_show(struct seq_file *file, void *unused)
{
	enum strict_fault fault;

	for (fault = 0; fault < STRICT_FAULTS; fault++)
		seq_printf(file, "%s %u\n", strict_name(fault),
			   strict_count(fault));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(faults);

/* Prints a device, and whether its addresses are pointers or mapped. */
static struct seq_file *listed;

static int list_device(struct ib_device *device)
{
	seq_printf(listed, "%s %s\n", dev_name(&device->dev),
		   ib_uses_virt_dma(device) ? "pointers" : "mapped");
	return 0;
}

/* A client of the core is told of each device, those of others too. */
static int devices_show(struct seq_file *file, void *unused)
{
	static struct ib_client client = {
		.name = "strict", .add = list_device,
	};
	static DEFINE_MUTEX(lock);
	int status;

	guard(mutex)(&lock);
	listed = file;
	status = ib_register_client(&client);
	if (!status)
		ib_unregister_client(&client);
	return status;
}
DEFINE_SHOW_ATTRIBUTE(devices);

static int reached_show(struct seq_file *file, void *unused)
{
	strict_show_reached(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(reached);

static int limits_show(struct seq_file *file, void *unused)
{
	strict_show_limits(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(limits);

static int plan_show(struct seq_file *file, void *unused)
{
	strict_show_plan(file);
	return 0;
}

static int plan_open(struct inode *inode, struct file *file)
{
	return single_open(file, plan_show, NULL);
}

/* Takes a seed, a number of faults, and the name of a kind or nothing. */
static ssize_t plan_write(struct file *file, const char __user *text,
			  size_t len, loff_t *offset)
{
	char line[64] = {}, kind[32] = {};
	unsigned int count;
	int status;
	u32 seed;

	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, text, len))
		return -EFAULT;
	if (sscanf(line, "%u %u %31s", &seed, &count, kind) < 2)
		return -EINVAL;
	status = strict_plan(seed, count, kind);
	return status ?: len;
}

static const struct file_operations plan_fops = {
	.owner = THIS_MODULE,
	.open = plan_open,
	.read = seq_read,
	.write = plan_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int run_tests(void *unused, u64 value)
{
	return strict_test();
}
DEFINE_DEBUGFS_ATTRIBUTE(test_fops, NULL, run_tests, "%llu\n");

/* Are called for rxe_alloc_wq() and rxe_destroy_wq() in rxe.c. */
int strict_start(void)
{
	int status = strict_find_pci();

	if (status)
		return status;
	status = rxe_alloc_wq();
	if (status) {
		strict_put_pci();
		return status;
	}
	directory = debugfs_create_dir("strict", NULL);
	debugfs_create_file("faults", 0400, directory, NULL, &faults_fops);
	debugfs_create_file("devices", 0400, directory, NULL, &devices_fops);
	debugfs_create_file("reached", 0400, directory, NULL, &reached_fops);
	debugfs_create_file("limits", 0400, directory, NULL, &limits_fops);
	debugfs_create_file("plan", 0600, directory, NULL, &plan_fops);
	debugfs_create_file("test", 0200, directory, NULL, &test_fops);
	return 0;
}

void strict_stop(void)
{
	debugfs_remove_recursive(directory);
	strict_end_plan();
	rxe_destroy_wq();
	strict_put_pci();
	strict_forget();
}
