// SPDX-License-Identifier: GPL-2.0

//! Simulation of a shortage of memory.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::prelude::*;

/// The number of allocations since the shortage began, from 1; 0 without one.
static ALLOCATIONS: AtomicU32 = AtomicU32::new(0);

/// A shortage of memory: as long as it is there, every other allocation for reassembly fails.
pub(crate) struct Shortage;

impl Shortage {
    pub(super) fn begin() -> Self {
        ALLOCATIONS.store(1, Ordering::Relaxed);
        Self
    }

    /// Fails every other time.
    pub(crate) fn strike() -> Result {
        match ALLOCATIONS.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => {
                ALLOCATIONS.store(number.saturating_add(1), Ordering::Relaxed);
                match number % 2 {
                    0 => Ok(()),
                    _ => Err(ENOMEM),
                }
            }
        }
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        ALLOCATIONS.store(0, Ordering::Relaxed);
    }
}
