// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, in one module for each claim.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed"
)]

mod cm;
mod codec;
mod golden;
mod halves;
mod llp;
mod model;
mod oracle;
mod planted;
mod rx;
mod sessions;
mod streams;
mod tx;
