// SPDX-License-Identifier: GPL-2.0

//! Segments and the three chunk fields (RFC 8166, sections 3.4 and 4.3).
//!
//! The chunk fields are validated in one pass over the message and then stay where they are: the
//! views here borrow the received bytes and decode a segment when it is asked for. So a list of
//! any length costs no memory, and no later code meets a list that is not well-formed.

use crate::error::{DecodeError, Fault};
use crate::xdr::{self, Reader, Writer};

/// A region of the Requester's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Steering tag.
    pub handle: u32,
    /// Length in bytes.
    pub length: u32,
    /// Address within the region, opaque to the Responder.
    pub offset: u64,
}

/// A segment of an argument, and where the argument belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadSegment {
    /// Offset in the Call before reduction. Zero: the Call itself.
    pub position: u32,
    /// The memory.
    pub segment: Segment,
}

impl Segment {
    /// Bytes on the wire.
    pub const WIRE_LEN: usize = 16;

    #[inline]
    fn from_wire(bytes: &[u8; Self::WIRE_LEN]) -> Self {
        let [h0, h1, h2, h3, l0, l1, l2, l3, o0, o1, o2, o3, o4, o5, o6, o7] = *bytes;
        Self {
            handle: u32::from_be_bytes([h0, h1, h2, h3]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
        }
    }

    #[inline]
    fn to_wire(self) -> [u8; Self::WIRE_LEN] {
        xdr::quad(xdr::pair(self.handle, self.length), self.offset)
    }
}

impl ReadSegment {
    /// Bytes on the wire, with the presence word before it.
    pub const WIRE_LEN: usize = 24;
}

/// The number of chunks and segments that a receiver accepts.
///
/// The protocol knows no limit (RFC 8166, section 3.4.4). A receiver that holds the bytes can
/// afford all the segments in them; one that copies them into slots has only a number of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Segments in the Read list.
    pub read_segments: usize,
    /// Chunks in the Write list.
    pub write_chunks: usize,
    /// Segments in one Write chunk or in the Reply chunk.
    pub segments: usize,
}

impl Limits {
    /// As many as the message contains.
    pub const UNLIMITED: Self = Self {
        read_segments: usize::MAX,
        write_chunks: usize::MAX,
        segments: usize::MAX,
    };
}

/// The segments of one Write chunk or Reply chunk.
///
/// # Invariants
///
/// `bytes` is a whole number of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments<'a> {
    bytes: &'a [u8],
}

impl<'a> Segments<'a> {
    #[inline]
    fn parse(reader: &mut Reader<'a>, limit: usize) -> Result<Self, DecodeError> {
        let start = reader.error(Fault::TooMany);
        let count = reader.u32()?;
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(Segment::WIRE_LEN))
            .and_then(|length| reader.bytes(length));
        let Some(bytes) = bytes else {
            return Err(DecodeError {
                fault: Fault::Count(count),
                ..start
            });
        };
        // INVARIANT: `bytes` has `count` times the length of a segment.
        let chunk = Self { bytes };
        if chunk.len() > limit {
            return Err(start);
        }
        Ok(chunk)
    }

    /// Returns the number of segments.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len() / Segment::WIRE_LEN
    }

    /// Returns whether there is no segment at all: an empty chunk, which is not the same as an
    /// unused one.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the segments in order.
    #[inline]
    pub const fn iter(&self) -> SegmentIter<'a> {
        SegmentIter { bytes: self.bytes }
    }

    /// Returns the length of the chunk in bytes.
    #[inline]
    pub fn total(&self) -> u64 {
        total(self.iter())
    }
}

impl<'a> IntoIterator for Segments<'a> {
    type Item = Segment;
    type IntoIter = SegmentIter<'a>;

    #[inline]
    fn into_iter(self) -> SegmentIter<'a> {
        self.iter()
    }
}

/// Returns the sum of the lengths of `segments`, in 64 bits because two segments can exceed 32.
#[inline]
pub fn total(segments: impl Iterator<Item = Segment>) -> u64 {
    segments.fold(0, |sum: u64, segment| {
        sum.saturating_add(u64::from(segment.length))
    })
}

