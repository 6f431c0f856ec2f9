// SPDX-License-Identifier: GPL-2.0

//! Framed Protocol Data Units (RFC 5044, section 4): length, ULPDU, pad, CRC.
//!
//! An FPDU is a multiple of four octets, so no marker divides the length or the CRC. Its CRC covers
//! everything before it, markers included. The field is present even where both ends agreed not to
//! use it; then it is zero and is not checked.
//!
//! A receiver finds the [length](Layout::of) first, waits until all [`Layout::wire_len`] octets are
//! there, verifies them with [`Layout::verify`], and only then passes the ULPDU to DDP.

use crate::fault::LlpError;
use crate::mpa::crc::{self, Crc};
use crate::mpa::marker::{Piece, Pieces, Position};

/// The length of the length field in octets.
pub const LENGTH_LEN: usize = 2;

/// The length of the CRC field in octets.
pub const CRC_LEN: usize = 4;

/// The least MULPDU of a sender (RFC 5044, section 4.2).
pub const MIN_MULPDU: u32 = 128;

/// The longest ULPDU that a sender makes, in octets: with its markers the FPDU stays below 64 KiB,
/// which is as far back as a marker can point.
pub const MAX_MULPDU: u32 = 64_768;

/// Returns the MULPDU: the longest ULPDU, in octets, whose FPDU fits in one TCP segment of `emss`
/// octets.
///
/// RFC 5044, section 4.2. The octets of the segment that an FPDU, a multiple of four, cannot use
/// are subtracted.
pub fn mulpdu(emss: u32, markers: bool) -> u32 {
    let markers_len = match markers {
        true => emss.div_ceil(512).saturating_mul(4),
        false => 0,
    };
    let overhead = (emss & 3).saturating_add(6).saturating_add(markers_len);
    emss.saturating_sub(overhead).clamp(MIN_MULPDU, MAX_MULPDU)
}

/// Returns the MULPDU for a peer that takes ULPDUs of `taken` octets, however short TCP's segments
/// of `emss` octets are.
///
/// Such an FPDU takes several segments, which RFC 5044 leaves to a path that becomes narrower: a
/// receiver has to find FPDUs that are not aligned, but may be slow with them. One that asks for
/// markers looks for FPDUs in single segments, and gets FPDUs that fit.
pub fn long_mulpdu(emss: u32, markers: bool, taken: u32) -> u32 {
    let fits = mulpdu(emss, markers);
    match markers {
        true => fits,
        false => fits.max(taken.min(MAX_MULPDU)),
    }
}

/// The positions of an FPDU's fields, for a ULPDU of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    ulpdu_len: u16,
    at: Position,
}

impl Layout {
    /// Creates the layout of an FPDU that begins at `at` in the stream.
    #[inline]
    pub const fn new(ulpdu_len: u16, at: Position) -> Self {
        Self { ulpdu_len, at }
    }

    /// Reads the length field of the FPDU with which `stream` begins. Returns `None` if it is not
    /// there yet.
    pub fn of(stream: &[u8], at: Position) -> Option<Self> {
        let begin = at.marker_here().map_or(0, |marker| marker.len());
        let length = stream.get(begin..)?.first_chunk()?;
        Some(Self::new(u16::from_be_bytes(*length), at))
    }

    /// Returns the length of the ULPDU in octets.
    #[inline]
    pub const fn ulpdu_len(&self) -> u16 {
        self.ulpdu_len
    }

    /// Returns the number of zero octets between ULPDU and CRC: 0 to 3.
    #[inline]
    pub fn pad_len(&self) -> usize {
        usize::from(self.ulpdu_len)
            .saturating_add(LENGTH_LEN)
            .wrapping_neg()
            & 3
    }

    /// Returns the length of the FPDU in octets, without markers.
    pub fn plain_len(&self) -> usize {
        usize::from(self.ulpdu_len)
            .saturating_add(LENGTH_LEN)
            .saturating_add(self.pad_len())
            .saturating_add(CRC_LEN)
    }

