// SPDX-License-Identifier: GPL-2.0
/*
 * The trace points of iwarp.ko, and for each of them a function that Rust can
 * call.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "iwarp_trace.h"
