// SPDX-License-Identifier: GPL-2.0

//! Reduction of a reply: which bytes go to Write chunks, and which stay inline (RFC 8166, section
//! 3.4.6).
//!
//! The reply is there as the upper layer encoded it, with its results in it. In their order each
//! eligible result is [placed](ReducedReply::place). The remaining bytes are the message, without
//! the results that went to chunks and without the padding behind them.

use core::iter;
use core::ops::Range;

use crate::call::Call;
use crate::error::Misuse;
use crate::reply_builder::{Destination, Placement, Unreturnable};
use crate::xdr;

/// The distribution of a reply over message and Write chunks.
///
/// # Invariants
///
/// The results in chunks, each with its padding, follow each other in the order of their chunks, do
/// not overlap and end before `total`.
#[derive(Clone, Debug)]
pub struct ReducedReply<'a, const CHUNKS: usize> {
    placement: Placement<'a>,
    /// The number of bytes in each chunk, and their offsets in the reply.
    written: [u64; CHUNKS],
    starts: [usize; CHUNKS],
    /// The number of chunks, from the first, that may be used.
    used: usize,
    /// The end of the last reduced result, with its padding.
    end: usize,
    /// Length of the reply, and of what stays in the message.
    total: usize,
    rest: usize,
}

impl<'a, const CHUNKS: usize> ReducedReply<'a, CHUNKS> {
    /// Begins a reply of `total` bytes to `call`, which has no more than `CHUNKS` Write chunks. For
    /// `reduction` see [`Placement::new`].
    pub fn new(call: &Call<'a>, reduction: bool, total: usize) -> Self {
        // INVARIANT: Nothing is in a chunk.
        Self {
            placement: Placement::new(call, reduction),
            written: [0; CHUNKS],
            starts: [0; CHUNKS],
            used: 0,
            end: 0,
            total,
            rest: total,
        }
    }

    /// Places the next eligible result, whose bytes these are.
    pub fn place(&mut self, result: Range<usize>) -> Result<(), Unreturnable> {
        let length = result.end.saturating_sub(result.start);
        let written = u64::try_from(length).unwrap_or(u64::MAX);
        let Destination::Chunk { index, .. } = self.placement.place(written)? else {
            return Ok(());
        };
        let end = result.start.saturating_add(xdr::roundup(length));
        let entry = self.written.get_mut(index).zip(self.starts.get_mut(index));
        let (at, start) = entry.ok_or(Misuse::Sizes)?;
        if result.start < self.end || end > self.total {
            return Err(Misuse::Sizes.into());
        }
        // INVARIANT: Just compared; a placement goes through the chunks in their order.
        *at = written;
        *start = result.start;
        self.used = index.saturating_add(1);
        self.end = end;
        self.rest = self.rest.saturating_sub(xdr::roundup(length));
        Ok(())
    }

    /// Passes over a Write chunk. See [`Placement::skip`].
    pub fn skip(&mut self) {
        self.placement.skip();
    }

    /// Returns the number of bytes in each Write chunk, as
    /// [`ReplyBuilder::new`](crate::reply_builder::ReplyBuilder::new) expects it.
    pub fn written(&self) -> &[u64] {
        self.written.get(..self.used).unwrap_or(&[])
    }

    /// Returns the length of the message.
    pub fn rest(&self) -> usize {
        self.rest
    }

    /// Returns the results in chunks, and the chunk of each.
    pub fn reduced(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        (0..self.used).filter_map(|index| {
            let length = usize::try_from(*self.written.get(index)?).unwrap_or(usize::MAX);
            let start = *self.starts.get(index)?;
            (length != 0).then(|| (index, start..start.saturating_add(length)))
        })
    }

    /// Returns the ranges of the reply that are the message.
    pub fn remaining(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut gaps = self.reduced();
        // Where the next part starts; nowhere after the last.
        let mut at = Some(0);
        iter::from_fn(move || loop {
            let start = at?;
            let end = match gaps.next() {
                Some((_, gap)) => {
                    at = Some(gap.start.saturating_add(xdr::roundup(gap.len())));
                    gap.start
                }
                None => {
                    at = None;
                    self.total
                }
            };
            if start < end {
                return Some(start..end);
            }
        })
    }
}

