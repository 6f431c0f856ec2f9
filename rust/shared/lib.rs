// SPDX-License-Identifier: GPL-2.0

//! Types that pass from `sunrpc` to `rdma` and back: memory and its owners, addresses, network namespaces; and from
//! both to `trace`: what events name things by.
//!
//! Those two crates do not see each other, and the module between them forbids `unsafe`. Both
//! re-export what is here, so that such a value has one type on either side and owns what keeps it
//! valid.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod addr;
pub mod memory;
pub mod trace;
