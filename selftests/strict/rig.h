/* SPDX-License-Identifier: GPL-2.0 */
/* The two connected queue pairs that tests of the strict device post to. */
#ifndef STRICT_RIG_H
#define STRICT_RIG_H

#include "strict.h"

/* A power of two, so profiles make no queue larger. */
#define QUEUE 8

struct rig {
	struct ib_device *device;
	struct device *dma;
	/* Another device that memory is mapped for. */
	struct platform_device *other;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *sender, *receiver;
	u32 inline_bytes;	/* that the sender was granted */
	void *from, *to;
};

/* If it fails, rig_take_down() is called all the same. */
int rig_set_up(struct rig *rig);
void rig_take_down(struct rig *rig);

#endif
