// SPDX-License-Identifier: GPL-2.0

//! The registered memory that the peer of a queue pair may access.
//!
//! Memory that a process registered without the right to write may belong to files that it cannot
//! write. Each copy says whether it writes, and the region refuses.

#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;

use crate::prelude::*;
use core::cell::Cell;
use provider::{
    borrowed::Piece,
    driver::Regions,
    region,
    wr::Run, //
};
use rdmap::{
    atomic::Atomic,
    stag::{
        self,
        Memory, //
    }, //
};

/// The regions of a device during a round of work.
///
/// The one that was named last is kept, so the segments of a message do not look for it one by one,
/// under a lock that other connections want, too.
///
/// The order that this lock, which is always the same for a number, gave still holds. A region that
/// is deregistered meanwhile loses its number before another one can get it
/// ([`Region::has_index`](region::Region::has_index)), so the other one is found as soon as a peer
/// can name it. And whoever deregisters a region invalidates it, under the lock that each access to
/// it takes, so the kept region is used as one that a lookup just before would have returned.
pub(crate) struct RoundRegions<'a> {
    table: &'a Regions,
    last: Cell<Option<Arc<region::Region>>>,
}

impl<'a> RoundRegions<'a> {
    /// Begins a round.
    pub(crate) fn new(table: &'a Regions) -> Self {
        Self {
            table,
            last: Cell::new(None),
        }
    }

    /// Calls `f` with the region of an STag, whatever its key. [`None`] if there is none.
    fn with<R>(&self, stag: Stag, f: impl FnOnce(&region::Region) -> R) -> Option<R> {
        let index = stag.index();
        let kept = self.last.take().filter(|region| region.has_index(index));
        let region = match kept {
            Some(region) => region,
            None => self.table.with(index, Arc::clone)?,
        };
        let result = f(&region);
        self.last.set(Some(region));
        Some(result)
    }
}

/// The memory that the requests of a queue pair, and its peer, may access.
#[derive(Clone, Copy)]
pub(crate) struct RegisteredMemory<'a> {
    /// The regions of the device.
    pub(crate) regions: &'a RoundRegions<'a>,
    /// The protection domain of the queue pair.
    pub(crate) pd: region::ProtectionDomain,
    /// The access that the queue pair grants to the peer.
    pub(crate) access: region::AccessFlags,
}

