// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, in one module for each claim.

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
