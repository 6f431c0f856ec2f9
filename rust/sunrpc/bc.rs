// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: the server calls, the client replies, over the connection that
//! the client made.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h); RFC 8167.

pub(crate) mod clnt;
pub(crate) mod svc;
