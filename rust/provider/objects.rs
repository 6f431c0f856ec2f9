// SPDX-License-Identifier: GPL-2.0

//! The data of a device, and access to them from the core's structures.

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

// SAFETY: It is an address, whose target any task may use by the type invariants.
unsafe impl Send for Found {}

/// The data of a device.
#[pin_data]
pub(crate) struct Objects<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) regions: Arc<Regions>,
    #[pin]
    pub(crate) queue_pairs: Table<Found>,
    pub(crate) counters: KVec<iwraw::rdma_stat_desc>,
    // The address of the device, for its GUIDs. It is not zero.
    pub(crate) hardware: [u8; 6],
}

// SAFETY: The counters' names are static; all other fields may be sent.
unsafe impl<D: Driver> Send for Objects<D> {}
// SAFETY: The counters' names are static; all other fields may be shared.
unsafe impl<D: Driver> Sync for Objects<D> {}

impl<D> Objects<D> {
    pub(crate) fn driver(&self) -> &Arc<D> {
        &self.driver
    }
}

/// An `ib_device` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct Shell<D> {
    ib: iwraw::ib_device,
    pub(crate) objects: MaybeUninit<Arc<Objects<D>>>,
}

/// Returns the data of a device.
///
/// # Safety
///
/// `device` is one of `D`, created by this crate, and allocated as long as `'a`.
pub(crate) unsafe fn of<'a, D: Driver>(device: *mut iwraw::ib_device) -> &'a Objects<D> {
    // SAFETY: The caller promises it; `add` writes the field before anybody else sees the device.
    unsafe { (*device.cast::<Shell<D>>()).objects.assume_init_ref() }
}
