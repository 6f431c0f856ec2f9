// SPDX-License-Identifier: GPL-2.0

//! Steering Tags, and the order in which access to registered memory is checked.
//!
//! RFC 5041, section 7.1, and RFC 5040, section 7.2, demand the same checks of every access by a
//! peer: the STag is valid, it belongs to this stream, the range does not wrap and lies inside, the
//! right is granted. The first failure determines the Terminate code, so the order of the checks is
//! fixed: wrap before bounds (RFC 5040, section 7.2, 4e), rights last.
//!
//! A [`Region`] is a snapshot of a registration. An implementor of [`Memory`] looks it up, lets it
//! [check](Region::check), and guarantees that an allowed access is not revoked until the octets
//! are placed, as [`Memory::check`] says.

use crate::atomic::Atomic;

/// A Steering Tag. Verbs give its low eight bits, the key, to the consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stag(pub u32);

impl Stag {
    /// Creates the STag of `index`, of which 24 bits count, and `key`.
    #[inline]
    pub const fn new(index: u32, key: u8) -> Self {
        let [_, a, b, c] = index.to_be_bytes();
        Self(u32::from_be_bytes([a, b, c, key]))
    }

    /// Returns the index, of 24 bits.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// Returns the key.
    #[inline]
    pub const fn key(self) -> u8 {
        let [_, _, _, key] = self.0.to_be_bytes();
        key
    }
}

/// The kind of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The peer reads it: an RDMA Read Request.
    RemoteRead,
    /// The peer writes it: an RDMA Write.
    RemoteWrite,
    /// The peer changes it: an Atomic Request.
    RemoteAtomic,
    /// The peer writes it on request of this end: an RDMA Read Response. The outstanding Read is
    /// the right to do so.
    ReadSink,
}

/// The reason why an access is denied, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Nothing valid has this STag.
    Invalid,
    /// The STag belongs to another stream, or another Protection Domain.
    Stream,
    /// The range exceeds the greatest Tagged Offset.
    Wrap,
    /// The range is not completely inside the region.
    Bounds,
    /// The region does not grant this access.
    Rights,
    /// The region may be used, but not invalidated by a peer: several streams share it, or it is no
    /// fast registration.
    Shared,
}

/// A range of registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The STag that names the memory.
    pub stag: Stag,
    /// Tagged Offset of the first octet.
    pub offset: u64,
    /// Number of octets.
    pub length: u32,
}

impl Range {
    /// Returns whether octets with this STag and Tagged Offset could belong to either range. An
    /// empty range is at its offset: at the end of another one, it overlaps that.
    pub fn overlaps(self, other: Self) -> bool {
        let begins_in = |range: Self, outer: Self| {
            let distance = range.offset.wrapping_sub(outer.offset);
            let length = u64::from(outer.length);
            let at_end = range.length == 0 || outer.length == 0;
            distance < length || distance == length && at_end
        };
        self.stag == other.stag && (begins_in(self, other) || begins_in(other, self))
    }
}

/// A registration, as a check sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Tagged Offset of its first octet.
    pub base: u64,
    /// Number of octets.
    pub length: u64,
    /// It is registered and was not invalidated.
    pub valid: bool,
    /// Its Protection Domain is that of the stream.
    pub of_this_stream: bool,
    /// A peer may read it.
    pub remote_read: bool,
    /// A peer may write it.
    pub remote_write: bool,
    /// A peer may carry out atomic operations on it.
    pub remote_atomic: bool,
    /// A peer may invalidate it: a fast registration that this stream alone uses (RFC 5040, section
    /// 8.1.1).
    pub remote_invalidate: bool,
}

