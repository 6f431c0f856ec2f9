// SPDX-License-Identifier: GPL-2.0

//! The registered memory of one end.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rdmap::atomic::Atomic;
use rdmap::stag::{Access, Denied, Memory, Range, Region, Stag};

use super::planted::Bug;

struct Registered {
    region: Region,
    octets: Vec<u8>,
}

/// The registered regions.
pub struct Regions {
    regions: RefCell<BTreeMap<Stag, Registered>>,
    bug: Option<Bug>,
}

impl Regions {
    /// Creates an empty set.
    pub fn new(bug: Option<Bug>) -> Self {
        Self {
            regions: RefCell::default(),
            bug,
        }
    }

    /// Registers memory.
    pub fn register(&self, stag: Stag, region: Region, octets: Vec<u8>) {
        assert_eq!(region.length, u64::try_from(octets.len()).unwrap());
        let registered = Registered { region, octets };
        let before = self.regions.borrow_mut().insert(stag, registered);
        assert!(before.is_none());
    }

    fn place(region: &Region, range: Range) -> std::ops::Range<usize> {
        let first = usize::try_from(range.offset - region.base).unwrap();
        first..first + usize::try_from(range.length).unwrap()
    }

    /// Writes octets that arrived to their destination.
    pub fn write(&self, range: Range, want: Access, octets: &[u8]) {
        let mut regions = self.regions.borrow_mut();
        let found = regions.get_mut(&range.stag).expect("a place that is there");
        let allowed = found.region.check(range.offset, range.length, want);
        assert_eq!(allowed, Ok(()), "{range:?}");
        found.octets[Self::place(&found.region, range)].copy_from_slice(octets);
    }

    /// Returns the octets of a range, whether its region is valid or not.
    pub fn read(&self, range: Range) -> Vec<u8> {
        let regions = self.regions.borrow();
        let found = &regions[&range.stag];
        found.octets[Self::place(&found.region, range)].to_vec()
    }

    /// Returns the length of a region in octets.
    pub fn length(&self, stag: Stag) -> u64 {
        self.regions.borrow()[&stag].region.length
    }

    /// Returns whether a region is valid.
    pub fn is_valid(&self, stag: Stag) -> bool {
        self.regions.borrow()[&stag].region.valid
    }
}

impl Memory for Regions {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        assert!(range.length > 0, "nothing is asked of no octets");
        let regions = self.regions.borrow();
        let found = regions.get(&range.stag).ok_or(Denied::Invalid)?;
        let want = match self.bug {
            Some(Bug::RightsIgnored) => Access::ReadSink,
            _ => want,
        };
        found.region.check(range.offset, range.length, want)
    }

    fn update(&self, target: Range, operation: Atomic) -> Result<u64, Denied> {
        let mut regions = self.regions.borrow_mut();
        let found = regions.get_mut(&target.stag).ok_or(Denied::Invalid)?;
        let allowed = found
            .region
            .check(target.offset, target.length, Access::RemoteAtomic);
        allowed?;
        let octets = &mut found.octets[Self::place(&found.region, target)];
        let original = u64::from_ne_bytes((&*octets).try_into().unwrap());
        let mut value = operation.apply(original);
        if self.bug == Some(Bug::AtomicTwice) {
            value = operation.apply(value);
        }
        octets.copy_from_slice(&value.to_ne_bytes());
        Ok(original)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        let mut regions = self.regions.borrow_mut();
        let found = regions.get_mut(&stag).ok_or(Denied::Invalid)?;
        found.region.check_invalidate()?;
        found.region.valid = self.bug == Some(Bug::StagStaysValid);
        Ok(())
    }
}
