// SPDX-License-Identifier: GPL-2.0

//! XDR (RFC 4506) over byte slices: a reader that borrows, a writer that stays inside.

use core::mem;

use crate::error::{DecodeError, Fault};

/// Returns the length rounded up to the next XDR unit: with the padding that XDR appends.
#[inline]
pub const fn roundup(length: usize) -> usize {
    length.saturating_add(padding(length))
}

/// Returns the number of padding bytes after `length` bytes.
#[inline]
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// [`padding`] for a sum of segment lengths.
#[inline]
pub const fn padding_u64(length: u64) -> u64 {
    length.wrapping_neg() & 3
}

/// [`roundup`] for a sum of segment lengths.
#[inline]
pub const fn roundup_u64(length: u64) -> u64 {
    length.saturating_add(padding_u64(length))
}

/// Returns the number of bytes, as segment lengths are summed up.
#[inline]
pub(crate) fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Reads XDR items from the front of a message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// Reads `message` from its start.
    #[inline]
    pub const fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            total: message.len(),
        }
    }

    /// Returns the offset of the next item.
    #[inline]
    pub const fn at(&self) -> usize {
        self.total.saturating_sub(self.rest.len())
    }

    /// Returns the bytes that were not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let Some((head, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error(Fault::Truncated));
        };
        self.rest = rest;
        Ok(head)
    }

    /// Reads the next `length` bytes. Returns `None` if the message ends before.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    /// Reads the next unsigned integer.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(|word| u32::from_be_bytes(*word))
    }

    /// Reads the presence word of an optional item: exactly 0 or 1 (RFC 8166, section 4.1.2).
    #[inline]
    pub fn present(&mut self) -> Result<bool, DecodeError> {
        let at = self.at();
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            word => Err(DecodeError {
                fault: Fault::Presence(word),
                at,
            }),
        }
    }

    /// Returns the error that `fault` is at the next item.
    #[inline]
    pub const fn error(&self, fault: Fault) -> DecodeError {
        DecodeError {
            fault,
            at: self.at(),
        }
    }
}

/// Returns the last unsigned integer of `message`. Padding behind it is passed over.
#[inline]
pub(crate) fn last_word(message: &[u8]) -> Option<u32> {
    let units = message.len() & !3;
    let (_, word) = message.get(..units)?.split_last_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// Returns two words as one number. A compiler stores it whole, where it stores a concatenation of
/// their bytes one by one.
#[inline]
pub(crate) fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// Returns the bytes of four words, two a number.
#[inline]
pub(crate) fn quad(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// Writes XDR items to the front of a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Appends `bytes`, if there is room.
    #[inline]
    #[must_use]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        let (head, rest) = mem::take(&mut self.rest).split_first_chunk_mut()?;
        *head = bytes;
        self.rest = rest;
        Some(())
    }

    /// Appends an unsigned integer, if there is room.
    #[inline]
    #[must_use]
    pub fn u32(&mut self, value: u32) -> Option<()> {
        self.array(value.to_be_bytes())
    }
}

/// Writes items to the front of `buffer`, and returns their length if there was room.
#[inline]
pub(crate) fn write(
    buffer: &mut [u8],
    items: impl FnOnce(&mut Writer<'_>) -> Option<()>,
) -> Option<usize> {
    let room = buffer.len();
    let mut writer = Writer { rest: buffer };
    items(&mut writer)?;
    room.checked_sub(writer.rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows S2.2.4.2-01.
    #[test]
    fn fill_reaches_the_next_unit() {
        let expected = [0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0];
        for (length, expected) in expected.into_iter().enumerate() {
            assert_eq!(padding(length), expected);
            assert_eq!(roundup(length), length + expected);
        }
    }

    #[test]
    fn reader_reports_where_it_failed() {
        let mut reader = Reader::new(&[0, 0, 0, 1, 0, 0, 0, 7, 9]);
        assert_eq!(reader.present(), Ok(true));
        assert_eq!(
            reader.clone().present(),
            Err(DecodeError {
                fault: Fault::Presence(7),
                at: 4
            })
        );
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(
            reader.u32(),
            Err(DecodeError {
                fault: Fault::Truncated,
                at: 8
            })
        );
        assert_eq!(reader.rest(), [9]);
        assert_eq!(reader.bytes(2), None);
        assert_eq!(reader.bytes(1), Some(&[9][..]));
    }

    #[test]
    fn last_word_may_have_fill_behind_it() {
        let message = [0, 0, 0, 1, 0, 0, 0, 7, 9, 9, 9];
        for length in 8..=11 {
            assert_eq!(last_word(&message[..length]), Some(7));
        }
        assert_eq!(last_word(&message[..7]), Some(1));
        assert_eq!(last_word(&message[..3]), None);
    }

    #[test]
    fn writer_stays_inside() {
        let mut buffer = [0xA5; 6];
        assert_eq!(write(&mut buffer, |writer| writer.array([1; 7])), None);
        assert_eq!(
            write(&mut buffer, |writer| writer.u32(0x0102_0304)),
            Some(4)
        );
        assert_eq!(buffer, [1, 2, 3, 4, 0xA5, 0xA5]);
        let twice = write(&mut buffer, |writer| {
            writer.u32(0x0102_0304)?;
            writer.u32(5)
        });
        assert_eq!(twice, None);
        assert_eq!(buffer, [1, 2, 3, 4, 0xA5, 0xA5]);
    }
}
