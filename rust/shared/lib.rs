// SPDX-License-Identifier: GPL-2.0

//! Types that pass between `sunrpc` and `rdma`: memory and its owners, addresses, network
//! namespaces; and identifiers that both pass to `trace`.
//!
//! Those two crates do not see each other, and the module above them forbids `unsafe`. Both
//! re-export these types, so that a value has one type on either side and owns the references that
//! keep it valid.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod addr;
pub mod memory;
pub mod trace;
