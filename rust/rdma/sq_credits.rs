// SPDX-License-Identifier: GPL-2.0

//! SQ credits: space in a Send queue for RDMA Reads and Writes. Sends have space of their own.
//!
//! A transfer owns an [`SqPermit`], which gives its credits back when it is dropped: when the
//! requests have completed, or wherever they turn out not to be posted. The free credits are one
//! atomic number, so that this takes no lock and is allowed in any context, with the lock of the
//! Send queue held and without it. It wakes nobody. A completion drops the permit under that lock,
//! before it asks [`SendPolicy::wakes_waiter`](crate::SendPolicy::wakes_waiter); who drops one
//! elsewhere has to serve the waiters.

use crate::prelude::*;
use kernel::sync::atomic::Full;

/// The SQ credits of a queue pair.
pub struct SqCredits(Arc<Account>);

struct Account {
    free: Atomic<usize>,
    total: usize,
}

/// A number of reserved SQ credits, which come back when this is dropped. Dropping it does not
/// sleep.
pub struct SqPermit {
    /// [`None`] if there are no credits.
    account: Option<Arc<Account>>,
    credits: usize,
}

impl SqCredits {
    /// Creates `total` credits, all of them free. Sleeps.
    pub fn new(total: usize) -> Result<Self> {
        let free = Atomic::new(total);
        Ok(Self(Arc::new(Account { free, total }, GFP_KERNEL)?))
    }

    /// Returns the number of free credits.
    pub fn free(&self) -> usize {
        self.0.free.load(Relaxed)
    }

    /// Returns the number of all credits.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// Reserves `credits`, if as many are free.
    pub fn reserve(&self, credits: usize) -> Option<SqPermit> {
        if credits == 0 {
            return Some(SqPermit::EMPTY);
        }
        self.0.take(credits)?;
        Some(SqPermit {
            account: Some(self.0.clone()),
            credits,
        })
    }
}

impl SqPermit {
    /// A permit without credits.
    pub const EMPTY: Self = Self {
        account: None,
        credits: 0,
    };

    /// Returns the number of credits.
    pub fn credits(&self) -> usize {
        self.credits
    }

    /// Returns a permit for `credits` instead, for which it gives some back or reserves more. If
    /// too few are free, all come back. A permit without credits stays as it is.
    pub fn resize(mut self, credits: usize) -> Option<Self> {
        let Some(account) = &self.account else {
            return (credits == 0).then_some(self);
        };
        match self.credits.checked_sub(credits) {
            Some(excess) => account.put_back(excess),
            None => account.take(credits.saturating_sub(self.credits))?,
        }
        self.credits = credits;
        Some(self)
    }
}

impl Drop for SqPermit {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.put_back(self.credits);
        }
    }
}

impl Account {
    /// Takes `credits`, if as many are free. If too few were free, more may be by now: the caller
    /// says that it waits, and tries again.
    fn take(&self, credits: usize) -> Option<()> {
        let mut free = self.free.load(Relaxed);
        loop {
            let left = free.checked_sub(credits)?;
            match self.free.cmpxchg(free, left, Full) {
                Ok(_) => return Some(()),
                Err(now) => free = now,
            }
        }
    }

    /// A full barrier: whoever puts credits back without the lock of the Send queue looks next
    /// whether anybody waits.
    fn put_back(&self, credits: usize) {
        self.free.fetch_add(credits, Full);
    }
}
