// SPDX-License-Identifier: GPL-2.0

//! The driver's side of ib_core and iw_cm (`include/rdma/ib_verbs.h`, `include/rdma/iw_cm.h`) for an iWARP device, as safe traits.
//!
//! Nothing here knows a protocol or a socket.

#![deny(unsafe_op_in_unsafe_fn)]

pub use iwraw::memory;
