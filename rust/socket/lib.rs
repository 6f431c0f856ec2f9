// SPDX-License-Identifier: GPL-2.0

//! Sockets of the kernel, as a lower layer of iWARP needs them.
//!
//! Nothing here knows RDMA.

#![deny(unsafe_op_in_unsafe_fn)]

pub use iwraw::memory;
