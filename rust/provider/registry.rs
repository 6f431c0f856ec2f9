// SPDX-License-Identifier: GPL-2.0

//! The devices of this module, by network device and link type.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! The core finds devices by network device and driver id. All devices here have the id of siw,
//! whose library drives them for processes, and so does a siw that somebody builds. So this module
//! finds and removes its own by a list of its own, and never by that id.
//!
//! An entry has a reference to the structure of its device, and stays when the device is gone: its
//! removal by others may still run code of this module then. Only a call of `ib_unregister_device`,
//! which waits for another one, allows to drop an entry ([`Found::unregister`]). Devices that are
//! gone are dropped when another one is added ([`drop_dead`]), or with their link type.

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    }, //
};
use ext::alloc_scope::NoIo;
use kernel::{
    prelude::*,
    str::CStr, //
};

kernel::sync::global_lock! {
    // SAFETY: `start` initialises it before it sets `READY`, without which nobody uses it.
    unsafe(uninit) static DEVICES: Mutex<KVec<Entry>> = KVec::new();
}

static STARTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

/// Makes the registry ready for use. Sleeps.
pub(crate) fn start() {
    if !STARTED.swap(true, Ordering::Relaxed) {
        // SAFETY: By the swap of `STARTED` above this is the first and only time.
        unsafe { DEVICES.init() };
        READY.store(true, Ordering::Release);
    }
}

/// Calls `f` with the entries. `ENODEV` before [`start`]. Sleeps.
fn with<R>(f: impl FnOnce(&mut KVec<Entry>) -> R) -> Result<R> {
    match READY.load(Ordering::Acquire) {
        true => Ok(f(&mut DEVICES.lock())),
        false => Err(ENODEV),
    }
}

/// A network device and a link type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    // The address of the network device, which is only compared.
    netdev: usize,
    link_type: &'static CStr,
}

impl Place {
    pub(crate) fn new(netdev: *mut cbindings::net_device, link_type: &'static CStr) -> Self {
        Self {
            netdev: netdev.addr(),
            link_type,
        }
    }
}

/// A device that was registered with the core, and may be gone since.
///
/// # Invariants
///
/// The value owns a reference to the structure, which is of a device of this crate.
struct Device(NonNull<cbindings::ib_device>);

// SAFETY: Any task may hold or drop a reference.
unsafe impl Send for Device {}

impl Device {
    /// Returns a reference of users of the device, which it waits for when it goes, or [`None`] if
    /// it is gone.
    fn get(&self) -> Option<Live<'_>> {
        // SAFETY: By the type invariants the reference keeps the structure.
        unsafe { cbindings::ib_device_try_get(self.0.as_ptr()) }.then(|| Live(self))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is dropped once.
        unsafe {
            kernel::bindings::put_device((&raw mut (*self.0.as_ptr()).__bindgen_anon_1.dev).cast())
        };
    }
}

/// A device that is there, and stays as long as this.
struct Live<'a>(&'a Device);

impl Drop for Live<'_> {
    fn drop(&mut self) {
        // SAFETY: `Device::get`, which alone makes these, has taken the reference.
        unsafe { cbindings::ib_device_put(self.0 .0.as_ptr()) };
    }
}

struct Entry {
    place: Place,
    // `None` until the device is registered with the core.
    device: Option<Device>,
    /// Whether the network device has begun to go since the place was reserved.
    netdev_goes: bool,
}

impl Entry {
    /// Has the device removed, if it is there. Sleeps, but not until it is gone.
    fn remove_later(&self) {
        if let Some(live) = self.device.as_ref().and_then(Device::get) {
            // SAFETY: The device is there as long as `live`.
            unsafe { cbindings::ib_unregister_device_queued(live.0 .0.as_ptr()) };
        }
    }

    fn is_gone(&self) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|device| device.get().is_none())
    }
}

/// A device that was taken out of the registry.
pub(crate) struct Found(Device);

impl Found {
    /// Removes the device, or waits until another task has. Sleeps.
    pub(crate) fn unregister(self) {
        // SAFETY: The reference keeps the structure, whose device was registered. On a device that
        // is gone the core does nothing but wait.
        unsafe { cbindings::ib_unregister_device(self.0 .0.as_ptr()) };
    }
}

