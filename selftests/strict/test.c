// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the strict device: it finds each kind of fault, and none where there
 * is none. They post work requests to two queue pairs of the device that are
 * connected to each other. The kernel log has the results.
 */
#include <linux/completion.h>
#include <linux/dma-map-ops.h>
#include <linux/platform_device.h>

#include "limits.h"
#include "rig.h"

#define LEN 3000

static int posted_status;

static void done(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status)
		posted_status = wc->status;
}

static struct ib_cqe cqe = { .done = done };

static void fill(struct rig *rig)
{
	unsigned int i;

	for (i = 0; i < 2 * PAGE_SIZE; i++)
		((u8 *)rig->from)[i] = i % 251;
	memset(rig->to, 0, 2 * PAGE_SIZE);
}

static int post_send(struct ib_qp *qp, struct ib_send_wr *wr)
{
	wr->wr_cqe = &cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(qp, wr, NULL);
}

/* Waits for that many completions. */
static int wait_for(struct rig *rig, int count)
{
	unsigned long stop = jiffies + 20 * HZ;

	while (count > 0) {
		count -= ib_process_cq_direct(rig->cq, count);
		if (time_after(jiffies, stop))
			return -ETIMEDOUT;
		if (count > 0)
			msleep(20);
	}
	return posted_status ? -EIO : 0;
}

/* Sends from one device address to another one. */
static int send(struct rig *rig, u64 from, u64 to, u32 len)
{
	struct ib_sge source = { from, len, rig->pd->local_dma_lkey };
	struct ib_sge sink = { to, len, rig->pd->local_dma_lkey };
	struct ib_recv_wr receive = {
		.wr_cqe = &cqe, .sg_list = &sink, .num_sge = 1,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .sg_list = &source, .num_sge = 1,
	};
	int status;

	posted_status = 0;
	status = ib_post_recv(rig->receiver, &receive, NULL);
	if (!status)
		status = post_send(rig->sender, &wr);
	return status ?: wait_for(rig, 2);
}

/* Maps memory for a device. The debugging of DMA wants to see the check. */
static u64 map_for(struct device *dev, void *memory, size_t len,
		   enum dma_data_direction direction)
{
	u64 address = dma_map_single(dev, memory, len, direction);

	return dma_mapping_error(dev, address) ? 0 : address;
}

static u64 map(struct rig *rig, void *memory, enum dma_data_direction direction)
{
	return map_for(rig->dma, memory, LEN, direction);
}

static void unmap(struct rig *rig, u64 address,
		  enum dma_data_direction direction)
{
	dma_unmap_single(rig->dma, address, LEN, direction);
}

/* Sends LEN bytes that are mapped as `direction` says to a good Receive. */
static int send_from(struct rig *rig, u64 from, u32 len)
{
	u64 to = map_for(rig->dma, rig->to, 2 * PAGE_SIZE, DMA_FROM_DEVICE);
	int status = send(rig, from, to, len);

	dma_unmap_single(rig->dma, to, 2 * PAGE_SIZE, DMA_FROM_DEVICE);
	return status;
}

static int data_arrives_with_the_unmap(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	u64 to = map(rig, rig->to, DMA_FROM_DEVICE);
	int status = send(rig, from, to, LEN);
	bool early = !memcmp(rig->to, rig->from, 16);

	unmap(rig, to, DMA_FROM_DEVICE);
	unmap(rig, from, DMA_TO_DEVICE);
	return status ?: early || memcmp(rig->to, rig->from, LEN) ? -EINVAL : 0;
}

static int data_arrives_with_a_sync(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	u64 to = map(rig, rig->to, DMA_FROM_DEVICE);
	int status;

	memset(rig->from, 0x11, 100);
	dma_sync_single_for_device(rig->dma, from, 100, DMA_TO_DEVICE);
	status = send(rig, from, to, LEN);
	dma_sync_single_for_cpu(rig->dma, to, 200, DMA_FROM_DEVICE);
	if (!status && (memcmp(rig->to, rig->from, 200) ||
			!memcmp(rig->to + 200, rig->from + 200, 100)))
		status = -EINVAL;
	unmap(rig, to, DMA_FROM_DEVICE);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int after_unmap(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);

	unmap(rig, from, DMA_TO_DEVICE);
	return send_from(rig, from, LEN);
}