impl Region {
    /// Checks an access to `length` octets, at least one.
    pub fn check(&self, offset: u64, length: u32, want: Access) -> Result<(), Denied> {
        if !self.valid {
            return Err(Denied::Invalid);
        }
        if !self.of_this_stream {
            return Err(Denied::Stream);
        }
        // The last octet has an offset, too: a range that ends with the greatest offset does not
        // wrap.
        let last = u64::from(length.saturating_sub(1));
        let Some(last) = offset.checked_add(last) else {
            return Err(Denied::Wrap);
        };
        let (Some(first), Some(last)) =
            (offset.checked_sub(self.base), last.checked_sub(self.base))
        else {
            return Err(Denied::Bounds);
        };
        if first >= self.length || last >= self.length {
            return Err(Denied::Bounds);
        }
        let granted = match want {
            Access::RemoteRead => self.remote_read,
            Access::RemoteWrite => self.remote_write,
            Access::RemoteAtomic => self.remote_atomic,
            Access::ReadSink => true,
        };
        match granted {
            true => Ok(()),
            false => Err(Denied::Rights),
        }
    }

    /// Checks whether a Send of the peer may invalidate it.
    pub fn check_invalidate(&self) -> Result<(), Denied> {
        match self {
            Self { valid: false, .. } => Err(Denied::Invalid),
            Self {
                of_this_stream: false,
                ..
            } => Err(Denied::Stream),
            Self {
                remote_invalidate: false,
                ..
            } => Err(Denied::Shared),
            _ => Ok(()),
        }
    }
}

/// The registered memory of one stream.
///
/// No method is called for zero octets: RFC 5040, section 5.2.1, forbids it for Reads, and RFC
/// 5041, section 5.2, has no check for a zero-length tagged message.
pub trait Memory {
    /// Allows or denies an access, with [`Region::check`].
    ///
    /// This takes no reference: a message can be checked and then not be used, and it is checked
    /// more than once. The caller of [`RxHalf::segment`](crate::rx::RxHalf::segment) or
    /// [`TxHalf::peek`](crate::tx::TxHalf::peek) pins the memory of the returned
    /// [`Placement`](crate::rx::Placement) or [`Payload`](crate::tx::Payload) under the same lock
    /// under which it was checked, and invalidation waits until it is unpinned.
    fn check(&self, range: Range, want: Access) -> Result<(), Denied>;

    /// Carries out an atomic operation of the peer on [eight octets](Atomic::LEN), atomically to
    /// everything else that this machine does to them, or denies it: the access is checked once
    /// more, with it. Returns the value before the operation.
    fn update(&self, target: Range, operation: Atomic) -> Result<u64, Denied>;

