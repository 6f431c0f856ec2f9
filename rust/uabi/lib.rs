// SPDX-License-Identifier: GPL-2.0

//! The layout of the memory that a process shares with the device, without the memory.
//!
//! The layouts are those of [`include/uapi/rdma/siw-abi.h`](srctree/include/uapi/rdma/siw-abi.h),
//! version 1, so that the library that distributions ship for siw can use this device. A process
//! maps a ring for each of its queues: it writes Send Queue entries ([`sqe`]) and Receive Queue
//! entries ([`rqe`]), and reads completions ([`cqe`]). What it learns when an object is created is
//! in [`response`].
//!
//! Whoever maps a ring can write all of it at any time. So no function of this crate takes memory:
//! decoders take a copy, as an array of words, and what they decide cannot change any more. Words
//! are those that the CPU loads and stores, in its own byte order.
// Argues for T23.
//!
//! Guarantees of this crate:
//!
//! - No panic, whatever a process writes.
//! - A decoded request keeps all limits of the format. One that does not is decoded as refused,
//!   with the status that its completion has, because it completes in its turn.
//! - An encoded completion or response has no octet that was not written, and no opcode or status
//!   that the library would look up outside its tables.
//!
//! The hand-over of an entry is up to the owner of the memory: [`ring`] says where flags are and
//! what they mean.

// Kbuild passes `no_std` itself. The unit tests need `std`.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]
// Numbers come from a process, so code that could panic is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod cqe;
pub mod response;
pub mod ring;
pub mod rqe;
pub mod sg_list;
pub mod sqe;