    /// Returns the length of the FPDU in the stream in octets, markers included.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.at.wire_len(self.plain_len())
    }

    /// Returns the position of the next FPDU.
    #[inline]
    pub fn next(&self) -> Position {
        self.at.after(self.wire_len())
    }

    /// Returns the stream octets of the FPDU in order: markers, and pieces of the FPDU without
    /// them.
    #[inline]
    pub fn pieces(&self) -> Pieces {
        self.at.pieces(self.plain_len())
    }

    /// Returns the offset of the CRC in the FPDU without markers.
    #[inline]
    fn crc_at(&self) -> usize {
        self.plain_len().saturating_sub(CRC_LEN)
    }

    /// Checks markers and, if `check_crc`, the CRC of the FPDU with which `stream` begins.
    ///
    /// Returns `None` if the FPDU is incomplete. Pad octets may have any value (RFC 5044, section
    /// 4.1).
    pub fn verify(&self, stream: &[u8], check_crc: bool) -> Option<Result<(), LlpError>> {
        let fpdu = stream.get(..self.wire_len())?;
        let (mut sum, mut rest) = (Crc::new(), fpdu);
        let mut found = [0; CRC_LEN];
        let mut found_slots = found.iter_mut();
        for piece in self.pieces() {
            let (here, behind) = rest.split_at_checked(piece.len())?;
            rest = behind;
            match piece {
                // The two low bits and the reserved half are ignored.
                Piece::Marker(marker) => {
                    let [_, _, high, low] = *here.first_chunk()?;
                    if u16::from_be_bytes([high, low & !3]) != marker.pointer() {
                        return Some(Err(LlpError::Marker));
                    }
                    sum = sum.update(here);
                }
                Piece::Octets { from, .. } => {
                    let covered = self.crc_at().saturating_sub(from).min(here.len());
                    let (covered, field) = here.split_at_checked(covered)?;
                    sum = sum.update(covered);
                    for (octet, slot) in field.iter().zip(found_slots.by_ref()) {
                        *slot = *octet;
                    }
                }
            }
        }
        match check_crc && found != crc::octets(sum.value()) {
            true => Some(Err(LlpError::Crc)),
            false => Some(Ok(())),
        }
    }

    /// Returns the octets of the ULPDU in `stream`, in pieces if markers divide them.
    pub fn ulpdu<'a>(&self, stream: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let end = LENGTH_LEN.saturating_add(usize::from(self.ulpdu_len));
        let mut rest = stream;
        self.pieces().filter_map(move |piece| {
            let (here, behind) = rest.split_at_checked(piece.len())?;
            rest = behind;
            let Piece::Octets { from, .. } = piece else {
                return None;
            };
            let first = LENGTH_LEN.saturating_sub(from);
            let last = end.saturating_sub(from).min(here.len());
            here.get(first..last).filter(|octets| !octets.is_empty())
        })
    }

    /// Writes the FPDU of `ulpdu`, whose pieces make up its length. Returns its length in the
    /// stream, or `None` if `out` is too short or the pieces have another length.
    ///
    /// The CRC field is zero if `with_crc` is false.
    pub fn emit(&self, ulpdu: &[&[u8]], with_crc: bool, out: &mut [u8]) -> Option<usize> {
        let mut lengths = ulpdu.iter().map(|piece| piece.len());
        let total = lengths.try_fold(0_usize, usize::checked_add)?;
        if total != usize::from(self.ulpdu_len) {
            return None;
        }
        let wire_len = self.wire_len();
        let length = self.ulpdu_len.to_be_bytes();
        let mut source = Gather {
            now: &length,
            rest: ulpdu,
            pad: self.pad_len(),
        };
        let mut sum = Crc::new();
        let mut field = None;
        let mut room = out.get_mut(..wire_len)?;
        for piece in self.pieces() {
            let (here, behind) = room.split_at_mut_checked(piece.len())?;
            room = behind;
            match piece {
                Piece::Marker(marker) => {
                    *here.first_chunk_mut()? = marker.octets();
                    sum = sum.update(here);
                }
                Piece::Octets { from, .. } => {
                    let plain = self.crc_at().saturating_sub(from).min(here.len());
                    let (plain, tail) = here.split_at_mut_checked(plain)?;
                    for octet in plain.iter_mut() {
                        *octet = source.next()?;
                    }
                    sum = sum.update(plain);
                    if !tail.is_empty() {
                        let value = if with_crc { sum.value() } else { 0 };
                        let octets = field.get_or_insert(crc::octets(value).into_iter());
                        for (to, from) in tail.iter_mut().zip(octets) {
                            *to = from;
                        }
                    }
                }
            }
        }
        Some(wire_len)
    }
}