    /// Invalidates `stag` on delivery of a Send with Invalidate, or denies that, with
    /// [`Region::check_invalidate`].
    fn invalidate(&self, stag: Stag) -> Result<(), Denied>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        base: 0x1000,
        length: 0x100,
        valid: true,
        of_this_stream: true,
        remote_read: true,
        remote_write: false,
        remote_atomic: false,
        remote_invalidate: false,
    };

    #[test]
    fn stag_is_index_and_key() {
        let stag = Stag::new(0x00ab_cdef, 0x12);
        assert_eq!(stag, Stag(0xabcd_ef12));
        assert_eq!((stag.index(), stag.key()), (0x00ab_cdef, 0x12));
        assert_eq!(Stag::new(0xffab_cdef, 0x12), stag);
    }

    #[test]
    fn ranges_overlap_where_octets_could_be_of_either() {
        let range = |stag, offset, length| Range {
            stag: Stag(stag),
            offset,
            length,
        };
        let ten = range(1, 100, 10);
        let with = |offset, length| {
            let other = range(1, offset, length);
            assert_eq!(ten.overlaps(other), other.overlaps(ten));
            ten.overlaps(other)
        };
        assert!(with(100, 10) && with(109, 1) && with(91, 10) && with(0, 1000) && with(105, 1));
        assert!(!with(110, 10) && !with(90, 10));
        // An empty segment at either end could be the last one of both.
        assert!(with(110, 0) && with(100, 0) && with(105, 0));
        assert!(!with(111, 0) && !with(99, 0));
        assert!(!ten.overlaps(range(2, 100, 10)));
        // Offsets wrap.
        let highest = range(1, u64::MAX - 1, 4);
        assert!(highest.overlaps(range(1, 1, 1)) && !highest.overlaps(range(1, 2, 1)));
    }

    // Shows P8.1.1-3.
    #[test]
    fn first_and_last_octet_are_inside() {
        assert_eq!(REGION.check(0x1000, 0x100, Access::RemoteRead), Ok(()));
        assert_eq!(REGION.check(0x10ff, 1, Access::RemoteRead), Ok(()));
        let outside = [(0xfff, 1), (0x1100, 1), (0x1000, 0x101), (0x10ff, 2)];
        for (offset, length) in outside {
            assert_eq!(
                REGION.check(offset, length, Access::RemoteRead),
                Err(Denied::Bounds)
            );
        }
    }

    // Shows P7.2-7e.
    #[test]
    fn wrap_is_found_before_bounds() {
        let wrap = REGION.check(u64::MAX, 2, Access::RemoteRead);
        assert_eq!(wrap, Err(Denied::Wrap));
        let no_wrap = REGION.check(u64::MAX, 1, Access::RemoteRead);
        assert_eq!(no_wrap, Err(Denied::Bounds));
        let whole = Region {
            base: 0,
            length: u64::MAX,
            ..REGION
        };
        assert_eq!(whole.check(u64::MAX - 1, 1, Access::RemoteRead), Ok(()));
    }

    // Shows P7.2-7f.
    #[test]
    fn rights_are_asked_for_last() {
        assert_eq!(
            REGION.check(0x1000, 1, Access::RemoteWrite),
            Err(Denied::Rights)
        );
        assert_eq!(REGION.check(0, 1, Access::RemoteWrite), Err(Denied::Bounds));
        assert_eq!(
            REGION.check(0x1000, 8, Access::RemoteAtomic),
            Err(Denied::Rights)
        );
        let atomic = Region {
            remote_read: false,
            remote_atomic: true,
            ..REGION
        };
        assert_eq!(atomic.check(0x1000, 8, Access::RemoteAtomic), Ok(()));
        assert_eq!(
            atomic.check(0x1000, 8, Access::RemoteRead),
            Err(Denied::Rights)
        );
        assert_eq!(REGION.check(0x1000, 1, Access::ReadSink), Ok(()));
    }

    /// Octets, STag, rights and stream, which enabling conveys; and its revocation.
    // Shows P3.2-6.
    #[test]
    fn each_part_of_a_registration_decides() {
        let allows = |region: Region| region.check(0x1000, 0x100, Access::RemoteRead).is_ok();
        assert!(allows(REGION));
        type Change = fn(&mut Region);
        let changes: [Change; 5] = [
            |region| region.base += 1,
            |region| region.length -= 1,
            |region| region.valid = false,
            |region| region.of_this_stream = false,
            |region| region.remote_read = false,
        ];
        for change in changes {
            let mut region = REGION;
            change(&mut region);
            assert!(!allows(region), "{region:?}");
        }
    }

    // Shows P7.2-7a, P7.2-7b, P8.1.1-1, P8.1.1-2, P8.1.1-7.
    #[test]
    fn invalid_comes_before_foreign() {
        let foreign = Region {
            of_this_stream: false,
            remote_invalidate: true,
            ..REGION
        };
        let dead = Region {
            valid: false,
            ..foreign
        };
        assert_eq!(dead.check(0, 1, Access::RemoteRead), Err(Denied::Invalid));
        assert_eq!(foreign.check(0, 1, Access::RemoteRead), Err(Denied::Stream));
        assert_eq!(dead.check_invalidate(), Err(Denied::Invalid));
        assert_eq!(foreign.check_invalidate(), Err(Denied::Stream));
        assert_eq!(REGION.check_invalidate(), Err(Denied::Shared));
        let single = Region {
            remote_invalidate: true,
            ..REGION
        };
        assert_eq!(single.check_invalidate(), Ok(()));
    }
}
