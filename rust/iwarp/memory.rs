// SPDX-License-Identifier: GPL-2.0

//! The registered memory that the peer of a queue pair may access.
//!
//! Memory that a process registered without the right to write may belong to files that it cannot
//! write. Each copy says whether it writes, and the region refuses.

use crate::prelude::*;
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

/// The memory that the requests of a queue pair, and its peer, may access.
pub(crate) struct RegisteredMemory<'a> {
    /// The regions of the device.
    pub(crate) regions: &'a Regions,
    /// The protection domain of the queue pair.
    pub(crate) pd: region::ProtectionDomain,
    /// The access that the queue pair grants to the peer.
    pub(crate) access: region::AccessFlags,
}

impl RegisteredMemory<'_> {
    /// Returns the region of an STag, whatever its key.
    pub(crate) fn region(&self, stag: Stag) -> Option<Arc<region::Region>> {
        self.regions.with(stag.index(), Arc::clone)
    }

    fn lookup(&self, stag: Stag) -> Result<(Arc<region::Region>, stag::Region), stag::Denied> {
        let region = self.region(stag).ok_or(stag::Denied::Invalid)?;
        let registration = region.registration().ok_or(stag::Denied::Invalid)?;
        let view = self.view(&region, &registration, stag);
        Ok((region, view))
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
        let region = self.region(range.stag).ok_or(ENOENT)?;
        if region.pd() != self.pd {
            return Err(ENOENT);
        }
        let stag::Range {
            stag,
            offset,
            length,
        } = range;
        region.access(stag.key(), offset, length, access, f)
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
        let Some(region) = self.region(stag) else {
            return false;
        };
        // If no valid region has the STag, the peer invalidated it just now, or nobody did: both
        // leave nothing to do.
        region.pd() == self.pd && region.invalidate_key(stag.key())
    }
}

impl Memory for RegisteredMemory<'_> {
    fn check(&self, range: stag::Range, want: stag::Access) -> Result<(), stag::Denied> {
        let region = self.region(range.stag).ok_or(stag::Denied::Invalid)?;
        let registration = region.registration().ok_or(stag::Denied::Invalid)?;
        let view = self.view(&region, &registration, range.stag);
        view.check(range.offset, range.length, want)?;
        match want {
            stag::Access::ReadSink if !registration.local_write => Err(stag::Denied::Rights),
            _ => Ok(()),
        }
    }

    fn update(&self, target: stag::Range, operation: Atomic) -> Result<u64, stag::Denied> {
        let (region, view) = self.lookup(target.stag)?;
        view.check(target.offset, target.length, stag::Access::RemoteAtomic)?;
        // It may have been invalidated since. The address is aligned like the offset, which was
        // checked: both begin at the same octet of a page.
        let updated = region.update(target.stag.key(), target.offset, |original| {
            operation.apply(original)
        });
        updated.map_err(|_| stag::Denied::Invalid)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), stag::Denied> {
        let (region, view) = self.lookup(stag)?;
        view.check_invalidate()?;
        // Another queue pair may have registered it anew since, with another key: the peer does not
        // name that.
        match region.invalidate_key(stag.key()) {
            true => Ok(()),
            false => Err(stag::Denied::Invalid),
        }
    }
}
