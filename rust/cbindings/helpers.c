// SPDX-License-Identifier: GPL-2.0
/*
 * Static inline functions and macros as functions that Rust can call. No logic:
 * each does what its name without the prefix does. bindgen reads all of them
 * here; each module has those of helpers/ that it calls.
 */
#include "helpers/common.c"
#include "helpers/iwarp.c"
#include "helpers/rpcrdma.c"
