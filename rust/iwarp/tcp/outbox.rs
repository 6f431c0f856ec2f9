// SPDX-License-Identifier: GPL-2.0

//! Octets on their way to TCP: FPDUs are made here, one behind the other, and handed over in one call.
//!
//! The payload is copied before its CRC is computed. Memory of a consumer, such as a page of a file that is being written
//! back, may change at any time, and what is sent must have the CRC that is sent.

use kernel::alloc::KVVec;
use kernel::prelude::*;
use rdmap::mpa::crc;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::frame::CRC_LEN;
use rdmap::mpa::frame::LENGTH_LEN;
use rdmap::mpa::marker::Position;
use socket::Connection;
use socket::Events;
use socket::Octets;
use socket::Then;

/// Octets that are made before they are handed over, about.
const ENOUGH: usize = 65_536;

/// Octets that one FPDU may have, markers included.
const LONGEST: usize = 66_560;

/// Where FPDUs are made.
pub(super) struct Outbox {
    // INVARIANT: `begun <= filled <= octets.len()`.
    octets: KVVec<u8>,
    begun: usize,
    filled: usize,
    // The ULPDU of an FPDU that markers divide.
    scratch: KVVec<u8>,
    at: Position,
    crc: bool,
}

impl Outbox {
    /// An empty one. `markers`: the peer wants them; `crc`: the FPDUs have one. Sleeps.
    pub(super) fn new(markers: bool, crc: bool) -> Result<Self> {
        Ok(Self {
            octets: KVVec::from_elem(0, ENOUGH + LONGEST, GFP_KERNEL)?,
            begun: 0,
            filled: 0,
            scratch: match markers {
                true => KVVec::from_elem(0, LONGEST, GFP_KERNEL)?,
                false => KVVec::new(),
            },
            at: match markers {
                true => Position::START,
                false => Position::NO_MARKERS,
            },
            crc,
        })
    }

    /// Nothing waits to be handed over.
    pub(super) fn is_empty(&self) -> bool {
        self.begun == self.filled
    }

    /// There is room for one more FPDU.
    pub(super) fn has_room(&self) -> bool {
        self.filled < ENOUGH
    }

    /// Adds octets that are no FPDU.
    pub(super) fn plain(&mut self, octets: &[u8]) -> Result {
        let end = self.filled.saturating_add(octets.len());
        let room = self.octets.get_mut(self.filled..end).ok_or(EINVAL)?;
        room.copy_from_slice(octets);
        self.filled = end;
        Ok(())
    }

    /// Adds an FPDU: `header`, and `length` octets that `payload` writes. Nothing is added if that fails.
    pub(super) fn fpdu(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        let ulpdu_len = header.len().saturating_add(usize::try_from(length)?);
        let layout = Layout::new(u16::try_from(ulpdu_len)?, self.at);
        let end = self.filled.saturating_add(layout.wire_len());
        let room = self.octets.get_mut(self.filled..end).ok_or(EINVAL)?;
        if self.scratch.is_empty() {
            let (length, rest) = room.split_at_mut_checked(LENGTH_LEN).ok_or(EINVAL)?;
            length.copy_from_slice(&layout.ulpdu_len().to_be_bytes());
            let (to, rest) = rest.split_at_mut_checked(header.len()).ok_or(EINVAL)?;
            to.copy_from_slice(header);
            let octets = ulpdu_len.saturating_sub(header.len());
            let (to, rest) = rest.split_at_mut_checked(octets).ok_or(EINVAL)?;
            payload(to)?;
            rest.fill(0);
            let covered = room.len().saturating_sub(CRC_LEN);
            let (covered, field) = room.split_at_mut_checked(covered).ok_or(EINVAL)?;
            if self.crc {
                let sum = !Octets::from(&*covered).crc32c(!0);
                field.copy_from_slice(&crc::octets(sum));
            }
        } else {
            let ulpdu = self.scratch.get_mut(..ulpdu_len).ok_or(EINVAL)?;
            let (to, rest) = ulpdu.split_at_mut_checked(header.len()).ok_or(EINVAL)?;
            to.copy_from_slice(header);
            payload(rest)?;
            layout.emit(&[&*ulpdu], self.crc, room).ok_or(EINVAL)?;
        }
        self.at = layout.next();
        self.filled = end;
        Ok(())
    }

    /// Hands over what there is. `EAGAIN` if TCP did not take all: an event will tell of room.
    pub(super) fn flush<E: Events>(&mut self, connection: &mut Connection<E>) -> Result {
        while !self.is_empty() {
            let octets = self.octets.get(self.begun..self.filled).ok_or(EINVAL)?;
            let taken = connection.send([Octets::from(octets)], Then::Push)?;
            self.begun = self.begun.saturating_add(taken).min(self.filled);
        }
        self.begun = 0;
        self.filled = 0;
        Ok(())
    }
}
