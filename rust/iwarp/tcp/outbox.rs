// SPDX-License-Identifier: GPL-2.0

//! The output buffer of TCP: FPDUs are made here, one behind the other, and handed over in one
//! call.
//!
//! The payload is copied before its CRC is computed. Memory of a consumer, such as a page of a file
//! that is being written back, may change at any time, and the CRC must match the octets that are
//! sent. TCP sends from the pages that they are copied to, or copies small amounts once more.
//!
//! A connection has these pages once it has sent much at a time, and gives them back when it has
//! been idle, as it does with what TCP keeps to copy to. Before that, and without memory for them,
//! a small buffer takes their place.
//!
//! Without a CRC it is copied, too. TCP could send from the pages of the consumer, but then nobody
//! would know when these may change: when a request may complete, and when an STag that the peer
//! read is no longer valid. An acknowledgement does not say so. A receiver on the same machine, in
//! another network namespace maybe, has the very pages in its receive queue, acknowledged, until it
//! reads them, so it would get what the consumer writes there next. And a segment that was sent
//! twice may be acknowledged while one copy of it is still in the queue of a network device. The
//! `ubuf_info` of `MSG_ZEROCOPY` does report that the last copy is gone. But with it the kernel
//! copies what goes to a receiver on the same machine to pages that it allocates, and nothing
//! limits how long a device may keep a packet, so neither does anything limit how long an
//! invalidation or the drain of a queue would have to wait. Of the pages here it is enough to know
//! that nobody has a reference to them any more ([`Pages::reclaim`]).

use crate::prelude::*;
use provider::zeroed;
use rdmap::mpa::{
    crc,
    frame,
    marker::Position, //
};
use socket::{
    Events,
    Pages,
    SendBuf,
    TcpConn,
    Then, //
};

/// Octets that are made before they are handed over, about, where there is space for them.
const FLUSH_OCTETS: usize = 65_536;

/// The octets of the buffer that a connection always has: enough for what a peer sends of its own
/// accord at a time, if it transfers nothing.
const BUFFER_OCTETS: usize = 16_384;

/// A ULPDU that is longer than this, in octets, is cut where there is no space for all of it. If
/// each waited for as much as the longest one takes, short messages would be handed over one by
/// one.
const CUT_FROM: u32 = 4_096;

/// The greatest length of an FPDU in octets, markers included.
const MAX_FPDU: usize = 66_560;

/// The greatest length of an FPDU beside its ULPDU in octets, without markers.
const FPDU_OVERHEAD: usize = 9;

/// Octets handed over in a row from which on it is cheaper to let TCP refer to pages.
const SPLICE_MIN: usize = 4_096;

/// The octets of each [`Pages`], enough for two calls.
const SET_OCTETS: usize = 131_072;

/// The octets that a set has at least when it is chosen.
const SET_MIN: usize = 32_768;

/// The time after which pages are freed that were not used meanwhile, in milliseconds.
const KEEP_MS: i64 = 1_000;

/// The greatest number of [`Pages`], which limits what TCP may refer to at a time: to what a send
/// buffer has by default (`tcp_wmem`). TCP would copy what is beyond that, to pages of its own.
const MAX_SETS: usize = 32;

/// The output buffer of a connection.
pub(super) struct Outbox {
    // Octets that TCP copies.
    octets: KVVec<u8>,
    // Octets that TCP may refer to, allocated on demand.
    sets: KVec<Pages>,
    // The set that is filled; `None` if `octets` are.
    set: Option<usize>,
    // How many of the sets were used since `looked_at`: the first ones, as a free one at the
    // beginning is preferred.
    used: usize,
    looked_at: Instant<Monotonic>,
    // The range that waits, in `octets`, or in the free space of the set.
    start: usize,
    filled: usize,
    // Octets handed over since nothing waited.
    flushed: usize,
    // The time when a large amount was handed over last.
    busy_at: Instant<Monotonic>,
    // The time when something was handed over last, as long as TCP may keep memory since.
    sent_at: Option<Instant<Monotonic>>,
    // The ULPDU of an FPDU that markers divide.
    scratch: KVVec<u8>,
    at: Position,
    crc: bool,
}

