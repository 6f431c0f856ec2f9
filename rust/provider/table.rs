// SPDX-License-Identifier: GPL-2.0

//! A table of entries by random numbers of 24 bits, which nobody can guess.
//!
//! A table that all connections of a device look into all the time has several parts, each with a
//! lock and a cache line of its own. The number of an entry says which part has it, so processors
//! that look for different entries seldom want the same lock.

use ext::{
    lock::IrqLock,
    new_irq_lock, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    }, //
};
use pin_init::pin_init_array_from_fn;

/// A part of a table.
#[pin_data]
#[repr(align(64))]
struct Part<T> {
    #[pin]
    entries: IrqLock<RBTree<u32, T>>,
}

impl<T> Part<T> {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- new_irq_lock!(RBTree::new()),
        })
    }
}

/// A table of `T`, in that many parts, of which there is one at least. Its numbers are never 0.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use provider::table::Table;
///
/// let table = KBox::pin_init(Table::<u64>::new(), GFP_KERNEL)?;
/// let number = table.insert(|_| 5)?;
/// assert_eq!(table.with(number, |value| *value), Some(5));
/// assert_eq!(table.remove(number), Some(5));
/// assert_eq!(table.remove(number), None);
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct Table<T, const PARTS: usize = 1> {
    #[pin]
    parts: [Part<T>; PARTS],
}

/// The number of attempts before a table counts as full.
const TRIES: usize = 64;

impl<T, const PARTS: usize> Table<T, PARTS> {
    /// Creates an empty table.
    pub fn new() -> impl PinInit<Self> {
        const { assert!(PARTS > 0) };
        pin_init!(Self {
            parts <- pin_init_array_from_fn(|_| Part::new()),
        })
    }

    /// Calls `f` with the entries of the part that a number belongs to, under its lock.
    fn part<R>(&self, number: u32, f: impl FnOnce(&mut RBTree<u32, T>) -> R) -> Option<R> {
        let at = usize::try_from(number).ok()? % PARTS;
        Some(self.parts.get(at)?.entries.with(f))
    }

    /// Inserts the entry that `make` creates for its number. Sleeps. `ENOMEM` without memory,
    /// `ENOSPC` if the table is nearly full.
    pub fn insert(&self, make: impl FnOnce(u32) -> T) -> Result<u32> {
        self.insert_from(GFP_KERNEL, make)
    }

    /// Does the same, with memory that is allocated with these flags.
    pub(crate) fn insert_from(&self, flags: Flags, make: impl FnOnce(u32) -> T) -> Result<u32> {
        let mut reservation = Some(RBTreeNodeReservation::new(flags)?);
        let mut make = Some(make);
        for _ in 0..TRIES {
            // SAFETY: The function has no preconditions.
            let number = unsafe { cbindings::get_random_u32() } & 0x00ff_ffff;
            let inserted = self.part(number, |entries| {
                if number == 0 || entries.get(&number).is_some() {
                    return false;
                }
                if let (Some(reservation), Some(make)) = (reservation.take(), make.take()) {
                    entries.insert(reservation.into_node(number, make(number)));
                }
                true
            });
            if inserted == Some(true) {
                return Ok(number);
            }
        }
        Err(ENOSPC)
    }

    /// Calls `f` with an entry; under the lock, so `f` must not sleep. May be called in any
    /// context.
    pub fn with<R>(&self, number: u32, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.part(number, |entries| entries.get(&number).map(f))
            .flatten()
    }

    /// Calls `f` with a copy of each entry, without the lock; of those that come or go meanwhile,
    /// with some. May be called in any context.
    pub fn for_each(&self, f: impl Fn(T))
    where
        T: Clone,
    {
        for part in &self.parts {
            let mut from = 0;
            let next = |from| {
                part.entries.with(|entries| {
                    let cursor = entries.cursor_lower_bound(&from)?;
                    let (number, entry) = cursor.current();
                    Some((*number, entry.clone()))
                })
            };
            while let Some((number, entry)) = next(from) {
                f(entry);
                from = number.saturating_add(1);
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&self, number: u32) -> Option<T> {
        let node = self.part(number, |entries| entries.remove_node(&number));
        // Freed outside the lock.
        Some(node.flatten()?.to_key_value().1)
    }

    /// Removes any one entry.
    pub fn pop(&self) -> Option<T> {
        let first = |entries: &mut RBTree<u32, T>| {
            let number = entries.keys().next().copied()?;
            entries.remove_node(&number)
        };
        let mut parts = self.parts.iter();
        let node = parts.find_map(|part| part.entries.with(first))?;
        Some(node.to_key_value().1)
    }
}
