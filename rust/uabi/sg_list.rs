// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists of work requests, inline data, and why a request is refused.

use crate::cqe::Status;

/// An entry of a list: a part of a memory region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// The address of the first octet, as the region has it.
    pub address: u64,
    /// The number of octets.
    pub length: u32,
    /// The local key of the region.
    pub lkey: u32,
}

impl Sge {
    /// The number of 64-bit words.
    pub const WORDS: usize = 2;

    #[inline]
    fn decode([address, word]: [u64; Self::WORDS]) -> Self {
        let (length, lkey) = halves(word);
        Self {
            address,
            length,
            lkey,
        }
    }

    /// Returns whether its octets go past the greatest address.
    fn wraps(&self) -> bool {
        // The last octet has an address, too: an entry that ends with the greatest one does not
        // wrap.
        let last = u64::from(self.length.saturating_sub(1));
        self.address.checked_add(last).is_none()
    }
}

/// The list of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SgList {
    // INVARIANT: `length` is the sum of the lengths of the first `count` entries, which do not
    // wrap. `count` is `MAX_SGE` at most, and the entries behind it are zero.
    entries: [Sge; SgList::MAX_SGE],
    count: u8,
    length: u32,
}

impl SgList {
    /// The greatest number of entries.
    pub const MAX_SGE: usize = 6;
    /// The number of 64-bit words of the list in a queue entry, used or not.
    pub const WORDS: usize = Self::MAX_SGE.saturating_mul(Sge::WORDS);

    /// Decodes a list of which `count` entries are used.
    pub(crate) fn decode(words: &[u64; Self::WORDS], count: u8) -> Result<Self, Refusal> {
        let used = usize::from(count);
        if used > Self::MAX_SGE {
            return Err(Refusal::TooManySges);
        }
        let mut list = Self {
            count,
            ..Self::default()
        };
        let mut rest = &words[..];
        for entry in list.entries.iter_mut().take(used) {
            let Some((words, behind)) = rest.split_first_chunk() else {
                break;
            };
            rest = behind;
            *entry = Sge::decode(*words);
            if entry.wraps() {
                return Err(Refusal::Wrap);
            }
            let length = list.length.checked_add(entry.length);
            list.length = length.ok_or(Refusal::TooLong)?;
        }
        Ok(list)
    }

    /// Returns the entries.
    #[inline]
    pub fn as_slice(&self) -> &[Sge] {
        self.entries
            .get(..usize::from(self.count))
            .unwrap_or_default()
    }

    /// Returns the number of octets of all entries.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Returns whether there are no octets. There may be entries without octets.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The octets of a request that has them in its queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    // INVARIANT: `length` is `MAX_LEN` at most, and the octets behind it are zero.
    octets: [u8; Inline::MAX_LEN],
    length: u8,
}

impl Inline {
    /// The greatest number of octets: they take the place of all entries of the list but the first.
    pub const MAX_LEN: usize = 80;

    /// Decodes the octets of a list whose first entry has their number.
    pub(crate) fn decode(words: &[u64; SgList::WORDS]) -> Result<Self, Refusal> {
        let [_, first, data @ ..] = words;
        let (length, _) = halves(*first);
        let length = match u8::try_from(length) {
            Ok(length) if usize::from(length) <= Self::MAX_LEN => length,
            _ => return Err(Refusal::InlineTooLong),
        };
        let mut octets = [0; Self::MAX_LEN];
        let data = data.iter().flat_map(|word| word.to_ne_bytes());
        for (to, from) in octets.iter_mut().zip(data).take(usize::from(length)) {
            *to = from;
        }
        Ok(Self { octets, length })
    }

    /// Returns the octets.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.octets
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// Returns the number of octets.
    #[inline]
    pub fn len(&self) -> u32 {
        self.length.into()
    }

    /// Returns whether there are no octets.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The reason why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The opcode is unknown, or not for processes.
    Opcode,
    /// There are more entries in the list than the format has room for.
    TooManySges,
    /// A Read has more than one entry in its list.
    ReadSges,
    /// There is more inline data than the format has room for.
    InlineTooLong,
    /// A Read has inline data.
    InlineRead,
    /// The octets of the list are more than a message can have.
    TooLong,
    /// An entry of the list goes past the greatest address.
    Wrap,
}

