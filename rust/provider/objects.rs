// SPDX-License-Identifier: GPL-2.0

//! What belongs to a device, and how to get there from what the core has.

use crate::driver::Driver;
use crate::driver::Regions;
use crate::table::Table;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A queue pair that iw_cm finds by number.
///
/// # Invariants
///
/// The queue pair is not freed before an RCU grace period after this left its table.
pub(crate) struct Found(pub(crate) NonNull<iwraw::ib_qp>);

// SAFETY: It is an address.
unsafe impl Send for Found {}

/// What belongs to a device.
#[pin_data]
pub(crate) struct Objects<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) regions: Arc<Regions>,
    #[pin]
    pub(crate) queue_pairs: Table<Found>,
    pub(crate) counters: KVec<iwraw::rdma_stat_desc>,
    // What stands for the device's address where it needs one. Not zero.
    pub(crate) hardware: [u8; 6],
}

// SAFETY: The counters' names are static; all else may be shared.
unsafe impl<D: Driver> Send for Objects<D> {}
// SAFETY: As above.
unsafe impl<D: Driver> Sync for Objects<D> {}

impl<D> Objects<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.driver
    }
}

/// What the core allocates for a device.
#[repr(C)]
pub(crate) struct Shell<D> {
    ib: iwraw::ib_device,
    pub(crate) objects: MaybeUninit<Arc<Objects<D>>>,
}

/// What belongs to a device.
///
/// # Safety
///
/// It is one of `D`, made by this crate, and allocated as long as `'a`.
pub(crate) unsafe fn of<'a, D: Driver>(device: *mut iwraw::ib_device) -> &'a Objects<D> {
    // SAFETY: The caller promises it; it is written before anybody else sees the device.
    unsafe { (*device.cast::<Shell<D>>()).objects.assume_init_ref() }
}
