// SPDX-License-Identifier: GPL-2.0

//! A test of the references to a queue pair.

use crate::qp::References;
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(super) fn found_queue_pair_is_awaited() -> Result<bool> {
    let references = Arc::pin_init(References::new(), GFP_KERNEL)?;
    let at_first = references.is_awaited();
    references.note_found();
    references.note_found();
    references.get();
    let found_twice = references.is_awaited();
    references.get();
    Ok(!at_first && found_twice && !references.is_awaited())
}