impl Refusal {
    /// Returns the status that the request completes with.
    #[inline]
    pub const fn status(self) -> Status {
        match self {
            Self::Opcode
            | Self::TooManySges
            | Self::ReadSges
            | Self::InlineTooLong
            | Self::InlineRead
            | Self::TooLong => Status::LocalQpOperation,
            // No region has such octets.
            Self::Wrap => Status::LocalProtection,
        }
    }
}

/// Returns the two 32-bit numbers of a word, in the order of their addresses.
#[inline]
pub(crate) const fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u64, u32)]) -> [u64; SgList::WORDS] {
        let mut words = [0x5555_5555_5555_5555; SgList::WORDS];
        for (to, (address, length)) in words.chunks_mut(2).zip(entries) {
            to.copy_from_slice(&[*address, u64::from(*length) | 7 << 32]);
        }
        words
    }

    // Shows T18.
    #[test]
    fn sums_and_ends_are_checked() {
        let half = 1 << 31;
        let most = SgList::decode(&list(&[(0, half), (0, half - 1), (9, 0)]), 3).unwrap();
        assert_eq!((most.len(), most.as_slice().len()), (u32::MAX, 3));
        let over = SgList::decode(&list(&[(0, half), (0, half)]), 2);
        assert_eq!(over, Err(Refusal::TooLong));
        let all = SgList::decode(&list(&[(0, u32::MAX); 6]), 6);
        assert_eq!(all, Err(Refusal::TooLong));
        // The greatest address belongs to the last octet.
        assert!(SgList::decode(&list(&[(u64::MAX - 9, 10)]), 1).is_ok());
        let wraps = SgList::decode(&list(&[(u64::MAX - 9, 11)]), 1);
        assert_eq!(wraps, Err(Refusal::Wrap));
        assert!(SgList::decode(&list(&[(u64::MAX, 0)]), 1).is_ok());
    }

    #[test]
    fn only_entries_that_are_used_count() {
        let words = list(&[(1, 2)]);
        let one = SgList::decode(&words, 1).unwrap();
        let sge = Sge {
            address: 1,
            length: 2,
            lkey: 7,
        };
        assert_eq!(one.as_slice(), [sge]);
        assert_eq!(one.entries[1..], [Sge::default(); 5]);
        let none = SgList::decode(&words, 0).unwrap();
        assert!(none.is_empty() && none.as_slice().is_empty());
        assert!(!one.is_empty());
    }

    #[test]
    fn seventh_entry_is_refused() {
        let words = list(&[(0, 1); 6]);
        assert_eq!(SgList::decode(&words, 6).map(|list| list.len()), Ok(6));
        for count in 7..=255 {
            assert_eq!(SgList::decode(&words, count), Err(Refusal::TooManySges));
        }
    }

    #[test]
    fn inline_data_end_with_the_entry() {
        let mut words = list(&[(0, 80)]);
        assert_eq!(Inline::decode(&words).unwrap().as_slice(), [0x55; 80]);
        words = list(&[(0, 1)]);
        let one = Inline::decode(&words).unwrap();
        assert_eq!((one.as_slice(), one.len()), (&[0x55][..], 1));
        assert_eq!(one.octets[1..], [0; 79]);
        words = list(&[(0, 0)]);
        assert!(Inline::decode(&words).unwrap().is_empty());
        for length in [81, 255, 256, 256 + 80, u32::MAX] {
            words = list(&[(0, length)]);
            assert_eq!(Inline::decode(&words), Err(Refusal::InlineTooLong));
        }
    }

    #[test]
    fn octets_that_no_region_has_are_a_protection_error() {
        assert_eq!(Refusal::Wrap.status(), Status::LocalProtection);
        for refusal in [
            Refusal::Opcode,
            Refusal::TooManySges,
            Refusal::ReadSges,
            Refusal::InlineTooLong,
            Refusal::InlineRead,
            Refusal::TooLong,
        ] {
            assert_eq!(refusal.status(), Status::LocalQpOperation);
        }
    }
}
