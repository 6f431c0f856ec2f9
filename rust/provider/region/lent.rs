// SPDX-License-Identifier: GPL-2.0

//! Octets of a region that are lent: whoever has them copies them without the lock of the region.
//!
//! The lock is held while they are looked up, and while they are given back, and a number under it
//! says how many have some. Whoever invalidates takes the registration away first, so that no more
//! are lent, and then waits until the number is zero. The lock orders both: who lends before that
//! is waited for, and who comes later finds no registration.

use super::{
    Access,
    Current,
    Region, //
};
use ext::borrowed::Piece;
use kernel::{
    prelude::*,
    sync::MutexGuard, //
};

/// The greatest number of pieces that are lent at a time: 64 KiB in pages of 4 KiB, the first and
/// the last of which may be parts.
const MAX_PIECES: usize = 17;

/// Octets of a region that are there until this is dropped.
///
/// Whoever has it does not invalidate the region, nor wait for somebody who does.
pub struct Lent<'r> {
    region: &'r Region,
    // INVARIANT: They are there as long as this is.
    pieces: [Option<Piece<'r>>; MAX_PIECES],
}

impl Region {
    /// Lends `length` octets from `offset`, under the conditions of [`access`](Self::access).
    /// [`E2BIG`] if they are too many pieces. Sleeps.
    pub fn lend(&self, key: u8, offset: u64, length: u32, access: Access) -> Result<Lent<'_>> {
        let mut pieces = [const { None }; MAX_PIECES];
        let mut free = pieces.iter_mut();
        let mut current = self.current.lock();
        Self::pieces(&current, key, offset, length, access, |piece| {
            // SAFETY: The octets are there as long as they are registered. `lent` is increased
            // before the lock is released, and whoever invalidates waits for `Lent` to be dropped
            // (`wait_for_lent`), so the consumer keeps them until then.
            let piece = unsafe { Piece::new(piece.address(), piece.len()) };
            *free.next().ok_or(E2BIG)? = Some(piece);
            Ok(())
        })?;
        current.lent = current.lent.checked_add(1).ok_or(EBUSY)?;
        drop(current);
        // INVARIANT: As above.
        Ok(Lent {
            region: self,
            pieces,
        })
    }

    /// Waits until all that is lent was given back. To be called without a registration. Sleeps,
    /// and releases the lock meanwhile.
    pub(super) fn wait_for_lent(&self, current: &mut MutexGuard<'_, Current>) {
        while current.lent > 0 {
            self.returned.wait(current);
        }
    }
}

impl Lent<'_> {
    /// Returns the pieces.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> + Clone {
        self.pieces.iter().map_while(|piece| *piece)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut current = self.region.current.lock();
        current.lent = current.lent.saturating_sub(1);
        if current.lent == 0 {
            self.region.returned.notify_all();
        }
    }
}
