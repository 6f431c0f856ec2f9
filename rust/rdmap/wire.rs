// SPDX-License-Identifier: GPL-2.0

//! Octets on the wire: a reader that borrows, and a writer of headers of known size.
//!
//! All numbers of RFC 5040, 5041, 5043 and 5044 are big-endian. The one exception is the CRC of an
//! FPDU, which [`crate::mpa::crc`] writes itself.

/// A reader of numbers from the front of a slice. `None` means that the slice ends first.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of `octets`.
    #[inline]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Returns the octets that were not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads `N` octets.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }

    /// Reads an octet.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    /// Reads a 16-bit number.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit number.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// A header, or a message that consists of headers, of at most `N` octets. `N` is 255 at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets<const N: usize> {
    // INVARIANT: `length` is `N` at most, and the octets behind it are zero.
    octets: [u8; N],
    length: u8,
}

impl<const N: usize> Octets<N> {
    /// Creates an empty header.
    #[inline]
    pub const fn new() -> Self {
        Self {
            octets: [0; N],
            length: 0,
        }
    }

    /// Appends `field`. The caller knows the sum of its fields: one that does not fit is left out.
    #[inline]
    pub fn put<const M: usize>(&mut self, field: [u8; M]) {
        let room = self.octets.get_mut(usize::from(self.length)..);
        if let Some(room) = room.and_then(|room| room.first_chunk_mut()) {
            *room = field;
            self.grow(M);
        }
    }

    /// Appends as much of `octets` as fits.
    #[inline]
    pub fn put_slice(&mut self, octets: &[u8]) {
        let room = self
            .octets
            .get_mut(usize::from(self.length)..)
            .unwrap_or_default();
        let fit = room.len().min(octets.len());
        for (to, from) in room.iter_mut().zip(octets) {
            *to = *from;
        }
        self.grow(fit);
    }

    fn grow(&mut self, octets: usize) {
        let octets = u8::try_from(octets).unwrap_or(u8::MAX);
        self.length = self.length.saturating_add(octets);
    }

    /// Returns the appended octets.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.len()).unwrap_or_default()
    }

    /// Returns the number of appended octets.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Returns whether nothing was appended.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<const N: usize> Default for Octets<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes `octets` to the front of `out`, and returns the rest. `None` if they do not fit.
#[inline]
pub fn put<'a>(out: &'a mut [u8], octets: &[u8]) -> Option<&'a mut [u8]> {
    let (front, rest) = out.split_at_mut_checked(octets.len())?;
    for (to, from) in front.iter_mut().zip(octets) {
        *to = *from;
    }
    Some(rest)
}

/// Converts a number of octets to `usize`.
#[inline]
pub(crate) fn size(octets: u32) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_stops_at_the_end() {
        let mut reader = Reader::new(&[0, 1, 2]);
        assert_eq!(reader.u16(), Some(1));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.u8(), Some(2));
        assert_eq!(reader.u8(), None);
    }

    #[test]
    fn octets_keep_to_their_room() {
        let mut octets = Octets::<3>::new();
        octets.put([1, 2]);
        octets.put([3, 4]);
        assert_eq!(octets.as_slice(), [1, 2]);
        octets.put_slice(&[5, 6]);
        assert_eq!(octets.as_slice(), [1, 2, 5]);
    }
}
