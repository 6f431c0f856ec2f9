// SPDX-License-Identifier: GPL-2.0

//! State that all parts of a device share.

use crate::counters::Counters;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::driver::Regions;

/// State that the connections of a device share.
pub(crate) struct DeviceState {
    /// The regions of the device.
    pub(crate) regions: Arc<Regions>,
    /// The counters of the device.
    pub(crate) counters: Counters,
}

impl DeviceState {
    /// Creates the state of a new device. Sleeps.
    pub(crate) fn new(regions: Arc<Regions>) -> Result<Arc<Self>> {
        let counters = Counters::new();
        Ok(Arc::new(Self { regions, counters }, GFP_KERNEL)?)
    }
}