/// Octets from several slices, then zeros.
struct Gather<'a> {
    now: &'a [u8],
    rest: &'a [&'a [u8]],
    pad: usize,
}

impl Gather<'_> {
    fn next(&mut self) -> Option<u8> {
        loop {
            if let Some((octet, behind)) = self.now.split_first() {
                self.now = behind;
                return Some(*octet);
            }
            if let Some((now, rest)) = self.rest.split_first() {
                (self.now, self.rest) = (now, rest);
                continue;
            }
            self.pad = self.pad.checked_sub(1)?;
            return Some(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows D-12, M-5.
    #[test]
    fn mulpdu_is_what_fits() {
        assert_eq!(mulpdu(1448, false), 1442);
        assert_eq!(mulpdu(1460, false), 1454);
        assert_eq!(mulpdu(1461, false), 1454);
        assert_eq!(mulpdu(1460, true), 1442);
        assert_eq!(mulpdu(100, false), MIN_MULPDU);
        assert_eq!(mulpdu(0, true), MIN_MULPDU);
        assert_eq!(mulpdu(u32::MAX, true), MAX_MULPDU);
    }

    // Shows M-6.
    #[test]
    fn long_mulpdu_is_for_peers_without_markers() {
        assert_eq!(long_mulpdu(1448, false, 0), 1442);
        assert_eq!(long_mulpdu(1448, false, 1000), 1442);
        assert_eq!(long_mulpdu(1448, false, 9000), 9000);
        assert_eq!(long_mulpdu(1460, true, 9000), 1442);
        assert_eq!(long_mulpdu(1448, false, MAX_MULPDU), MAX_MULPDU);
        assert_eq!(long_mulpdu(1448, false, u32::MAX), MAX_MULPDU);
    }

    // Shows M-1.
    #[test]
    fn fpdu_is_a_multiple_of_four() {
        for ulpdu_len in 0..=u16::MAX {
            let layout = Layout::new(ulpdu_len, Position::NO_MARKERS);
            assert_eq!(layout.plain_len() % 4, 0);
            assert!(layout.pad_len() < 4);
            assert_eq!(layout.wire_len(), layout.plain_len());
        }
    }

    // Shows M-5.
    #[test]
    fn full_segment_has_no_room_left() {
        let layout = Layout::new(1442, Position::NO_MARKERS);
        assert_eq!(layout.wire_len(), 1448);
    }

    // Shows M-1.
    #[test]
    fn empty_ulpdu_has_eight_octets() {
        let layout = Layout::new(0, Position::NO_MARKERS);
        let mut out = [0xff; 8];
        assert_eq!(layout.emit(&[], true, &mut out), Some(8));
        assert_eq!(layout.verify(&out, true), Some(Ok(())));
        assert_eq!(layout.verify(&out[..7], true), None);
        assert_eq!(layout.ulpdu(&out).count(), 0);
        assert_eq!(layout.emit(&[], true, &mut out[..7]), None);
    }

    /// With pad of 3 octets, pieces that are too short or too long would still fill the FPDU.
    #[test]
    fn pieces_have_the_length_of_the_ulpdu() {
        let layout = Layout::new(3, Position::NO_MARKERS);
        let mut out = [0xff; 12];
        assert_eq!(layout.emit(&[&[1], &[2]], true, &mut out), None);
        assert_eq!(layout.emit(&[&[1, 2], &[3, 4]], true, &mut out), None);
        assert_eq!(out, [0xff; 12]);
    }

    // Shows M-14.
    #[test]
    fn crc_is_zero_and_not_looked_at_when_off() {
        let layout = Layout::new(3, Position::NO_MARKERS);
        let mut out = [0xff; 12];
        assert_eq!(layout.emit(&[&[1], &[2, 3]], false, &mut out), Some(12));
        assert_eq!(out, [0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(layout.verify(&out, false), Some(Ok(())));
        assert_eq!(layout.verify(&out, true), Some(Err(LlpError::Crc)));
    }
}
