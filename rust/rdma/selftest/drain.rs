// SPDX-License-Identifier: GPL-2.0

//! The end of a queue pair: what the device may touch is let go when it is destroyed, not before.
//!
//! `ib_drain_qp` says nothing if it fails. Here the device's own part of it is replaced by one that does
//! nothing, which is a drain that failed.

use super::{
    fixture::Pair,
    handler::kept, //
};
use core::{
    ffi::c_int,
    ptr::null_mut, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};
use shared::memory::Page;

/// The page to look at when a queue pair is destroyed, and whether somebody still had it then.
static WATCHED: Atomic<*mut kernel::bindings::page> = Atomic::new(null_mut());
static WAS_KEPT: Atomic<bool> = Atomic::new(false);

/// How often the Send queue of a queue pair was drained.
static DRAINS: Atomic<u32> = Atomic::new(0);

/// What the device did itself when a queue pair was destroyed.
static DESTROY: Atomic<usize> = Atomic::new(0);

type DestroyQp = unsafe extern "C" fn(*mut raw::ib_qp, *mut raw::ib_udata) -> c_int;

/// A device that drains no queue pair, until this is dropped.
struct Undrained {
    device: *mut raw::ib_device,
    destroy: DestroyQp,
}

impl Undrained {
    fn new(pair: &Pair) -> Result<Self> {
        let device = pair.near.queue.id().device()?.as_ptr();
        // SAFETY: The pair keeps the device, whose queue pairs are all of this test.
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
        // SAFETY: It is dropped before what keeps the device.
        let ops = unsafe { &mut (*self.device).ops };
        (ops.drain_sq, ops.drain_rq) = (None, None);
        ops.destroy_qp = Some(self.destroy);
    }
}

/// # Safety
///
/// None is needed.
unsafe extern "C" fn drain_nothing(_queue: *mut raw::ib_qp) {
    DRAINS.add(1, Relaxed);
}

/// # Safety
///
/// None is needed.
unsafe extern "C" fn do_nothing(_queue: *mut raw::ib_qp) {}

/// # Safety
///
/// Only the core calls this, for a queue pair that it destroys.
unsafe extern "C" fn destroy_qp(queue: *mut raw::ib_qp, udata: *mut raw::ib_udata) -> c_int {
    let page = WATCHED.load(Relaxed);
    if !page.is_null() {
        // SAFETY: The test has the page.
        WAS_KEPT.store(unsafe { raw::page_ref_count(page) } > 1, Relaxed);
    }
    // SAFETY: It was such a function when it was replaced, and is called as the core would.
    unsafe {
        let destroy = core::mem::transmute::<usize, DestroyQp>(DESTROY.load(Relaxed));
        destroy(queue, udata)
    }
}

pub(super) fn nothing_is_let_go_before_the_queue_pair_is_destroyed() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.insert(&page)?))?;
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