/// Returns the part of `segments` that has `length` bytes from `from` on.
pub fn slice(
    segments: impl Iterator<Item = Segment>,
    from: u64,
    length: u64,
) -> impl Iterator<Item = Segment> {
    segments
        .scan((from, length), |(skip, left), segment| {
            let total = u64::from(segment.length);
            let skipped = total.min(*skip);
            *skip = skip.saturating_sub(skipped);
            let taken = total.saturating_sub(skipped).min(*left);
            *left = left.saturating_sub(taken);
            Some(Segment {
                length: u32::try_from(taken).unwrap_or(u32::MAX),
                offset: segment.offset.wrapping_add(skipped),
                ..segment
            })
        })
        .filter(|segment| segment.length > 0)
}

/// Iterator over [`Segments`].
#[derive(Clone, Debug)]
pub struct SegmentIter<'a> {
    bytes: &'a [u8],
}

impl Iterator for SegmentIter<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(Segment::from_wire(head))
    }
}

/// The Read list: reduced arguments, as one flat list of segments to RDMA Read.
///
/// # Invariants
///
/// `bytes` is a whole number of entries, each a presence word of 1 and a read segment, and each
/// Position is a multiple of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadList<'a> {
    bytes: &'a [u8],
}

impl<'a> ReadList<'a> {
    #[inline]
    fn parse(reader: &mut Reader<'a>, limit: usize) -> Result<Self, DecodeError> {
        let mut entries = reader.clone();
        let mut count: usize = 0;
        while reader.present()? {
            if count >= limit {
                return Err(reader.error(Fault::TooMany));
            }
            count = count.saturating_add(1);
            let start = reader.clone();
            let position = reader.u32()?;
            if position & 3 != 0 {
                return Err(start.error(Fault::Position(position)));
            }
            reader.array::<{ Segment::WIRE_LEN }>()?;
        }
        // INVARIANT: the loop read `count` entries, and checked each Position.
        let bytes = entries
            .bytes(count.saturating_mul(ReadSegment::WIRE_LEN))
            .unwrap_or_default();
        Ok(Self { bytes })
    }

    /// Returns the number of segments.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes.len() / ReadSegment::WIRE_LEN
    }

    /// Returns whether there is no Read chunk.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the segments in the order of the list.
    #[inline]
    pub const fn iter(&self) -> ReadIter<'a> {
        ReadIter { bytes: self.bytes }
    }

    /// Returns the segments of the chunk at `position`, in order. They need not be neighbours in
    /// the list.
    #[inline]
    pub fn chunk(&self, position: u32) -> impl Iterator<Item = Segment> + Clone + 'a {
        self.iter()
            .filter(move |read| read.position == position)
            .map(|read| read.segment)
    }

    /// Returns whether there are more than `MOST` Positions, that of an empty segment and zero
    /// included.
    ///
    /// It ends with the first that is too many. Each segment costs `MOST` comparisons at the most.
    #[inline]
    pub(crate) fn has_more_positions_than<const MOST: usize>(&self) -> bool {
        if self.len() <= MOST {
            return false;
        }
        let mut known = [None; MOST];
        for ReadSegment { position, .. } in self.iter() {
            let slot = known
                .iter_mut()
                .find(|slot| slot.is_none_or(|known| known == position));
            let Some(slot) = slot else {
                return true;
            };
            *slot = Some(position);
        }
        false
    }

    /// Returns the smallest Position in the list that is greater than `position`.
    #[inline]
    pub fn position_after(&self, position: u32) -> Option<u32> {
        self.iter()
            .map(|read| read.position)
            .filter(|next| *next > position)
            .min()
    }
}

impl<'a> IntoIterator for ReadList<'a> {
    type Item = ReadSegment;
    type IntoIter = ReadIter<'a>;

    #[inline]
    fn into_iter(self) -> ReadIter<'a> {
        self.iter()
    }
}

/// Iterator over a [`ReadList`].
#[derive(Clone, Debug)]
pub struct ReadIter<'a> {
    bytes: &'a [u8],
}