static int receive_after_unmap(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	u64 to = map(rig, rig->to, DMA_FROM_DEVICE);
	int status;

	unmap(rig, to, DMA_FROM_DEVICE);
	status = send(rig, from, to, LEN);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int beyond_the_end(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	int status = send_from(rig, from, LEN + 1);

	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int before_the_beginning(struct rig *rig)
{
	u64 from = map(rig, rig->from + 64, DMA_TO_DEVICE);
	int status = send_from(rig, from - 1, 1);

	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int pointer_for_an_address(struct rig *rig)
{
	return send_from(rig, (uintptr_t)rig->from, LEN);
}

static int read_of_what_is_for_writing(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_FROM_DEVICE);
	int status = send_from(rig, from, LEN);

	unmap(rig, from, DMA_FROM_DEVICE);
	return status;
}

static int write_to_what_is_for_reading(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	u64 to = map(rig, rig->to, DMA_TO_DEVICE);
	int status = send(rig, from, to, LEN);

	unmap(rig, to, DMA_TO_DEVICE);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int mapped_for_another(struct rig *rig)
{
	struct device *other = &rig->other->dev;
	u64 from = map_for(other, rig->from, LEN, DMA_TO_DEVICE);
	int status = send_from(rig, from, LEN);

	dma_unmap_single(other, from, LEN, DMA_TO_DEVICE);
	return status;
}

static int not_given_back(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	int status;

	dma_sync_single_for_cpu(rig->dma, from, LEN, DMA_TO_DEVICE);
	status = send_from(rig, from, LEN);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int written_without_a_sync(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	int status;

	((u8 *)rig->from)[LEN - 1] ^= 1;
	status = send_from(rig, from, LEN);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int written_while_it_is_the_devices(struct rig *rig)
{
	u64 to = map(rig, rig->to, DMA_FROM_DEVICE);

	((u8 *)rig->to)[LEN - 1] = 1;
	unmap(rig, to, DMA_FROM_DEVICE);
	return 0;
}

static int unmapped_in_part(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);

	strict_operations.unmap_phys(rig->dma, from, LEN - 1, DMA_TO_DEVICE, 0);
	unmap(rig, from, DMA_TO_DEVICE);
	return 0;
}

static int unmapped_twice(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);

	unmap(rig, from, DMA_TO_DEVICE);
	strict_operations.unmap_phys(rig->dma, from, LEN, DMA_TO_DEVICE, 0);
	return 0;
}

static int synced_beyond_the_end(struct rig *rig)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);

	strict_operations.sync_single_for_device(rig->dma, from + 1, LEN,
						 DMA_TO_DEVICE);
	unmap(rig, from, DMA_TO_DEVICE);
	return 0;
}

static int too_long_a_segment(struct rig *rig)
{
	struct device *other = &rig->other->dev;
	struct scatterlist sg;
	int mapped;

	sg_init_one(&sg, rig->from, LEN);
	dma_set_max_seg_size(other, LEN - 1);
	mapped = strict_operations.map_sg(other, &sg, 1, DMA_TO_DEVICE, 0);
	dma_set_max_seg_size(other, UINT_MAX);
	return mapped == -EINVAL ? 0 : -EIO;
}

static int left_mapped(struct rig *rig)
{
	struct device *other = &rig->other->dev;
	unsigned int left;

	strict_operations.map_phys(other, virt_to_phys(rig->from), LEN,
				   DMA_TO_DEVICE, 0);
	spin_lock_irq(&strict_lock);
	left = strict_left(other);
	spin_unlock_irq(&strict_lock);
	return left == 1 ? 0 : -EIO;
}

/* Posts the registration of a mapped list, and an RDMA Write to it. */
static int write_to_region(struct rig *rig, struct ib_mr *mr, u64 from)
{
	struct ib_sge source = { from, LEN, rig->pd->local_dma_lkey };
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR, .mr = mr, .key = mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	struct ib_rdma_wr write = {
		.wr.opcode = IB_WR_RDMA_WRITE, .wr.sg_list = &source,
		.wr.num_sge = 1, .remote_addr = mr->iova, .rkey = mr->rkey,
	};
	int status;

	posted_status = 0;
	status = post_send(rig->receiver, &reg.wr);
	if (!status)
		status = wait_for(rig, 1);
	if (!status)
		status = post_send(rig->sender, &write.wr);
	return status ?: wait_for(rig, 1);
}

/* A region of two entries, which is written to before or after the unmap. */
static int region(struct rig *rig, bool mapped)
{
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	struct scatterlist sgl[2];
	struct ib_mr *mr;
	int status = -EIO;

	sg_init_table(sgl, 2);
	sg_set_buf(&sgl[0], rig->to + 100, PAGE_SIZE - 100);
	sg_set_buf(&sgl[1], rig->to + PAGE_SIZE, PAGE_SIZE);
	mr = ib_alloc_mr(rig->pd, IB_MR_TYPE_MEM_REG, 2);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	if (ib_dma_map_sg(rig->device, sgl, 2, DMA_FROM_DEVICE) <= 0)
		goto out;
	if (ib_map_mr_sg(mr, sgl, strict_settings.merge ? 1 : 2, NULL,
			 PAGE_SIZE) == (strict_settings.merge ? 1 : 2)) {
		if (!mapped)
			ib_dma_unmap_sg(rig->device, sgl, 2, DMA_FROM_DEVICE);
		status = write_to_region(rig, mr, from);
	}
	if (mapped)
		ib_dma_unmap_sg(rig->device, sgl, 2, DMA_FROM_DEVICE);
	if (!status && mapped && memcmp(rig->to + 100, rig->from, LEN))
		status = -EINVAL;
out:
	ib_dereg_mr(mr);
	unmap(rig, from, DMA_TO_DEVICE);
	return status;
}

static int region_is_written(struct rig *rig)
{
	return region(rig, true);
}

static int region_of_unmapped_memory(struct rig *rig)
{
	return region(rig, false);
}

/* One that has entries which begin and end anywhere, if the device has such. */
static int region_with_gaps(struct rig *rig)
{
	bool has = rig->device->attrs.kernel_cap_flags & IBK_SG_GAPS_REG;
	u64 from = map(rig, rig->from, DMA_TO_DEVICE);
	struct ib_mr *mr = ib_alloc_mr(rig->pd, IB_MR_TYPE_SG_GAPS, 2);
	void *first = rig->to + 100, *second = rig->to + PAGE_SIZE + 50;
	struct scatterlist sgl[2];
	int status = -EIO;

	if (IS_ERR(mr)) {
		unmap(rig, from, DMA_TO_DEVICE);
		return has ? PTR_ERR(mr) : 0;
	}
	sg_init_table(sgl, 2);
	sg_set_buf(&sgl[0], first, 200);
	sg_set_buf(&sgl[1], second, LEN - 200);
	if (ib_dma_map_sg(rig->device, sgl, 2, DMA_FROM_DEVICE) != 2)
		goto out;
	if (ib_map_mr_sg(mr, sgl, 2, NULL, PAGE_SIZE) == 2)
		status = write_to_region(rig, mr, from);
	ib_dma_unmap_sg(rig->device, sgl, 2, DMA_FROM_DEVICE);
	if (!status && (memcmp(first, rig->from, 200) ||
			memcmp(second, rig->from + 200, LEN - 200)))
		status = -EINVAL;
out:
	ib_dereg_mr(mr);
	unmap(rig, from, DMA_TO_DEVICE);
	return has ? status : -EIO;
}

static int more_elements_than_asked_for(struct rig *rig)
{
	struct ib_sge source[2] = {};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .sg_list = source, .num_sge = 2,
	};

	return post_send(rig->sender, &wr) == -EINVAL ? 0 : -EIO;
}

