// SPDX-License-Identifier: GPL-2.0

//! Boxes that are lent to posted work requests.
//!
//! The completion of a request takes its box back. A device may lose a completion: soft iWARP
//! sometimes does when a connection breaks, for RDMA Reads and for invalidations, and a device that
//! fails its drain may lose any. A box that is still in a list when its queue pair is drained would
//! otherwise keep its protection domain, and that the device. It is freed with the queue pair,
//! after the completion queue: if the completion arrives late, the box still exists, and the
//! callback sees that the queue pair was drained ([`SqState::is_drained`]).
//!
//! [`SqState::is_drained`]: crate::sq::SqState::is_drained
//!
//! `kernel::list` does not serve: its items are in an `Arc`, and these are boxes with one owner at
//! a time.

use crate::clock;
use crate::prelude::*;

/// The first field of a structure that can be in a list.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) cqe: cbindings::ib_cqe,
    previous: *mut Entry,
    next: *mut Entry,
    /// When it was lent.
    since: Jiffies,
    /// The function that frees the box. Set while it is lent.
    free: Option<unsafe fn(NonNull<Entry>)>,
}

impl Entry {
    /// Creates an entry that is in no list and whose request is not posted.
    pub(crate) const fn new() -> Self {
        Self {
            cqe: cbindings::ib_cqe { done: None },
            previous: null_mut(),
            next: null_mut(),
            since: 0,
            free: None,
        }
    }

    /// Prepares the entry for a request that completes to `done`. If no completion takes its box
    /// back, `free` is called to free it.
    pub(crate) fn arm(
        &mut self,
        done: unsafe extern "C" fn(*mut cbindings::ib_cq, *mut cbindings::ib_wc),
        free: unsafe fn(NonNull<Entry>),
    ) {
        self.cqe.done = Some(done);
        self.free = Some(free);
        self.since = clock::now();
    }

    /// Returns when it was last lent.
    pub(crate) fn since(&self) -> Jiffies {
        self.since
    }

    /// Returns the entry of the request that `wc` completes.
    ///
    /// # Safety
    ///
    /// The request was posted with the address of a structure whose first field is an entry.
    pub(crate) unsafe fn completed(wc: &cbindings::ib_wc) -> NonNull<Self> {
        // SAFETY: The caller promises the address of a structure, which is not null.
        unsafe { NonNull::new_unchecked(wc.__bindgen_anon_1.wr_cqe.cast()) }
    }
}

/// A list of entries.
///
/// # Invariants
///
/// Each entry is live, part of a box for which its `free` may be called once, by any task, and in
/// no other list. Its links are those of this list.
pub(crate) struct InFlight {
    first: *mut Entry,
}

// SAFETY: By the type invariants any task may free the boxes.
unsafe impl Send for InFlight {}

impl InFlight {
    pub(crate) const fn new() -> Self {
        // INVARIANT: The list is empty.
        Self { first: null_mut() }
    }

    /// Returns whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds `entry`.
    ///
    /// # Safety
    ///
    /// `entry` is live and in no list. As long as it is in this one, any task may call its `free`,
    /// and only the owner of the list accesses it in other ways.
    pub(crate) unsafe fn add(&mut self, entry: NonNull<Entry>) {
        // SAFETY: The caller promises that `entry` is live and in no list, so nobody else accesses
        // it.
        let added = unsafe { &mut *entry.as_ptr() };
        added.previous = null_mut();
        added.next = self.first;
        // SAFETY: By the type invariants `first` is null or a live entry of this list, which only
        // this call accesses.
        if let Some(next) = unsafe { self.first.as_mut() } {
            next.previous = entry.as_ptr();
        }
        // INVARIANT: The caller promises that the entry is live, in no other list, and may be
        // freed.
        self.first = entry.as_ptr();
    }

    /// Removes `entry`, which belongs to the caller then.
    ///
    /// # Safety
    ///
    /// `entry` is in this list.
    pub(crate) unsafe fn remove(&mut self, entry: NonNull<Entry>) {
        // SAFETY: The caller promises that `entry` is in this list, so it is live by the type
        // invariants.
        let (previous, next) = unsafe { ((*entry.as_ptr()).previous, (*entry.as_ptr()).next) };
        // SAFETY: By the type invariants a link is null or points to a live entry of this list.
        match unsafe { previous.as_mut() } {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        // SAFETY: By the type invariants a link is null or points to a live entry of this list.
        if let Some(next) = unsafe { next.as_mut() } {
            next.previous = previous;
        }
    }

    /// Moves all entries to `other`, and calls `moved` for each while it is in neither list.
    pub(crate) fn move_to(&mut self, other: &mut Self, mut moved: impl FnMut(NonNull<Entry>)) {
        while let Some(entry) = NonNull::new(self.first) {
            // SAFETY: It is the first entry of this list.
            unsafe { self.remove(entry) };
            moved(entry);
            // SAFETY: By the type invariants it was live in this list, and any task may free it. It
            // is in no list any more. The caller has both lists.
            unsafe { other.add(entry) };
        }
    }

    /// Iterates over the times, before `now`, for which each entry has been lent.
    pub(crate) fn ages(&self, now: Jiffies) -> impl Iterator<Item = Jiffies> + '_ {
        self.iter().map(move |entry| {
            // SAFETY: By the type invariants the entries of the list are live.
            now.wrapping_sub(unsafe { (*entry.as_ptr()).since })
        })
    }

    /// Iterates over all entries. They stay in the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<Entry>> + '_ {
        // SAFETY: By the type invariants the entries of the list are live, and a link is null or
        // points to one.
        core::iter::successors(NonNull::new(self.first), |entry| unsafe {
            NonNull::new((*entry.as_ptr()).next)
        })
    }
}

impl Drop for InFlight {
    /// Frees all boxes. Sleeps if that does.
    fn drop(&mut self) {
        while let Some(entry) = NonNull::new(self.first) {
            // SAFETY: It is the first entry of this list.
            unsafe { self.remove(entry) };
            // SAFETY: By the type invariants it was live in the list, and nobody else accesses it.
            let free = unsafe { (*entry.as_ptr()).free };
            if let Some(free) = free {
                // SAFETY: By the type invariants `free` may be called once, and the entry is in no
                // list any more.
                unsafe { free(entry) };
            }
        }
    }
}
