// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of adapters, as their drivers in the kernel's source report them.
 *
 * Behind each number is where it comes from, below drivers/infiniband/hw. Where
 * a driver has it from the firmware, so the source does not say it, the number
 * is one that this file chose, not more than that driver can have; this is
 * marked "firmware".
 */
#include <linux/string.h>

#include "limits.h"

const struct strict_profile strict_profiles[] = {
	{
		/* What rxe has. */
		.name = "none",
	}, {
		.name = "mlx5",
		/* main.c, mlx5_ib_query_device(): 512 bytes at most, less two headers */
		.send_sge = 30,
		.recv_sge = 32,		/* the same; firmware: 512 bytes */
		.sge_rd = 30,		/* include/linux/mlx5/device.h, MLX5_MAX_SGE_RD */
		/* main.c, mlx5_ib_calc_max_qp_wr(); firmware: 2^15 blocks */
		.qp_wr = 8192,
		.reg_pages = 65535,	/* firmware: log_max_klm_list_size */
		.answers_reads = 16,	/* firmware: log_max_ra_req_qp */
		.sends_reads = 16,	/* firmware: log_max_ra_res_qp */
		.vectors = 8,		/* one for each CPU */
		.cqe = 4194303,		/* firmware: log_max_cq_sz */
		/* cq.c, mlx5_ib_create_cq() */
		.cq_multiple = STRICT_POWER_OF_TWO, .cq_plus = 1, .cq_less = 1,
		/* qp.c, calc_sq_size(): of the largest request, 512 bytes */
		.inline_most = 376, .inlines = STRICT_MOST,
		.gaps = true,		/* main.c; firmware: imaicl */
		.rounds = true,		/* qp.c, calc_sq_size() */
	}, {
		.name = "mlx4",
		.send_sge = 32,		/* firmware, the lesser of both queues */
		.recv_sge = 32,
		.sge_rd = 30,		/* include/linux/mlx4/device.h, MLX4_MAX_SGE_RD */
		/* main.c, less MLX4_IB_SQ_MAX_SPARE; firmware: 2^14 */
		.qp_wr = 16351,
		.reg_pages = 511,	/* MLX4_MAX_FAST_REG_PAGES */
		.answers_reads = 16,	/* firmware: log_rd_per_qp */
		.sends_reads = 128,	/* firmware: max_requester_per_qp */
		.vectors = 4,
		.cqe = 4194303,		/* firmware: log_max_cq_sz */
		/* cq.c, mlx4_ib_create_cq() */
		.cq_multiple = STRICT_POWER_OF_TWO, .cq_plus = 1, .cq_less = 1,
		.inlines = STRICT_NO_INLINE,	/* qp.c, set_kernel_sq_size() */
		.rounds = true,		/* qp.c, set_kernel_sq_size() */
	}, {
		/* E810 and later. */
		.name = "irdma",
		.send_sge = 13,		/* user.h, IRDMA_MAX_WQ_FRAGMENT_COUNT */
		.recv_sge = 13,
		.sge_rd = 13,		/* user.h, IRDMA_MAX_SGE_RD */
		.qp_wr = 4063,		/* defs.h, (32768 - IRDMA_SQ_RSVD) / 8 */
		.reg_pages = 262144,	/* main.h, IRDMA_MAX_PAGES_PER_FMR */
		.answers_reads = 127,	/* icrdma_hw.h, ICRDMA_MAX_IRD_SIZE */
		.sends_reads = 255,	/* icrdma_hw.h, ICRDMA_MAX_ORD_SIZE */
		.vectors = 2,
		.cqe = 1048574,		/* user.h, IRDMA_MAX_CQ_SIZE - 1 */
		.cq_multiple = 1,	/* verbs.c, irdma_create_cq() */
		.inline_most = 101,	/* user.h, IRDMA_MAX_INLINE_DATA_SIZE */
	}, {
		/* X722: the least elements of all. */
		.name = "irdma-x722",
		.send_sge = 3,		/* i40iw_hw.h, I40IW_MAX_WQ_FRAGMENT_COUNT */
		.recv_sge = 3,
		.sge_rd = 1,		/* i40iw_hw.h, I40IW_MAX_SGE_RD */
		.qp_wr = 895,		/* i40iw_hw.h, (2048 - IRDMA_SQ_RSVD) / 2 */
		.reg_pages = 262144,	/* main.h, IRDMA_MAX_PAGES_PER_FMR */
		.answers_reads = 63,	/* i40iw_hw.h, I40IW_MAX_IRD_SIZE */
		.sends_reads = 127,	/* i40iw_hw.h, I40IW_MAX_ORD_SIZE */
		.vectors = 1,
		.cqe = 1048574,		/* user.h, IRDMA_MAX_CQ_SIZE - 1 */
		.cq_multiple = 1,	/* verbs.c, irdma_create_cq() */
		/* i40iw_hw.h, I40IW_MAX_INLINE_DATA_SIZE */
		.inline_most = 48,
	}, {
		.name = "cxgb4",
		/* t4.h, T4_MAX_WRITE_SGE: (320 - 32 - 8 of fw_ri_isgl) / 16 */
		.send_sge = 17,
		.recv_sge = 4,		/* t4.h, T4_MAX_RECV_SGE */
		.sge_rd = 1,		/* provider.c */
		/* device.c: 8192, less the status entries, 1 or 2, and 1 */
		.qp_wr = 8189,
		.reg_pages = 128,	/* t4.h, T4_MAX_FR_DSGL_DEPTH */
		/* cxgb4_main.c, max_ordird_qp of old firmware */
		.answers_reads = 8,
		.sends_reads = 8,
		.vectors = 2,
		.cqe = 65518,		/* device.c, t4_max_iq_size - 2 */
		/* cq.c, c4iw_create_cq() */
		.cq_multiple = 16, .cq_plus = 2, .cq_less = 2,
		/* t4.h, T4_MAX_SEND_INLINE: 320 - 32 - 8 of fw_ri_immd */
		.inline_most = 280, .inlines = STRICT_MOST,
	}, {
		.name = "bnxt_re",
		.send_sge = 6,		/* qplib_sp.c, without variable sizes */
		.recv_sge = 6,
		.sge_rd = 6,
		.qp_wr = 4351,		/* qplib_sp.c, BNXT_VAR_MAX_WQE - 1 */
		.reg_pages = 512,	/* qplib_res.h, MAX_PBL_LVL_1_PGS */
		.answers_reads = 126,	/* qplib_sp.h, BNXT_QPLIB_MAX_OUT_RD_ATOM */
		.sends_reads = 126,
		.vectors = 2,
		.cqe = 65536,		/* firmware: max_cqe */
		/* ib_verbs.c, bnxt_re_create_cq() */
		.cq_multiple = 1, .cq_plus = 1,
		/* ib_verbs.c, bnxt_re_setup_swqe_size(): 6 elements */
		.inline_most = 96, .inlines = STRICT_MOST_IF_ASKED,
	}, {
		.name = "erdma",
		.send_sge = 6,		/* erdma_verbs.h, ERDMA_MAX_SEND_SGE */
		.recv_sge = 1,		/* erdma_verbs.h, ERDMA_MAX_RECV_SGE */
		.sge_rd = 1,		/* erdma_verbs.h, ERDMA_MAX_SGE_RD */
		.qp_wr = 8192,		/* erdma_verbs.h, ERDMA_MAX_SEND_WR */
		.reg_pages = 512,	/* erdma_verbs.h, ERDMA_MAX_FRMR_PA */
		.answers_reads = 128,	/* erdma_verbs.h, ERDMA_MAX_ORD */
		.sends_reads = 128,	/* erdma_verbs.h, ERDMA_MAX_IRD */
		.vectors = 4,
		.cqe = 1048576,		/* firmware: ERDMA_CMD_DEV_CAP_MAX_CQE */
		/* erdma_verbs.c, erdma_create_cq() */
		.cq_multiple = STRICT_POWER_OF_TWO,
		.inline_most = 96,	/* erdma_verbs.h, ERDMA_MAX_INLINE */
	}, {
		.name = "hns",
		.send_sge = 64,		/* firmware: max_sq_sg */
		.recv_sge = 64,		/* firmware: max_rq_sg */
		.sge_rd = 64,
		.qp_wr = 32768,		/* firmware: sq_depth */
		.reg_pages = 512,	/* hns_roce_device.h, HNS_ROCE_FRMR_MAX_PA */
		.answers_reads = 128,	/* firmware: PF_CAPS_C_MAX_ORD */
		.sends_reads = 128,
		/* Many more than the tests' machines have CPUs. */
		.vectors = 64,		/* firmware: PF_CAPS_D_NUM_CEQS */
		.cqe = 65536,		/* firmware: PF_CAPS_C_CQ_DEPTH */
		/*
		 * hns_roce_cq.c, set_cq_param(): it has a power of two, and
		 * reports one less, which may be less than was asked for.
		 */
		.cq_multiple = STRICT_POWER_OF_TWO, .cq_less = 1,
		/* hns_roce_qp.c, get_max_inline_data(); firmware: max_sq_inline */
		.inline_most = 32, .inlines = STRICT_ROUNDED,
		.rounds = true,		/* hns_roce_qp.c, set_kernel_sq_size() */
	}, {
		/*
		 * Refused: efa_verbs.c, efa_create_qp() takes datagrams only,
		 * and efa_query_device() reports no IB_DEVICE_MEM_MGT_EXTENSIONS.
		 */
		.name = "efa",
		.no_registrations = true,
		.no_connections = true,
	}, {
		/*
		 * Refused: it has reliable connections, but mthca_provider.c,
		 * mthca_query_device() reports no IB_DEVICE_MEM_MGT_EXTENSIONS.
		 * Nor does mana. Each driver that has registrations by work
		 * requests has Send With Invalidate as well.
		 */
		.name = "mthca",
		.no_registrations = true,
	}, {
		/*
		 * No adapter: of each limit the narrowest above, and a queue
		 * that has exactly what was asked for.
		 */
		.name = "narrowest",
		.send_sge = 3,
		.recv_sge = 1,
		.sge_rd = 1,
		.qp_wr = 895,
		.reg_pages = 128,
		.answers_reads = 8,
		.sends_reads = 8,
		.vectors = 1,
		.cqe = 65518,
		.cq_multiple = 1,
		.inlines = STRICT_NO_INLINE,
	},
	{}
};

/* Returns the profile of that name, or NULL. */
const struct strict_profile *strict_profile(const char *name)
{
	const struct strict_profile *profile;

	for (profile = strict_profiles; profile->name; profile++) {
		if (sysfs_streq(profile->name, name))
			return profile;
	}
	return NULL;
}
