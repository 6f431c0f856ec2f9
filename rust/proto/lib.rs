// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version 1 without I/O.
//!
//! Every message that can be on the wire, and every decision that a Requester or a Responder takes
//! from it: RFC 8166 (the protocol), RFC 8167 (reverse direction) and RFC 8797 (private data).
//! Bytes, numbers and states go in; views, plans and actions come out. There is no clock, no lock,
//! no allocation and no kernel interface in this crate, so host tests and fuzzers reach all of it.
//!
//! Guarantees of this crate:
//!
//! - No panic, whatever the peer sends and whatever the caller passes.
//! - Decoders borrow. They never read outside the bytes given, and hold nothing back.
//! - Encoders never write outside the buffer given.
//! - Nothing is sized by a number from the wire.
//!
//! A Requester [plans](plan) a Call, [encodes](header::Call) its header, and [parses](reply) the
//! reply. A Responder [parses](call) a Call and [builds](reply_builder) the reply. Both keep
//! account of [credits](credit), which a Responder [lowers](grant_decay) again and [borrows](grant)
//! from a pool, and of the [state of the connection](conn). A Responder [admits](admission)
//! Requesters, and [queues](work_queue) what [waits](waiting) for a thread or for resources.

// Kbuild passes `no_std` itself. The unit tests need `std`.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

pub mod admission;
pub mod backing;
pub mod call;
pub mod chunk;
pub mod cm_private_data;
pub mod conn;
pub mod credit;
pub mod error;
pub mod grant;
pub mod grant_decay;
pub mod header;
pub mod pages;
pub mod plan;
pub mod rdma_error;
pub mod reduction;
pub mod reply;
pub mod reply_builder;
pub mod reverse;
pub mod rpc;
pub mod upper_layer_binding;
pub mod waiting;
pub mod work_queue;
pub mod xdr;