impl Outbox {
    /// Creates an empty buffer. `markers` says whether the peer wants them; `crc`, whether the
    /// FPDUs have one. Sleeps.
    pub(super) fn new(markers: bool, crc: bool) -> Result<Self> {
        Ok(Self {
            octets: zeroed::vec(
                match markers {
                    true => FLUSH_OCTETS + MAX_FPDU,
                    false => BUFFER_OCTETS,
                },
                GFP_KERNEL_ACCOUNT,
            )?,
            sets: KVec::with_capacity(MAX_SETS, GFP_KERNEL_ACCOUNT)?,
            set: None,
            start: 0,
            filled: 0,
            flushed: 0,
            busy_at: Instant::now(),
            // The first frames of the connection were.
            sent_at: Some(Instant::now()),
            used: 0,
            looked_at: Instant::now(),
            scratch: match markers {
                true => zeroed::vec(MAX_FPDU, GFP_KERNEL_ACCOUNT)?,
                false => KVVec::new(),
            },
            at: match markers {
                true => Position::START,
                false => Position::NO_MARKERS,
            },
            crc,
        })
    }

    /// Returns whether nothing waits to be handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.filled
    }

    /// Returns whether there is space for one more FPDU with such a ULPDU, or with a
    /// [shorter](Self::max_ulpdu) one, of [`CUT_FROM`] octets at least. If nothing waits there is
    /// space, whatever that makes of it.
    pub(super) fn has_space(&self, ulpdu_len: u32) -> bool {
        let least = ulpdu_len.min(CUT_FROM);
        self.filled == 0 || self.filled < FLUSH_OCTETS && self.max_ulpdu() >= least
    }

    /// Returns the length of the longest ULPDU that there is space for.
    pub(super) fn max_ulpdu(&self) -> u32 {
        let room = match self.set.and_then(|set| self.sets.get(set)) {
            Some(set) => set.left(),
            // With markers there is space for one of any length behind so many others.
            None if !self.scratch.is_empty() => return u32::MAX,
            None => self.octets.len(),
        };
        let room = room.saturating_sub(self.filled);
        u32::try_from(room.saturating_sub(FPDU_OVERHEAD)).unwrap_or(u32::MAX)
    }

    /// Returns the memory where octets are made now.
    fn space(&mut self) -> &mut [u8] {
        match self.set.and_then(|set| self.sets.get_mut(set)) {
            Some(set) => set.free_space(),
            None => &mut self.octets,
        }
    }

    /// Adds octets that are no FPDU.
    pub(super) fn raw(&mut self, octets: &[u8]) -> Result {
        let filled = self.filled;
        let rest = self.space().get_mut(filled..).ok_or(EINVAL)?;
        let room = rest.get_mut(..octets.len()).ok_or(EINVAL)?;
        room.copy_from_slice(octets);
        self.filled = filled.saturating_add(octets.len());
        Ok(())
    }

    /// Adds an FPDU: `header`, and `length` octets that `payload` writes. Nothing is added if that
    /// fails.
    pub(super) fn fpdu(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        let ulpdu_len = header.len().saturating_add(usize::try_from(length)?);
        let layout = frame::Layout::new(u16::try_from(ulpdu_len)?, self.at);
        let end = self.filled.saturating_add(layout.wire_len());
        match self.scratch.is_empty() {
            true => self.emit(&layout, end, header, payload)?,
            false => self.emit_with_markers(&layout, end, header, payload)?,
        }
        self.at = layout.next();
        self.filled = end;
        Ok(())
    }

    /// Makes an FPDU without markers where it is to be sent from, up to `end`.
    #[inline]
    fn emit(
        &mut self,
        layout: &frame::Layout,
        end: usize,
        header: &[u8],
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        let (filled, crc) = (self.filled, self.crc);
        let room = self.space().get_mut(filled..end).ok_or(EINVAL)?;
        let (length, rest) = room.split_at_mut_checked(frame::LENGTH_LEN).ok_or(EINVAL)?;
        length.copy_from_slice(&layout.ulpdu_len().to_be_bytes());
        let (to, rest) = rest.split_at_mut_checked(header.len()).ok_or(EINVAL)?;
        to.copy_from_slice(header);
        let octets = usize::from(layout.ulpdu_len()).saturating_sub(header.len());
        let (to, rest) = rest.split_at_mut_checked(octets).ok_or(EINVAL)?;
        payload(to)?;
        rest.fill(0);
        let (covered, field) = room.split_last_chunk_mut().ok_or(EINVAL)?;
        if crc {
            let sum = !SendBuf::from(&*covered).crc32c(!0);
            *field = crc::octets(sum);
        }
        Ok(())
    }

    /// Makes an FPDU whose ULPDU markers divide, up to `end`.
    fn emit_with_markers(
        &mut self,
        layout: &frame::Layout,
        end: usize,
        header: &[u8],
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        // Not into pages: see `next_set`.
        let room = self.octets.get_mut(self.filled..end).ok_or(EINVAL)?;
        let ulpdu = self.scratch.get_mut(..layout.ulpdu_len().into());
        let ulpdu = ulpdu.ok_or(EINVAL)?;
        let (to, rest) = ulpdu.split_at_mut_checked(header.len()).ok_or(EINVAL)?;
        to.copy_from_slice(header);
        payload(rest)?;
        layout.emit(&[&*ulpdu], self.crc, room).ok_or(EINVAL)?;
        Ok(())
    }

    /// Hands over the octets that wait. `EAGAIN` if TCP did not take all: an event will report
    /// space.
    pub(super) fn flush<E: Events>(&mut self, connection: &mut TcpConn<E>) -> Result {
        while !self.is_empty() {
            let waiting = self.filled.saturating_sub(self.start);
            let taken = match self.set.and_then(|set| self.sets.get_mut(set)) {
                // What TCP has copied a part of is not at the beginning of the free space.
                Some(set) if self.start == 0 && waiting >= SPLICE_MIN => {
                    let taken = set.splice(connection, self.filled)?;
                    self.filled = self.filled.saturating_sub(taken);
                    taken
                }
                set => {
                    let octets = match set {
                        Some(set) => &*set.free_space(),
                        None => &*self.octets,
                    };
                    let octets = octets.get(self.start..self.filled).ok_or(EINVAL)?;
                    let taken = connection.send([SendBuf::from(octets)], Then::Push)?;
                    self.start = self.start.saturating_add(taken).min(self.filled);
                    taken
                }
            };
            self.flushed = self.flushed.saturating_add(taken);
        }
        self.start = 0;
        self.filled = 0;
        let flushed = core::mem::take(&mut self.flushed);
        if flushed > 0 {
            self.sent_at = Some(Instant::now());
        }
        if flushed >= SPLICE_MIN {
            self.busy_at = Instant::now();
            self.set = self.next_set();
            self.free_unused_sets();
        } else if flushed > 0 {
            self.set = self.set.and_then(|_| self.next_set());
        } else {
            self.give_back(connection);
        }
        Ok(())
    }

    /// Gives back memory that was not used for a while.
    fn give_back<E: Events>(&mut self, connection: &TcpConn<E>) {
        if self.has_pages() && self.busy_at.elapsed().as_millis() > KEEP_MS {
            // Those that TCP refers to stay until it does no more.
            self.sets.clear();
            self.set = None;
        }
        let is_idle = |since: Instant<Monotonic>| since.elapsed().as_millis() > KEEP_MS;
        if self.sent_at.is_some_and(is_idle) {
            connection.give_back();
            self.sent_at = None;
        }
    }

    /// Frees the sets that were not used for a while, so that a peer cannot have them kept by a
    /// little traffic. The set that is filled was used.
    fn free_unused_sets(&mut self) {
        let in_use = self.set.map_or(0, |set| set.saturating_add(1));
        self.used = self.used.max(in_use);
        if (self.busy_at - self.looked_at).as_millis() > KEEP_MS {
            self.sets.truncate(self.used);
            self.used = in_use;
            self.looked_at = self.busy_at;
        }
    }

    /// Returns whether there are pages to be given back.
    pub(super) fn has_pages(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Returns whether there is memory to be given back by a later [`flush`](Self::flush).
    pub(super) fn has_memory(&self) -> bool {
        self.has_pages() || self.sent_at.is_some()
    }

    /// Returns a set with much space. `None` if TCP refers to too much, if there is no memory, or
    /// if the peer wants markers, whose FPDUs are not made in one piece.
    fn next_set(&mut self) -> Option<usize> {
        if !self.scratch.is_empty() {
            return None;
        }
        let current = self.set.filter(|&set| {
            let current = self.sets.get(set);
            current.is_some_and(|current| current.left() >= SET_MIN)
        });
        current
            .or_else(|| self.sets.iter_mut().position(Pages::reclaim))
            .or_else(|| {
                // Without more memory TCP copies.
                let set = self.sets.len();
                self.sets
                    .push_within_capacity(Pages::new(SET_OCTETS).ok()?)
                    .ok()?;
                Some(set)
            })
    }
}
