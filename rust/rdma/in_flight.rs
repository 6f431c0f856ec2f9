// SPDX-License-Identifier: GPL-2.0

//! Boxes that were given up to requests that have not completed.
//!
//! The completion of a request takes its box back. A device may lose one: soft iWARP sometimes does
//! when a connection breaks, for RDMA Reads and for invalidations, and any that fails its drain may, for
//! Receives too. What is still in a list when its queue
//! pair is drained would otherwise keep its protection domain, and that the device. It is freed with the
//! queue pair, after the completion queue: if the device does come up with the completion, the box is there,
//! and its callback sees that it is too late ([`State::is_drained`]).
//!
//! [`State::is_drained`]: crate::sq::State::is_drained
//!
//! `kernel::list` does not serve: its items are in an `Arc`, and these are boxes that one owner at a time has.

use crate::clock;
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::time::Jiffies;

/// The first field of a structure that can be in a list.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) cqe: raw::ib_cqe,
    previous: *mut Entry,
    next: *mut Entry,
    /// When it was given up.
    since: Jiffies,
    /// Set while it is given up.
    free: Option<unsafe fn(NonNull<Entry>)>,
}

impl Entry {
    /// An entry that is in no list, as its request is not posted.
    pub(crate) const fn new() -> Self {
        Self {
            cqe: raw::ib_cqe { done: None },
            previous: null_mut(),
            next: null_mut(),
            since: 0,
            free: None,
        }
    }

    /// Makes the request of the entry complete to `done`. `free` is called to free the box that the entry is part
    /// of, if no completion takes it back.
    pub(crate) fn arm(
        &mut self,
        done: unsafe extern "C" fn(*mut raw::ib_cq, *mut raw::ib_wc),
        free: unsafe fn(NonNull<Entry>),
    ) {
        self.cqe.done = Some(done);
        self.free = Some(free);
        self.since = clock::now();
    }

    /// When it was last given up.
    pub(crate) fn since(&self) -> Jiffies {
        self.since
    }

    /// The entry of the request which `wc` completes.
    ///
    /// # Safety
    ///
    /// The request was posted with the address of something that has an entry first.
    pub(crate) unsafe fn completed(wc: &raw::ib_wc) -> NonNull<Self> {
        // SAFETY: The caller vouches for it, and so for an address that is not null.
        unsafe { NonNull::new_unchecked(wc.__bindgen_anon_1.wr_cqe.cast()) }
    }
}

/// A list of entries.
///
/// # Invariants
///
/// Each entry is part of something that `free` may be called for, once, and is in no other list.
pub(crate) struct InFlight {
    first: *mut Entry,
}

// SAFETY: By the contract of `add`, what is in it may be freed by any task.
unsafe impl Send for InFlight {}

impl InFlight {
    pub(crate) const fn new() -> Self {
        // INVARIANT: There is none.
        Self { first: null_mut() }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds `entry`.
    ///
    /// # Safety
    ///
    /// It is in no list. As long as it is in this one, `free` may be called for it by any
    /// task, and only who has the list to himself touches it in other ways.
    pub(crate) unsafe fn add(&mut self, entry: NonNull<Entry>) {
        // SAFETY: The caller vouches for `entry`.
        let added = unsafe { &mut *entry.as_ptr() };
        added.previous = null_mut();
        added.next = self.first;
        // SAFETY: An entry of the list, by the type invariants.
        if let Some(next) = unsafe { self.first.as_mut() } {
            next.previous = entry.as_ptr();
        }
        // INVARIANT: The caller promises it.
        self.first = entry.as_ptr();
    }

    /// Takes out `entry`, which is the caller's then.
    ///
    /// # Safety
    ///
    /// It is in this list.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<Entry>) {
        // SAFETY: The caller vouches for `entry`.
        let (previous, next) = unsafe { ((*entry.as_ptr()).previous, (*entry.as_ptr()).next) };
        // SAFETY: Null, or an entry of the list.
        match unsafe { previous.as_mut() } {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        // SAFETY: As above.
        if let Some(next) = unsafe { next.as_mut() } {
            next.previous = previous;
        }
    }

    /// How long ago, at the time `now`, each entry was given up.
    pub(crate) fn ages(&self, now: Jiffies) -> impl Iterator<Item = Jiffies> + '_ {
        self.iter().map(move |entry| {
            // SAFETY: An entry of the list, by the type invariants.
            now.wrapping_sub(unsafe { (*entry.as_ptr()).since })
        })
    }

    /// Iterates over all entries. They stay in the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<Entry>> + '_ {
        // SAFETY: Null, or an entry of the list, by the type invariants.
        core::iter::successors(NonNull::new(self.first), |entry| unsafe {
            NonNull::new((*entry.as_ptr()).next)
        })
    }
}

impl Drop for InFlight {
    /// Frees all. Sleeps if what is freed does.
    fn drop(&mut self) {
        while let Some(entry) = NonNull::new(self.first) {
            // SAFETY: It is the first of this list.
            unsafe { self.remove(entry) };
            // SAFETY: By the type invariants it lives.
            let free = unsafe { (*entry.as_ptr()).free };
            if let Some(free) = free {
                // SAFETY: By the type invariants, and it is in no list any more.
                unsafe { free(entry) };
            }
        }
    }
}