/* Inline data are read when they are posted, by the CPU, from no mapping. */
static int inline_data(struct rig *rig, u32 len)
{
	struct ib_sge source = { (uintptr_t)rig->from, len, 0 };
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .sg_list = &source, .num_sge = 1,
		.send_flags = IB_SEND_INLINE,
	};
	u64 to = map(rig, rig->to, DMA_FROM_DEVICE);
	struct ib_sge sink = { to, LEN, rig->pd->local_dma_lkey };
	struct ib_recv_wr receive = {
		.wr_cqe = &cqe, .sg_list = &sink, .num_sge = 1,
	};
	int status = post_send(rig->sender, &wr);

	posted_status = 0;
	if (!status)
		status = ib_post_recv(rig->receiver, &receive, NULL);
	if (!status)
		status = wait_for(rig, 2);
	unmap(rig, to, DMA_FROM_DEVICE);
	if (!status && memcmp(rig->to, rig->from, len))
		status = -EIO;
	return status;
}

static int inline_data_that_were_granted(struct rig *rig)
{
	return inline_data(rig, rig->inline_bytes);
}

static int more_inline_data_than_granted(struct rig *rig)
{
	return inline_data(rig, rig->inline_bytes + 1) == -EINVAL ? 0 : -EIO;
}

static int more_completions_than_asked_for(struct rig *rig)
{
	struct ib_recv_wr receive = { .wr_cqe = &cqe };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	unsigned int i, left = 100;

	posted_status = 0;
	for (i = 0; i < QUEUE; i++) {
		if (ib_post_recv(rig->receiver, &receive, NULL) ||
		    post_send(rig->sender, &wr))
			return -EIO;
	}
	while (strict_waiting(rig->cq) < 2 * QUEUE && left--)
		msleep(20);
	return wait_for(rig, 2 * QUEUE);
}