impl Iterator for ReadIter<'_> {
    type Item = ReadSegment;

    #[inline]
    fn next(&mut self) -> Option<ReadSegment> {
        let (_presence, rest) = self.bytes.split_first_chunk::<4>()?;
        let (position, rest) = rest.split_first_chunk()?;
        let (segment, rest) = rest.split_first_chunk()?;
        self.bytes = rest;
        Some(ReadSegment {
            position: u32::from_be_bytes(*position),
            segment: Segment::from_wire(segment),
        })
    }
}

/// The Write list: chunks for results, in the order of the results.
///
/// # Invariants
///
/// `bytes` holds `chunks` entries, each a presence word of 1, a count and as many segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteList<'a> {
    bytes: &'a [u8],
    chunks: usize,
}

impl<'a> WriteList<'a> {
    #[inline]
    fn parse(reader: &mut Reader<'a>, limits: &Limits) -> Result<Self, DecodeError> {
        let mut entries = reader.clone();
        let mut chunks: usize = 0;
        let mut length: usize = 0;
        while reader.present()? {
            if chunks >= limits.write_chunks {
                return Err(reader.error(Fault::TooMany));
            }
            chunks = chunks.saturating_add(1);
            let chunk = Segments::parse(reader, limits.segments)?;
            length = length.saturating_add(chunk.bytes.len()).saturating_add(8);
        }
        // INVARIANT: the loop read `chunks` entries of `length` bytes together.
        let bytes = entries.bytes(length).unwrap_or_default();
        Ok(Self { bytes, chunks })
    }

    /// Returns the number of chunks, empty ones included.
    #[inline]
    pub const fn len(&self) -> usize {
        self.chunks
    }

    /// Returns whether there is no chunk, not even an empty one.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.chunks == 0
    }

    /// Returns the number of bytes on the wire, without the word that ends the list.
    #[inline]
    pub const fn wire_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the chunks in order.
    #[inline]
    pub const fn iter(&self) -> WriteIter<'a> {
        WriteIter {
            reader: Reader::new(self.bytes),
        }
    }
}

impl<'a> IntoIterator for WriteList<'a> {
    type Item = Segments<'a>;
    type IntoIter = WriteIter<'a>;

    #[inline]
    fn into_iter(self) -> WriteIter<'a> {
        self.iter()
    }
}

/// Iterator over a [`WriteList`].
#[derive(Clone, Debug)]
pub struct WriteIter<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for WriteIter<'a> {
    type Item = Segments<'a>;

    #[inline]
    fn next(&mut self) -> Option<Segments<'a>> {
        self.reader.u32().ok()?;
        Segments::parse(&mut self.reader, usize::MAX).ok()
    }
}

/// The three chunk fields of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists<'a> {
    /// Read chunks: reduced arguments, or the whole Call.
    pub read: ReadList<'a>,
    /// Chunks for results.
    pub write: WriteList<'a>,
    /// The chunk for the whole reply.
    pub reply: Option<Segments<'a>>,
}

impl<'a> Lists<'a> {
    /// Validates the chunk fields at the front of `reader`, in one pass.
    pub fn parse(reader: &mut Reader<'a>, limits: &Limits) -> Result<Self, DecodeError> {
        // Most messages have none, which one comparison tells.
        if reader.rest().starts_with(&[0; 12]) {
            reader.bytes(12);
            return Ok(Self::default());
        }
        let read = ReadList::parse(reader, limits.read_segments)?;
        let write = WriteList::parse(reader, limits)?;
        let reply = if reader.present()? {
            Some(Segments::parse(reader, limits.segments)?)
        } else {
            None
        };
        Ok(Self { read, write, reply })
    }

    /// Returns whether all three fields are empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.reply.is_none()
    }

    /// Returns the lengths that [`ListLengths::lists`] needs.
    pub(crate) fn lengths(&self) -> ListLengths {
        ListLengths {
            read: self.read.bytes.len(),
            write: self.write.bytes.len(),
            write_chunks: self.write.chunks,
            reply: self.reply.map(|chunk| chunk.bytes.len()),
        }
    }
}

/// The lengths of the chunk fields of a message in bytes, but for the words that end a list, say
/// whether there is a Reply chunk, or count segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListLengths {
    read: usize,
    write: usize,
    write_chunks: usize,
    reply: Option<usize>,
}

