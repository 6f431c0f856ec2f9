// SPDX-License-Identifier: GPL-2.0

//! What all parts of a device share.

use crate::counters::Counters;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::driver::Regions;

/// What is common to the connections of a device.
pub(crate) struct Shared {
    /// Its regions.
    pub(crate) regions: Arc<Regions>,
    /// What it counts.
    pub(crate) counters: Counters,
}

impl Shared {
    /// Of a new device. Sleeps.
    pub(crate) fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let counters = Counters::new();
        Ok(Arc::new(Self { regions, counters }, GFP_KERNEL)?)
    }
}