/// Returns the parts of `range` before and behind `skipped`.
pub fn split_around(range: Range<usize>, skipped: &Range<usize>) -> [Range<usize>; 2] {
    [
        range.start..range.end.min(skipped.start.max(range.start)),
        range.start.max(skipped.end)..range.end,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Limits;
    use crate::chunk::Lists;
    use crate::header::Body;
    use crate::xdr::Reader;

    /// Calls `f` with the layout of a reply of 400 bytes, for which these Write chunks of one
    /// segment are offered; one of no length has no segment.
    fn with_chunks(lengths: &[u32], reduction: bool, f: impl FnOnce(ReducedReply<'_, 3>)) {
        let mut words = vec![0];
        for (handle, length) in (1..).zip(lengths) {
            match length {
                0 => words.extend([1, 0]),
                length => words.extend([1, 1, handle, *length, 0, 0]),
            }
        }
        words.extend([0, 0]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let lists = Lists::parse(&mut Reader::new(&bytes), &Limits::UNLIMITED).unwrap();
        let call = Call {
            xid: 7,
            credits: 1,
            body: Body::Msg,
            payload: &[],
            lists,
        };
        f(ReducedReply::new(&call, reduction, 400));
    }

    fn reduced(layout: &ReducedReply<'_, 3>) -> Vec<(usize, Range<usize>)> {
        layout.reduced().collect()
    }

    fn remaining(layout: &ReducedReply<'_, 3>) -> Vec<Range<usize>> {
        layout.remaining().collect()
    }

    #[test]
    fn nothing_skipped_is_left_and_nothing_else() {
        let left = |range, skipped| {
            let parts = split_around(range, &skipped).into_iter();
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(left(10..20, 12..15), [10..12, 15..20]);
        assert_eq!(left(10..20, 10..20), []);
        assert_eq!(left(10..20, 5..25), []);
        assert_eq!(left(10..20, 5..12), [12..20]);
        assert_eq!(left(10..20, 18..25), [10..18]);
        assert_eq!(left(10..20, 0..5), [10..20]);
        assert_eq!(left(10..20, 25..30), [10..20]);
        assert_eq!(left(10..20, 0..0), [10..20]);
        assert_eq!(left(0..20, 0..5), [5..20]);
    }

    #[test]
    fn result_leaves_with_its_fill() {
        with_chunks(&[200], true, |mut layout| {
            layout.place(100..205).unwrap();
            assert_eq!(layout.written(), [105]);
            assert_eq!(layout.rest(), 400 - 108);
            assert_eq!(reduced(&layout), [(0, 100..205)]);
            assert_eq!(remaining(&layout), [0..100, 208..400]);
        });
    }

    #[test]
    fn what_has_no_chunk_stays() {
        with_chunks(&[0, 50, 50], true, |mut layout| {
            layout.place(0..20).unwrap();
            layout.place(20..40).unwrap();
            layout.skip();
            layout.place(60..80).unwrap();
            assert_eq!(layout.written(), [0, 20]);
            assert_eq!(reduced(&layout), [(1, 20..40)]);
            assert_eq!(remaining(&layout), [0..20, 40..400]);
        });
        with_chunks(&[200], false, |mut layout| {
            layout.place(100..204).unwrap();
            assert_eq!(layout.written(), []);
            assert_eq!(layout.rest(), 400);
            assert_eq!(reduced(&layout), []);
        });
    }

    #[test]
    fn results_may_touch_each_other_and_the_end() {
        with_chunks(&[50, 400, 50], true, |mut layout| {
            layout.place(96..99).unwrap();
            layout.place(100..100).unwrap();
            layout.place(380..400).unwrap();
            assert_eq!(layout.written(), [3, 0, 20]);
            assert_eq!(reduced(&layout), [(0, 96..99), (2, 380..400)]);
            assert_eq!(remaining(&layout), [0..96, 100..380]);
            assert_eq!(layout.rest(), 400 - 4 - 20);
        });
        with_chunks(&[400], true, |mut layout| {
            layout.place(0..400).unwrap();
            assert_eq!(remaining(&layout), []);
            assert_eq!(layout.rest(), 0);
        });
    }

    #[test]
    fn results_elsewhere_are_refused() {
        let misuse = Err(Unreturnable::Misuse(Misuse::Sizes));
        with_chunks(&[400, 400, 400], true, |layout| {
            // Its padding is not there.
            assert_eq!(layout.clone().place(390..401), misuse);
            assert_eq!(layout.clone().place(399..400), misuse);
            assert_eq!(layout.clone().place(usize::MAX - 8..usize::MAX), misuse);
            let mut layout = layout;
            layout.place(100..105).unwrap();
            assert_eq!(layout.clone().place(107..200), misuse);
            assert_eq!(layout.place(0..4), misuse);
        });
        // More chunks than there are places for.
        with_chunks(&[9, 9, 9, 9], true, |mut layout| {
            for start in [0, 4, 8] {
                layout.place(start..start + 4).unwrap();
            }
            assert_eq!(layout.place(12..16), misuse);
        });
        with_chunks(&[9], true, |mut layout| {
            let too_long = Unreturnable::Result {
                length: 10,
                room: 9,
            };
            assert_eq!(layout.place(0..10), Err(too_long));
        });
    }
}
