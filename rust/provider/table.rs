// SPDX-License-Identifier: GPL-2.0

//! A table of entries by random numbers of 24 bits, which nobody can guess.

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

/// A table of `T`. Its numbers are never 0.
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
pub struct Table<T> {
    #[pin]
    entries: IrqLock<RBTree<u32, T>>,
}

/// The number of attempts before a table counts as full.
const TRIES: usize = 64;

impl<T> Table<T> {
    /// Creates an empty table.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            entries <- new_irq_lock!(RBTree::new()),
        })
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
            let inserted = self.entries.with(|entries| {
                if number == 0 || entries.get(&number).is_some() {
                    return false;
                }
                if let (Some(reservation), Some(make)) = (reservation.take(), make.take()) {
                    entries.insert(reservation.into_node(number, make(number)));
                }
                true
            });
            if inserted {
                return Ok(number);
            }
        }
        Err(ENOSPC)
    }

    /// Calls `f` with an entry; under the lock, so `f` must not sleep. May be called in any
    /// context.
    pub fn with<R>(&self, number: u32, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.entries.with(|entries| entries.get(&number).map(f))
    }

    /// Removes an entry.
    pub fn remove(&self, number: u32) -> Option<T> {
        let node = self.entries.with(|entries| entries.remove_node(&number))?;
        // Freed outside the lock.
        Some(node.to_key_value().1)
    }

    /// Removes any one entry.
    pub fn pop(&self) -> Option<T> {
        let node = self.entries.with(|entries| {
            let number = entries.keys().next().copied()?;
            entries.remove_node(&number)
        })?;
        Some(node.to_key_value().1)
    }
}
