// SPDX-License-Identifier: GPL-2.0

//! The registered memory that the peer of a queue pair may access.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use provider::{
    borrowed::Piece,
    driver::Regions,
    region::{
        AccessFlags,
        ProtectionDomain,
        Region,
        Registration, //
    },
    wr::Run, //
};
use rdmap::stag::{
    self,
    Access,
    Denied,
    Memory,
    Range,
    Stag, //
};

/// The memory that the requests of a queue pair, and its peer, may access.
pub(crate) struct RegisteredMemory<'a> {
    /// The regions of the device.
    pub(crate) regions: &'a Regions,
    /// The protection domain of the queue pair.
    pub(crate) pd: ProtectionDomain,
    /// The access that the queue pair grants to the peer.
    pub(crate) access: AccessFlags,
}

impl RegisteredMemory<'_> {
    /// Returns the region of an STag, whatever its key.
    pub(crate) fn region(&self, stag: Stag) -> Option<Arc<Region>> {
        self.regions.with(stag.index(), Arc::clone)
    }

    fn lookup(&self, stag: Stag) -> Result<(Arc<Region>, stag::Region), Denied> {
        let region = self.region(stag).ok_or(Denied::Invalid)?;
        let registration = region.registration().ok_or(Denied::Invalid)?;
        let view = self.view(&region, &registration, stag);
        Ok((region, view))
    }

    fn view(&self, region: &Region, registration: &Registration, stag: Stag) -> stag::Region {
        let access = registration.access;
        stag::Region {
            base: registration.base,
            length: registration.length,
            valid: registration.key == stag.key(),
            of_this_stream: region.pd() == self.pd,
            remote_read: access.remote_read && self.access.remote_read,
            remote_write: access.remote_write && self.access.remote_write,
            // A region that a peer may access is one that it may invalidate: it is a fast
            // registration, and the consumer decides which queue pair uses it.
            remote_invalidate: access.remote_read || access.remote_write,
        }
    }

    /// Calls `f` with each piece of a range that was checked. Fails if it was revoked in the
    /// meantime. Sleeps.
    pub(crate) fn copy(&self, range: Range, f: impl FnMut(Piece<'_>) -> Result) -> Result {
        let region = self.region(range.stag).ok_or(ENOENT)?;
        if region.pd() != self.pd {
            return Err(ENOENT);
        }
        region.access(range.stag.key(), range.offset, range.length, f)
    }

    /// Calls `f` with each piece of a run that a request of this end names. Fails if it is of a
    /// region that is not registered. Sleeps.
    pub(crate) fn pieces(&self, run: Run<'_>, mut f: impl FnMut(Piece<'_>) -> Result) -> Result {
        match run {
            Run::Local(piece) => f(piece),
            Run::Registered {
                stag,
                offset,
                length,
            } => {
                let stag = Stag(stag);
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                self.copy(range, f)
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
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        let (_, view) = self.lookup(range.stag)?;
        view.check(range.offset, range.length, want)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        let (region, view) = self.lookup(stag)?;
        view.check_invalidate()?;
        // Another queue pair may have registered it anew since, with another key: the peer does not
        // name that.
        match region.invalidate_key(stag.key()) {
            true => Ok(()),
            false => Err(Denied::Invalid),
        }
    }
}