static int more_entries_than_the_device_has(struct rig *rig)
{
	struct ib_cq *cq = ib_alloc_cq(rig->device, NULL,
				       rig->device->attrs.max_cqe + 1, 0,
				       IB_POLL_DIRECT);

	if (!IS_ERR(cq))
		ib_free_cq(cq);
	return IS_ERR(cq) ? 0 : -EIO;
}

/* What is posted stays there, so this comes last. */
static int more_requests_than_asked_for(struct rig *rig)
{
	struct ib_recv_wr receive = { .wr_cqe = &cqe };
	unsigned int i;

	for (i = 0; i < QUEUE; i++) {
		if (ib_post_recv(rig->receiver, &receive, NULL))
			return -EIO;
	}
	return ib_post_recv(rig->receiver, &receive, NULL) == -EINVAL ? 0 : -EIO;
}

static int more_pages_than_the_device_has(struct rig *rig)
{
	u32 most = rig->device->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr = ib_alloc_mr(rig->pd, IB_MR_TYPE_MEM_REG, most + 1);

	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	return IS_ERR(mr) ? 0 : -EIO;
}

/* None is posted, so none needs a region. */
static int atomic_operations(struct rig *rig)
{
	static const enum ib_wr_opcode opcodes[] = {
		IB_WR_ATOMIC_CMP_AND_SWP, IB_WR_ATOMIC_FETCH_AND_ADD,
		IB_WR_ATOMIC_WRITE, IB_WR_FLUSH,
	};
	struct ib_sge sge = { 0, 8, rig->pd->local_dma_lkey };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct ib_atomic_wr atomic = {
			.wr.opcode = opcodes[i], .wr.sg_list = &sge,
			.wr.num_sge = 1,
		};

		if (post_send(rig->sender, &atomic.wr) != -EOPNOTSUPP)
			return -EIO;
	}
	return 0;
}

static int region_for_atomic_operations(struct rig *rig)
{
	struct ib_mr *mr = ib_alloc_mr(rig->pd, IB_MR_TYPE_MEM_REG, 1);
	struct ib_reg_wr reg = { .wr.opcode = IB_WR_REG_MR };
	int status;

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	reg.mr = mr;
	reg.key = mr->rkey;
	reg.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC;
	status = post_send(rig->sender, &reg.wr);
	ib_dereg_mr(mr);
	return status == -EOPNOTSUPP ? 0 : -EIO;
}