impl RegisteredMemory<'_> {
    /// Calls `f` with the region of an STag, and its registration. Sleeps.
    fn with<R>(
        &self,
        stag: Stag,
        f: impl FnOnce(&region::Region, &region::Registration, stag::Region) -> Result<R, stag::Denied>,
    ) -> Result<R, stag::Denied> {
        let found = self.regions.with(stag, |region| {
            let registration = region.registration().ok_or(stag::Denied::Invalid)?;
            let view = self.view(region, &registration, stag);
            f(region, &registration, view)
        });
        found.unwrap_or(Err(stag::Denied::Invalid))
    }

    fn view(
        &self,
        region: &region::Region,
        registration: &region::Registration,
        stag: Stag,
    ) -> stag::Region {
        let access = registration.access;
        stag::Region {
            base: registration.base,
            length: registration.length,
            valid: registration.key == stag.key(),
            of_this_stream: region.pd() == self.pd,
            remote_read: access.remote_read && self.access.remote_read,
            remote_write: access.remote_write
                && self.access.remote_write
                && registration.local_write,
            remote_atomic: registration.remote_atomic && registration.local_write,
            // A region that a peer may access is one that it may invalidate, if it is of a kind
            // that may be.
            remote_invalidate: registration.remote_invalidate
                && (access.remote_read || access.remote_write || registration.remote_atomic),
        }
    }

    /// Checks the sink of a Read that this end is about to send.
    pub(crate) fn check_sink(&self, range: stag::Range) -> Result<(), stag::Denied> {
        match range.length {
            0 => Ok(()),
            _ => self.check(range, stag::Access::ReadSink),
        }
    }

    /// Calls `f` with each piece of a range that was checked. Fails if it was revoked in the
    /// meantime, or may not be accessed like this. Sleeps.
    pub(crate) fn copy(
        &self,
        range: stag::Range,
        access: region::Access,
        f: impl FnMut(Piece<'_>) -> Result,
    ) -> Result {
        let stag::Range {
            stag,
            offset,
            length,
        } = range;
        let copied = self
            .regions
            .with(stag, |region| match region.pd() == self.pd {
                true => region.access(stag.key(), offset, length, access, f),
                false => Err(ENOENT),
            });
        copied.unwrap_or(Err(ENOENT))
    }

    /// Calls `f` with the pieces of a range that was checked, which are there during the call.
    /// [`E2BIG`] if they are too many; else it fails as [`copy`](Self::copy) does. Sleeps.
    pub(crate) fn lend<R>(
        &self,
        range: stag::Range,
        access: region::Access,
        f: impl FnOnce(&region::Lent<'_>) -> R,
    ) -> Result<R> {
        let stag::Range {
            stag,
            offset,
            length,
        } = range;
        let lent = self
            .regions
            .with(stag, |region| match region.pd() == self.pd {
                true => Ok(f(&region.lend(stag.key(), offset, length, access)?)),
                false => Err(ENOENT),
            });
        lent.unwrap_or(Err(ENOENT))
    }

    /// Calls `f` with each piece of a run that a request of this end names. Fails if it is of a
    /// region that is not registered for this access. Sleeps.
    pub(crate) fn pieces(
        &self,
        run: Run<'_>,
        access: region::Access,
        mut f: impl FnMut(Piece<'_>) -> Result,
    ) -> Result {
        match run {
            Run::Local(piece) => f(piece),
            // These octets are no memory of the consumer.
            Run::Inline(_) => Err(EINVAL),
            Run::Registered {
                stag,
                offset,
                length,
            } => {
                let stag = Stag(stag);
                let range = stag::Range {
                    stag,
                    offset,
                    length,
                };
                self.copy(range, access, f)
            }
        }
    }

    /// Invalidates a region of this end. Returns false if it has no such region, or one that is
    /// registered with another key.
    pub(crate) fn invalidate_local(&self, stag: Stag) -> bool {
        // If no valid region has the STag, the peer invalidated it just now, or nobody did: both
        // leave nothing to do.
        let invalidated = self.regions.with(stag, |region| {
            region.pd() == self.pd && region.invalidate_key(stag.key())
        });
        invalidated.unwrap_or(false)
    }
}

impl Memory for RegisteredMemory<'_> {
    fn check(&self, range: stag::Range, want: stag::Access) -> Result<(), stag::Denied> {
        self.with(range.stag, |_, registration, view| {
            view.check(range.offset, range.length, want)?;
            match want {
                stag::Access::ReadSink if !registration.local_write => Err(stag::Denied::Rights),
                _ => Ok(()),
            }
        })
    }

    fn update(&self, target: stag::Range, operation: Atomic) -> Result<u64, stag::Denied> {
        self.with(target.stag, |region, _, view| {
            view.check(target.offset, target.length, stag::Access::RemoteAtomic)?;
            // It may have been invalidated since. The address is aligned like the offset, which was
            // checked: both begin at the same octet of a page.
            let updated = region.update(target.stag.key(), target.offset, |original| {
                operation.apply(original)
            });
            updated.map_err(|_| stag::Denied::Invalid)
        })
    }

    fn invalidate(&self, stag: Stag) -> Result<(), stag::Denied> {
        self.with(stag, |region, _, view| {
            view.check_invalidate()?;
            // Another queue pair may have registered it anew since, with another key: the peer does
            // not name that.
            match region.invalidate_key(stag.key()) {
                true => Ok(()),
                false => Err(stag::Denied::Invalid),
            }
        })
    }
}
