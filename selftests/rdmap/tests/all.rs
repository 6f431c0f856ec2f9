// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, one claim a module.

mod cm;
mod codec;
mod golden;
mod halves;
mod lower;
mod model;
mod oracle;
mod planted;
mod sessions;
mod sink;
mod source;
mod streams;
