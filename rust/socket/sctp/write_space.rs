// SPDX-License-Identifier: GPL-2.0

//! Notification of space in the send buffer. SCTP wakes sleepers of the socket instead of calling
//! `sk_write_space`.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use crate::callbacks::Event;
use crate::callbacks::Events;
use crate::socket::Socket;
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// An entry of a wait queue, which never sleeps.
#[pin_data]
struct WaitEntry<E: Events> {
    #[pin]
    entry: Opaque<iwraw::wait_queue_entry>,
    requested: AtomicBool,
    events: Arc<E>,
}

/// Reports space in the send buffer of a socket, until [`Self::restore`].
///
/// # Invariants
///
/// The entry is in the wait queue of the socket that it was made for.
#[must_use]
pub(super) struct WriteSpace<E: Events> {
    entry: Pin<KBox<WaitEntry<E>>>,
}

// SAFETY: C takes the lock of the queue for an entry, and `E` may be sent.
unsafe impl<E: Events> Send for WriteSpace<E> {}
// SAFETY: C takes the lock of the queue for an entry; `&WriteSpace` gives access to an atomic flag.
unsafe impl<E: Events> Sync for WriteSpace<E> {}

impl<E: Events> WriteSpace<E> {
    /// Adds an entry to the wait queue. Sleeps for memory.
    pub(super) fn new(socket: &Socket, events: Arc<E>) -> Result<Self> {
        let entry = KBox::pin_init(
            pin_init!(WaitEntry {
                // SAFETY: `Opaque::ffi_init` passes a valid pointer to pinned memory.
                entry <- Opaque::ffi_init(|slot| unsafe {
                    iwraw::init_waitqueue_func_entry(slot, Some(woken::<E>))
                }),
                requested: AtomicBool::new(false),
                events,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `socket` owns the socket, and `restore`, which its owner calls before it is
        // released, takes the entry out again. The entry is pinned, and freed after that.
        unsafe {
            let queue = &raw mut (*socket.as_raw()).wq.wait;
            iwraw::add_wait_queue(queue, entry.entry.get());
        }
        // INVARIANT: The entry was just added.
        Ok(Self { entry })
    }

    /// Requests one event when there is space. Returns true if that was not requested before: then
    /// there may be space already.
    pub(super) fn request(&self) -> bool {
        !self.entry.requested.swap(true, Ordering::SeqCst)
    }

    /// Removes the entry. `socket` is the one that it was made for.
    pub(super) fn restore(self, socket: &Socket) {
        // SAFETY: By the type invariants the entry is in that queue. C takes the queue's lock,
        // under which the entry's function is called.
        unsafe {
            let queue = &raw mut (*socket.as_raw()).wq.wait;
            iwraw::remove_wait_queue(queue, self.entry.entry.get());
        }
    }
}

/// Handles a wake-up. Called with the queue's lock held, in any context.
///
/// # Safety
///
/// `entry` is that of an [`WaitEntry`] for the same `E`, which is in a queue whose lock is held.
unsafe extern "C" fn woken<E: Events>(
    entry: *mut iwraw::wait_queue_entry,
    _: u32,
    _: i32,
    _: *mut c_void,
) -> i32 {
    // SAFETY: The caller promises it; `Opaque` has the layout of its content.
    let this = unsafe {
        &*entry
            .byte_sub(offset_of!(WaitEntry<E>, entry))
            .cast::<WaitEntry<E>>()
    };
    if this.requested.swap(false, Ordering::SeqCst) {
        this.events.event(Event::Writable);
    }
    // No sleeper was woken that counts.
    0
}
