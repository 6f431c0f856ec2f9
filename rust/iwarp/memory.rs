// SPDX-License-Identifier: GPL-2.0

//! The registered memory that the peer of a queue pair may name.

use kernel::prelude::*;
use kernel::sync::Arc;
use provider::driver::Access as QpAccess;
use provider::driver::Regions;
use provider::memory::Piece;
use provider::region::Domain;
use provider::region::Region;
use provider::region::Registration;
use provider::wr::Run;
use rdmap::stag;
use rdmap::stag::Access;
use rdmap::stag::Denied;
use rdmap::stag::Memory;
use rdmap::stag::Range;
use rdmap::stag::Stag;

/// What the requests of a queue pair, and its peer, may access.
pub(crate) struct Registered<'a> {
    /// The regions of the device.
    pub(crate) regions: &'a Regions,
    /// The protection domain of the queue pair.
    pub(crate) domain: Domain,
    /// What the peer may do at all.
    pub(crate) access: QpAccess,
}

impl Registered<'_> {
    /// The region of an STag, whatever its key.
    pub(crate) fn region(&self, stag: Stag) -> Option<Arc<Region>> {
        self.regions.look(stag.index(), Arc::clone)
    }

    fn look(&self, stag: Stag) -> Result<(Arc<Region>, stag::Region), Denied> {
        let region = self.region(stag).ok_or(Denied::Invalid)?;
        let registration = region.registration().ok_or(Denied::Invalid)?;
        let view = self.view(&region, &registration, stag);
        Ok((region, view))
    }

    fn view(&self, region: &Region, registration: &Registration, stag: Stag) -> stag::Region {
        let rights = registration.rights;
        stag::Region {
            base: registration.base,
            length: registration.length,
            valid: registration.key == stag.key(),
            of_this_stream: region.domain() == self.domain,
            remote_read: rights.remote_read && self.access.remote_read,
            remote_write: rights.remote_write && self.access.remote_write,
            // One that a peer may access is one that it may invalidate: it is a fast registration, and which queue pair uses it
            // is the consumer's word.
            remote_invalidate: rights.remote_read || rights.remote_write,
        }
    }

    /// Calls `f` with each piece of a range that was checked. Denied if it is gone in the meantime. Sleeps.
    pub(crate) fn copy(&self, range: Range, f: impl FnMut(Piece<'_>) -> Result) -> Result {
        let region = self.region(range.stag).ok_or(ENOENT)?;
        if region.domain() != self.domain {
            return Err(ENOENT);
        }
        region.access(range.stag.key(), range.offset, range.length, f)
    }

    /// Calls `f` with each piece of a run that a request of this end names. Denied if it is of a region that is not registered. Sleeps.
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

    /// Invalidates what this end names. False if that is no region of its, or one that is registered with another key.
    pub(crate) fn invalidate_local(&self, stag: Stag) -> bool {
        let Some(region) = self.region(stag) else {
            return false;
        };
        // An STag of no region that is valid was invalidated by the peer just now, or by nobody: both leave nothing to do.
        region.domain() == self.domain && region.invalidate_key(stag.key())
    }
}

impl Memory for Registered<'_> {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        let (_, view) = self.look(range.stag)?;
        view.check(range.offset, range.length, want)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        let (region, view) = self.look(stag)?;
        view.check_invalidate()?;
        // Another queue pair may have registered it anew since, with another key: that is not what the
        // peer names.
        match region.invalidate_key(stag.key()) {
            true => Ok(()),
            false => Err(Denied::Invalid),
        }
    }
}