impl ListLengths {
    /// Returns the chunk fields at the front of `reader`, which [`Lists::parse`] found there, with
    /// these lengths. [`None`] if there are fewer bytes.
    pub(crate) fn lists<'a>(&self, reader: &mut Reader<'a>) -> Option<Lists<'a>> {
        const WORD: usize = 4;
        // INVARIANT: `Lists::parse` made the lengths from these bytes, and found them to be such
        // entries.
        let read = ReadList {
            bytes: reader.bytes(self.read)?,
        };
        // The end of the list.
        reader.bytes(WORD)?;
        let write = WriteList {
            bytes: reader.bytes(self.write)?,
            chunks: self.write_chunks,
        };
        // The end of the list, and whether there is a Reply chunk.
        reader.bytes(2 * WORD)?;
        let reply = match self.reply {
            Some(length) => {
                // The number of segments.
                reader.bytes(WORD)?;
                Some(Segments {
                    bytes: reader.bytes(length)?,
                })
            }
            None => None,
        };
        Some(Lists { read, write, reply })
    }
}

/// Appends one read segment with its presence word.
#[inline]
pub(crate) fn emit_read(writer: &mut Writer<'_>, read: &ReadSegment) -> Option<()> {
    writer.array(xdr::pair(1, read.position).to_be_bytes())?;
    writer.array(read.segment.to_wire())
}

/// Appends a presence word and a counted array of segments.
#[inline]
pub(crate) fn emit_chunk(
    writer: &mut Writer<'_>,
    count: usize,
    segments: impl Iterator<Item = Segment>,
) -> Option<()> {
    let count = u32::try_from(count).ok()?;
    writer.array(xdr::pair(1, count).to_be_bytes())?;
    for segment in segments {
        writer.array(segment.to_wire())?;
    }
    Some(())
}

/// Returns the number of bytes on the wire of a counted array of `count` segments.
#[inline]
pub(crate) const fn chunk_len(count: usize) -> usize {
    count.saturating_mul(Segment::WIRE_LEN).saturating_add(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a list with these Positions has more than three of them.
    fn more_than_three(positions: &[u32]) -> bool {
        let mut bytes = Vec::new();
        for position in positions {
            bytes.extend([1, *position, 7, 0, 0, 0].map(u32::to_be_bytes).concat());
        }
        bytes.extend([0; 12]);
        let lists = Lists::parse(&mut Reader::new(&bytes), &Limits::UNLIMITED).unwrap();
        lists.read.has_more_positions_than::<3>()
    }

    #[test]
    fn same_position_counts_once_wherever_it_comes_again() {
        assert!(!more_than_three(&[]));
        assert!(!more_than_three(&[8, 4, 0]));
        assert!(!more_than_three(&[0, 4, 0, 8, 4, 4, 0, 8]));
        assert!(more_than_three(&[0, 4, 8, 12]));
        assert!(more_than_three(&[4, 4, 0, 8, 8, 12, 4]));
        assert!(more_than_three(&[16, 12, 8, 4]));
    }

    #[test]
    fn slice_starts_and_ends_inside_segments() {
        let segment = |handle, length| Segment {
            handle,
            length,
            offset: 1 << 32,
        };
        let segments = [segment(1, 10), segment(2, 0), segment(3, 20), segment(4, 5)];
        let sliced = |from, length| -> Vec<_> {
            slice(segments.iter().copied(), from, length)
                .map(|part| (part.handle, part.offset - (1 << 32), part.length))
                .collect()
        };
        assert_eq!(sliced(0, 35), [(1, 0, 10), (3, 0, 20), (4, 0, 5)]);
        assert_eq!(sliced(4, 8), [(1, 4, 6), (3, 0, 2)]);
        assert_eq!(sliced(10, 20), [(3, 0, 20)]);
        assert_eq!(sliced(13, 4), [(3, 3, 4)]);
        assert_eq!(sliced(29, u64::MAX), [(3, 19, 1), (4, 0, 5)]);
        assert_eq!(sliced(5, 0), []);
        assert_eq!(sliced(35, 1), []);
    }
}
