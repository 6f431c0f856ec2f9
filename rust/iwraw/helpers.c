// SPDX-License-Identifier: GPL-2.0
/*
 * Static inline functions and macros as functions that Rust can call, sorted.
 * No logic: each does what its name without the prefix does.
 */
#include "iwarp_bindings.h"

struct workqueue_struct *iwarp_helper_alloc_workqueue(const char *name,
						      unsigned int flags)
{
	return alloc_workqueue("%s", flags, 0, name);
}

void iwarp_helper_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

unsigned int iwarp_helper_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

void iwarp_helper_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

/* Both modules of this tree have the same version. */
MODULE_VERSION("0.9.0");
