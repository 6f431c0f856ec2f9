// SPDX-License-Identifier: GPL-2.0

//! The device's part of the responses to the commands that create objects.
//!
//! A process asks for nothing here. The library sends a key for each memory region, which is always
//! 0 and is ignored: keys are chosen at random.

use crate::ring::Slots;

/// Where a process finds a ring: the offset that it passes to `mmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// INVARIANT: At least `FIRST_PAGE` pages.
pub struct MmapOffset(u64);

impl MmapOffset {
    /// The first page to be given out. With pages of 4 KiB, the library takes the offset of the one
    /// before, 0x90000 octets, for the mark that there is no ring. With larger ones, that mark is
    /// further away.
    pub const FIRST_PAGE: u32 = 145;

    /// Returns the offset of a ring at this one. `None` if the library could take it for another.
    #[inline]
    pub fn new(octets: u64) -> Option<Self> {
        (octets >> 12 >= Self::FIRST_PAGE.into()).then_some(Self(octets))
    }
}

/// A ring of requests, as the process is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRing {
    /// The number of its slots.
    pub slots: Slots,
    /// Where it is.
    pub offset: MmapOffset,
}

/// The response to the creation of a context: a number that the library does not use.
pub const CONTEXT: [u8; 8] = [0; 8];

/// Returns the response to the registration of a region.
pub fn memory_region(stag: u32) -> [u8; 8] {
    concat(&[&stag.to_ne_bytes()])
}

/// Returns the response to the creation of a Completion Queue.
pub fn completion_queue(id: u32, ring: MappedRing) -> [u8; 16] {
    concat(&[
        &id.to_ne_bytes(),
        &ring.slots.count().to_ne_bytes(),
        &ring.offset.0.to_ne_bytes(),
    ])
}

/// Returns the response to the creation of a queue pair. It has no ring for Receives if it uses a
/// shared Receive Queue.
pub fn queue_pair(id: u32, send: MappedRing, receive: Option<MappedRing>) -> [u8; 32] {
    let (slots, offset) = receive.map_or((0, 0), |ring| (ring.slots.count(), ring.offset.0));
    concat(&[
        &id.to_ne_bytes(),
        &send.slots.count().to_ne_bytes(),
        &slots.to_ne_bytes(),
        &[0; 4],
        &send.offset.0.to_ne_bytes(),
        &offset.to_ne_bytes(),
    ])
}

/// Returns the response to the creation of a shared Receive Queue.
pub fn shared_receive_queue(ring: MappedRing) -> [u8; 16] {
    concat(&[
        &ring.slots.count().to_ne_bytes(),
        &[0; 4],
        &ring.offset.0.to_ne_bytes(),
    ])
}

/// Puts fields behind each other. Octets that none of them has are zero.
fn concat<const N: usize>(fields: &[&[u8]]) -> [u8; N] {
    let mut octets = [0; N];
    for (to, from) in octets.iter_mut().zip(fields.iter().copied().flatten()) {
        *to = *from;
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_that_means_no_ring_is_not_given_out() {
        assert_eq!(MmapOffset::new(0), None);
        assert_eq!(MmapOffset::new(0x9_0000), None);
        assert_eq!(MmapOffset::new(0x9_0fff), None);
        assert!(MmapOffset::new(0x9_1000).is_some());
        assert!(MmapOffset::new(u64::MAX).is_some());
    }

    #[test]
    fn all_offsets_that_are_given_out_are_good_with_each_size_of_page() {
        for shift in [12, 14, 16] {
            let first = u64::from(MmapOffset::FIRST_PAGE) << shift;
            assert!(first > 0x9_0000);
            assert_eq!(MmapOffset::new(first), Some(MmapOffset(first)));
        }
    }
}
