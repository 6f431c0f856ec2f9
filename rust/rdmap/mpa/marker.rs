// SPDX-License-Identifier: GPL-2.0

//! Markers (RFC 5044, section 4.3): four octets at every 512th octet of the stream that point back
//! to the beginning of the FPDU they are in, for receivers that lost its boundaries.
//!
//! Position 0 is the first octet behind the start-up frames, so the first FPDU begins with a
//! marker. A marker between two FPDUs has the pointer 0 and belongs to the second. FPDUs are
//! multiples of four octets and begin at such, so a marker never divides the length field, and the
//! pointer's two low bits are zero.

/// The distance between two markers in octets.
pub const SPACING: usize = 512;

/// The length of a marker in octets.
pub const MARKER_LEN: usize = 4;

/// The position of the next octet in a stream that may have markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Octets since the last marker position, less than [`SPACING`]; `None` without markers.
    phase: Option<usize>,
}

/// A marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pointer: u16,
}

impl Marker {
    /// Returns the distance in octets from the FPDU's length field to this marker.
    #[inline]
    pub const fn pointer(self) -> u16 {
        self.pointer
    }

    /// Encodes the marker.
    #[inline]
    pub const fn octets(self) -> [u8; MARKER_LEN] {
        let [high, low] = self.pointer.to_be_bytes();
        [0, 0, high, low]
    }

    /// Returns its length in octets.
    #[expect(clippy::len_without_is_empty, reason = "no marker is empty")]
    #[inline]
    pub const fn len(self) -> usize {
        MARKER_LEN
    }
}

impl Position {
    /// The position in a stream without markers.
    pub const NO_MARKERS: Self = Self { phase: None };

    /// The start of a stream with markers.
    pub const START: Self = Self { phase: Some(0) };

    /// Returns the position `octets` octets behind the start of a stream with markers. For tests: a
    /// connection begins at the start.
    #[inline]
    pub const fn behind_start(octets: usize) -> Self {
        Self {
            phase: Some(octets & (SPACING - 1)),
        }
    }

    /// Returns the marker that comes before an FPDU which begins here, if there is one.
    #[inline]
    pub fn marker_here(self) -> Option<Marker> {
        (self.phase == Some(0)).then_some(Marker { pointer: 0 })
    }

    /// Returns the position `octets` octets further on in the stream, markers included.
    #[inline]
    pub fn after(self, octets: usize) -> Self {
        Self {
            phase: self
                .phase
                .map(|phase| phase.wrapping_add(octets) & (SPACING - 1)),
        }
    }

    /// Returns the length in the stream of an FPDU that has `plain_len` octets without markers and
    /// begins here.
    pub fn wire_len(self, plain_len: usize) -> usize {
        self.pieces(plain_len)
            .fold(0, |sum, piece| sum.saturating_add(piece.len()))
    }

    /// Returns the stream octets of such an FPDU, in order.
    #[inline]
    pub const fn pieces(self, plain_len: usize) -> Pieces {
        Pieces {
            position: self,
            from: 0,
            plain_len,
            wire: 0,
        }
    }
}

/// Consecutive octets of the stream: a marker, or a piece of an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A marker.
    Marker(Marker),
    /// Octets of the FPDU.
    Octets {
        /// The offset of the first one in the FPDU without markers.
        from: usize,
        /// Their number.
        length: usize,
    },
}

impl Piece {
    /// Returns its length in the stream in octets.
    #[expect(clippy::len_without_is_empty, reason = "no piece is empty")]
    #[inline]
    pub const fn len(&self) -> usize {
        match self {
            Self::Marker(_) => MARKER_LEN,
            Self::Octets { length, .. } => *length,
        }
    }
}

/// The stream octets of an FPDU, piece by piece.
#[derive(Clone, Debug)]
pub struct Pieces {
    position: Position,
    from: usize,
    plain_len: usize,
    // Octets from the length field to here, markers included: the pointer of a marker.
    wire: usize,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = self
            .plain_len
            .checked_sub(self.from)
            .filter(|left| *left > 0)?;
        if self.position.phase == Some(0) {
            self.position = self.position.after(MARKER_LEN);
            let pointer = u16::try_from(self.wire).unwrap_or_default();
            // A marker before the length field is not between it and the next one.
            if self.from > 0 {
                self.wire = self.wire.saturating_add(MARKER_LEN);
            }
            return Some(Piece::Marker(Marker { pointer }));
        }
        let room = match self.position.phase {
            Some(phase) => SPACING.saturating_sub(phase),
            None => left,
        };
        let (from, length) = (self.from, left.min(room));
        self.from = self.from.saturating_add(length);
        self.wire = self.wire.saturating_add(length);
        self.position = self.position.after(length);
        Some(Piece::Octets { from, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fpdu_begins_with_a_marker() {
        let mut pieces = Position::START.pieces(48);
        assert_eq!(pieces.next(), Some(Piece::Marker(Marker { pointer: 0 })));
        let octets = Piece::Octets {
            from: 0,
            length: 48,
        };
        assert_eq!(pieces.next(), Some(octets));
        assert_eq!(pieces.next(), None);
        assert_eq!(Position::START.wire_len(48), 52);
    }

    #[test]
    fn marker_points_back_over_earlier_markers() {
        let pieces: Vec<_> = Position::START.pieces(1200).collect();
        let pointers: Vec<_> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Marker(marker) => Some(marker.pointer()),
                Piece::Octets { .. } => None,
            })
            .collect();
        // The length field is at 4; the markers are at 0, 512 and 1024.
        assert_eq!(pointers, [0, 508, 1020]);
        assert_eq!(Position::START.wire_len(1200), 1212);
    }

    #[test]
    fn fpdu_that_ends_at_a_marker_leaves_it_to_the_next() {
        let at = Position::behind_start(512 - 48);
        assert_eq!(at.wire_len(48), 48);
        assert_eq!(at.after(48), Position::START);
    }

    #[test]
    fn stream_without_markers_has_none() {
        assert_eq!(Position::NO_MARKERS.pieces(5000).count(), 1);
        assert_eq!(Position::NO_MARKERS.marker_here(), None);
    }
}
