// SPDX-License-Identifier: GPL-2.0

//! Tests of the end of a queue pair: memory that the device may access is released when the queue
//! pair is destroyed, not before.
//!
//! `ib_drain_qp` does not report a failure. Here the device's part of it is replaced by functions
//! that do nothing, which simulates a failed drain.

use super::{
    fixture::Pair,
    handler::kept, //
};
use crate::prelude::*;
use ext::memory::Page;

/// The page to check when a queue pair is destroyed, and whether it was still referenced then.
static WATCHED: Atomic<*mut kernel::bindings::page> = Atomic::new(null_mut());
static WAS_KEPT: Atomic<bool> = Atomic::new(false);

/// The number of times that the Send queue of a queue pair was drained.
static DRAINS: Atomic<u32> = Atomic::new(0);

/// The device's own function that destroys a queue pair.
static DESTROY: Atomic<usize> = Atomic::new(0);

type DestroyQp = unsafe extern "C" fn(*mut cbindings::ib_qp, *mut cbindings::ib_udata) -> c_int;

/// A device that does not drain queue pairs, until this is dropped.
struct Undrained {
    device: *mut cbindings::ib_device,
    destroy: DestroyQp,
}

impl Undrained {
    fn new(pair: &Pair) -> Result<Self> {
        let device = pair.near.queue.id().device()?.as_ptr();
        // SAFETY: The pair keeps the device, whose queue pairs are all of this test, so nobody else
        // uses `ops` now.
        let ops = unsafe { &mut (*device).ops };
        let destroy: DestroyQp = ops.destroy_qp.ok_or(EINVAL)?;
        DESTROY.store(destroy as usize, Relaxed);
        DRAINS.store(0, Relaxed);
        ops.drain_sq = Some(drain_nothing);
        ops.drain_rq = Some(do_nothing);
        ops.destroy_qp = Some(destroy_qp);
        Ok(Self { device, destroy })
    }
}

impl Drop for Undrained {
    fn drop(&mut self) {
        // SAFETY: The tests drop this before the last end that keeps the device, whose queue pairs
        // are all of this test.
        let ops = unsafe { &mut (*self.device).ops };
        (ops.drain_sq, ops.drain_rq) = (None, None);
        ops.destroy_qp = Some(self.destroy);
    }
}

/// Counts a drain of the Send queue, and drains nothing.
///
/// # Safety
///
/// The core may call this for any queue pair.
unsafe extern "C" fn drain_nothing(_queue: *mut cbindings::ib_qp) {
    DRAINS.add(1, Relaxed);
}

/// Drains nothing.
///
/// # Safety
///
/// The core may call this for any queue pair.
unsafe extern "C" fn do_nothing(_queue: *mut cbindings::ib_qp) {}

/// Checks the watched page, then destroys the queue pair as the device does.
///
/// # Safety
///
/// Only the core calls this, for a queue pair that it destroys.
unsafe extern "C" fn destroy_qp(
    queue: *mut cbindings::ib_qp,
    udata: *mut cbindings::ib_udata,
) -> c_int {
    let page = WATCHED.load(Relaxed);
    if !page.is_null() {
        // SAFETY: The test owns a reference to the page as long as it is set here.
        WAS_KEPT.store(unsafe { cbindings::page_ref_count(page) } > 1, Relaxed);
    }
    // SAFETY: `DESTROY` holds the device's function, stored as such when it was replaced. It gets
    // the arguments of the core.
    unsafe {
        let destroy = core::mem::transmute::<usize, DestroyQp>(DESTROY.load(Relaxed));
        destroy(queue, udata)
    }
}

pub(super) fn nothing_is_released_before_the_queue_pair_is_destroyed() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.gather(&page)?))?;
    pair.arrived(1)?;
    let undrained = Undrained::new(&pair)?;
    WAS_KEPT.store(false, Relaxed);
    WATCHED.store(page.as_ptr(), Relaxed);
    pair.near.queue.drain();
    let gone = !kept(&page);
    let Pair { near, far } = pair;
    drop(near);
    WATCHED.store(null_mut(), Relaxed);
    drop(undrained);
    drop(far);
    Ok(WAS_KEPT.load(Relaxed) && gone)
}

pub(super) fn a_queue_pair_is_drained_once() -> Result<bool> {
    let pair = Pair::new()?;
    let undrained = Undrained::new(&pair)?;
    pair.near.queue.drain();
    pair.near.queue.drain();
    let Pair { near, far } = pair;
    drop(near);
    let drains = DRAINS.load(Relaxed);
    drop(undrained);
    drop(far);
    Ok(drains == 1)
}
