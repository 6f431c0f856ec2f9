/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the sources of rxe have before their first line: the few calls by which
 * rxe registers its device and reaches memory are those of the strict device.
 *
 * rxe takes a page from the device address that a work request or a region has,
 * maps it, and copies. Here that page and its address are the device address
 * itself with a mark, so that the copy is what looks it up.
 */
#ifndef _STRICT_BEFORE_RXE_H
#define _STRICT_BEFORE_RXE_H

#include <linux/highmem.h>
#include <linux/string.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_verbs.h>

/* What is in headers copies no memory of a region. */
#include "rxe.h"
#include "rxe_loc.h"
#include "strict.h"

/* Which device copies, where that is known. */
#ifndef STRICT_OWNER
#define STRICT_OWNER NULL
#endif

/* Inline data are copied by the CPU, when they are posted. */
#define ib_virt_dma_to_ptr(address) ((void *)(uintptr_t)(address))
#define ib_virt_dma_to_page(address) strict_page(address)
#define ib_register_device(device, name, dma) strict_register(device, name, dma)

#undef memcpy
#define memcpy(to, from, len) strict_copy(STRICT_OWNER, to, from, len)

#undef kmap_local_page
#define kmap_local_page(page) strict_kmap(page)
#undef kunmap_local
#define kunmap_local(address) strict_kunmap(address)

#endif