static const struct test {
	const char *name;
	int (*run)(struct rig *rig);
	enum strict_fault fault;	/* STRICT_FAULTS: none */
} tests[] = {
#define TEST(function, fault) { #function, function, fault }
	TEST(data_arrives_with_the_unmap, STRICT_FAULTS),
	TEST(data_arrives_with_a_sync, STRICT_FAULTS),
	TEST(region_is_written, STRICT_FAULTS),
	TEST(region_with_gaps, STRICT_FAULTS),
	TEST(after_unmap, STRICT_AFTER_UNMAP),
	TEST(receive_after_unmap, STRICT_AFTER_UNMAP),
	TEST(region_of_unmapped_memory, STRICT_AFTER_UNMAP),
	TEST(beyond_the_end, STRICT_OUTSIDE),
	TEST(before_the_beginning, STRICT_OUTSIDE),
	TEST(pointer_for_an_address, STRICT_OUTSIDE),
	TEST(read_of_what_is_for_writing, STRICT_DIRECTION),
	TEST(write_to_what_is_for_reading, STRICT_DIRECTION),
	TEST(mapped_for_another, STRICT_FOREIGN),
	TEST(not_given_back, STRICT_CPU_OWNS),
	TEST(written_without_a_sync, STRICT_NOT_SYNCED),
	TEST(written_while_it_is_the_devices, STRICT_CPU_WROTE),
	TEST(unmapped_in_part, STRICT_BAD_UNMAP),
	TEST(unmapped_twice, STRICT_BAD_UNMAP),
	TEST(synced_beyond_the_end, STRICT_BAD_SYNC),
	TEST(too_long_a_segment, STRICT_BAD_MAP),
	TEST(left_mapped, STRICT_LEFT),
	TEST(atomic_operations, STRICT_FAULTS),
	TEST(region_for_atomic_operations, STRICT_FAULTS),
	TEST(more_pages_than_the_device_has, STRICT_FAULTS),
	TEST(more_entries_than_the_device_has, STRICT_FAULTS),
	TEST(inline_data_that_were_granted, STRICT_FAULTS),
	TEST(more_inline_data_than_granted, STRICT_LIMIT),
	TEST(more_completions_than_asked_for, STRICT_LIMIT),
	TEST(more_elements_than_asked_for, STRICT_LIMIT),
	TEST(more_requests_than_asked_for, STRICT_LIMIT),
#undef TEST
};

static unsigned int all_faults(void)
{
	unsigned int fault, sum = 0;

	for (fault = 0; fault < STRICT_FAULTS; fault++)
		sum += strict_count(fault);
	return sum;
}

static int run(struct rig *rig, unsigned int number, const struct test *test)
{
	bool expects = test->fault != STRICT_FAULTS;
	unsigned int before = all_faults(), met, others;
	int status;

	fill(rig);
	strict_expect(test->fault);
	status = test->run(rig);
	met = strict_met();
	others = all_faults() - before;
	if (!status && !others && !!met == expects) {
		pr_info("strict: ok %u %s\n", number, test->name);
		return 0;
	}
	pr_info("strict: not ok %u %s: status %d, %u such faults, %u others\n",
		number, test->name, status, met, others);
	return -EIO;
}

/* Runs all tests. The device must not go meanwhile. */
int strict_test(void)
{
	struct rig rig = {};
	int status = rig_set_up(&rig);
	unsigned int i;

	pr_info("strict: 1..%zu\n", ARRAY_SIZE(tests));
	if (status)
		pr_info("strict: not ok 1 no queue pairs to test with: %d\n",
			status);
	for (i = 0; !status && i < ARRAY_SIZE(tests); i++)
		status = run(&rig, i + 1, &tests[i]);
	rig_take_down(&rig);
	return status;
}
