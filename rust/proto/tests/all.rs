// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, one topic a module.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed"
)]

mod adversarial_calls;
mod adversarial_chunks;
mod adversarial_faults;
mod adversarial_replies;
mod common;
mod connections;
mod golden;
mod grants;
mod machines;
mod model;
mod properties;
mod requester;
mod responder;
mod reverse;
mod waiting;
mod work_queue;