/// A place for a device that is about to be registered. It is free again when this is dropped.
pub(crate) struct Reservation(Place);

impl Reservation {
    /// Reserves a place. `EEXIST` if it has a device. Sleeps.
    pub(crate) fn new(place: Place) -> Result<Self> {
        drop_dead();
        // Listeners wait for the lock, and memory reclaim may wait for them.
        let _noio = NoIo::new();
        with(|entries| {
            if entries.iter().any(|entry| entry.place == place) {
                return Err(EEXIST);
            }
            let entry = Entry {
                place,
                device: None,
                netdev_goes: false,
            };
            Ok(entries.push(entry, GFP_KERNEL)?)
        })??;
        Ok(Self(place))
    }

    /// Returns whether the network device goes, so that nobody would remove the device. Sleeps.
    pub(crate) fn netdev_goes(&self) -> bool {
        let goes = |entry: &Entry| entry.place == self.0 && entry.netdev_goes;
        with(|entries| entries.iter().any(goes)).unwrap_or(false)
    }

    /// Puts the device there that was just registered, and has it removed if its network device has
    /// begun to go meanwhile. Sleeps.
    ///
    /// # Safety
    ///
    /// It is of this crate, and the caller gives up a reference to its structure.
    pub(crate) unsafe fn fill(self, device: NonNull<cbindings::ib_device>) {
        let place = core::mem::ManuallyDrop::new(self).0;
        // INVARIANT: The caller promises both.
        let mut device = Some(Device(device));
        let filled = with(|entries| {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.place == place) {
                entry.device = device.take();
                if entry.netdev_goes {
                    entry.remove_later();
                }
            }
        });
        // A reservation was made, so the registry is ready, and has its entry.
        debug_assert!(filled.is_ok() && device.is_none());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = with(|entries| {
            entries.retain(|entry| entry.place != self.0 || entry.device.is_some());
        });
    }
}

/// Takes a device that is `wanted` out of the registry.
fn take(wanted: impl Fn(&Entry) -> bool) -> Option<Found> {
    with(|entries| {
        let at = entries
            .iter()
            .position(|entry| entry.device.is_some() && wanted(entry))?;
        entries.remove(at).ok()?.device.map(Found)
    })
    .ok()?
}

/// Takes any one device of a link type out of the registry, also one that is gone. Sleeps.
pub(crate) fn pop(link_type: &'static CStr) -> Option<Found> {
    take(|entry| entry.place.link_type == link_type)
}

/// Frees the memory of the list, if it is empty. Sleeps.
pub(crate) fn free() {
    let _ = with(|entries| {
        if entries.is_empty() {
            *entries = KVec::new();
        }
    });
}

/// Drops the devices that are gone. Sleeps until those that go have gone.
fn drop_dead() {
    while let Some(found) = take(Entry::is_gone) {
        found.unregister();
    }
}

/// Returns whether there is a device at a place. Sleeps.
pub(crate) fn has(place: Place) -> bool {
    let is_there = |entry: &Entry| entry.place == place && !entry.is_gone();
    with(|entries| entries.iter().any(is_there)).unwrap_or(false)
}

/// Returns whether a device is of this module, or may be: one of another link type than that at
/// `place` is about to be registered on the same network device. Sleeps.
pub(crate) fn is_own(device: NonNull<cbindings::ib_device>, place: Place) -> bool {
    let is_it = |entry: &Entry| match &entry.device {
        Some(own) => own.0 == device,
        None => entry.place.netdev == place.netdev && entry.place != place,
    };
    with(|entries| entries.iter().any(is_it)).unwrap_or(false)
}

/// Has the device at a place removed whose network device goes, if there is one, or as soon as it
/// is registered. Sleeps, but not until it is gone: its network device waits for that.
pub(crate) fn remove_later(place: Place) {
    let _ = with(|entries| {
        for entry in entries.iter_mut().filter(|entry| entry.place == place) {
            entry.netdev_goes = true;
            entry.remove_later();
        }
    });
}
