// SPDX-License-Identifier: GPL-2.0

//! Tests of the output buffer: what arrives of what it hands over in copies, and in pages.

use super::{
    connected,
    next_fpdu,
    pause,
    SETTINGS,
    TIMEOUT_MS, //
};
use crate::prelude::*;
use crate::tcp::outbox::Outbox;
use rdmap::mpa::{
    crc,
    frame::{
        CRC_LEN,
        LENGTH_LEN, //
    }, //
};
use socket::TcpConn;

/// The lengths of payloads, as far as there is space for them. In this order, what is handed over
/// in copies and what is handed over in pages follow on each other in each way.
const LENGTHS: [u32; 9] = [10, 60_000, 0, 3_000, 4_096, 9, 30_000, 16_369, 700];

/// The length of the longest payload in octets.
const LONGEST: usize = 60_000;

/// The length of a header in octets: the number of the FPDU, and that of its payload's octets.
const HEADER_LEN: usize = 12;

/// Both ends of a connection, and the output buffer of the first one.
struct Ends {
    outbox: Outbox,
    near: TcpConn<EventTarget>,
    far: TcpConn<EventTarget>,
    // FPDUs that were made, and those that have arrived.
    made: u64,
    arrived: u64,
    octets: KVVec<u8>,
}

/// Returns octet `at` of the payload of an FPDU.
fn octet(number: u64, at: usize) -> u8 {
    let mixed = number.wrapping_mul(31).wrapping_add(at as u64);
    (mixed ^ (mixed >> 8)) as u8
}

impl Ends {
    fn new() -> Result<Self> {
        let (near, far) = connected(&SETTINGS)?;
        Ok(Self {
            outbox: Outbox::new(false, true)?,
            near,
            far,
            made: 0,
            arrived: 0,
            octets: KVVec::from_elem(0, LONGEST, GFP_KERNEL)?,
        })
    }

    /// Hands over what waits. Returns whether TCP took all.
    fn flush(&mut self) -> Result<bool> {
        match self.outbox.flush(&mut self.near) {
            Ok(()) => Ok(true),
            Err(error) if error == EAGAIN => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the next FPDU. Returns false if there is no space for it.
    fn make(&mut self) -> Result<bool> {
        let number = self.made;
        let wanted = LENGTHS[(number % LENGTHS.len() as u64) as usize];
        let most = self.outbox.max_ulpdu().saturating_sub(HEADER_LEN as u32);
        if !self.outbox.has_space(wanted + HEADER_LEN as u32) {
            return Ok(false);
        }
        let length = wanted.min(most);
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&number.to_be_bytes());
        header[8..].copy_from_slice(&length.to_be_bytes());
        self.outbox.fpdu(&header, length, |to| {
            for (at, to) in to.iter_mut().enumerate() {
                *to = octet(number, at);
            }
            Ok(())
        })?;
        self.made += 1;
        Ok(true)
    }

    /// Takes the FPDUs that have arrived. Returns whether each is as it was made.
    fn take(&mut self) -> Result<bool> {
        let (octets, arrived) = (&mut self.octets, &mut self.arrived);
        self.far.receive(|frames| {
            while let Some(frame) = next_fpdu(frames)? {
                let mut head = [0; LENGTH_LEN + HEADER_LEN];
                frame.copy_to_slice(0, &mut head)?;
                let ulpdu_len = usize::from(u16::from_be_bytes([head[0], head[1]]));
                let length = ulpdu_len.checked_sub(HEADER_LEN).ok_or(EINVAL)?;
                let payload = octets.get_mut(..length).ok_or(EINVAL)?;
                frame.copy_to_slice(head.len(), payload)?;
                let covered = frame.len() - CRC_LEN;
                let mut sum = [0; CRC_LEN];
                frame.copy_to_slice(covered, &mut sum)?;
                let number = *arrived;
                let intact = head[LENGTH_LEN..][..8] == number.to_be_bytes()
                    && head[LENGTH_LEN..][8..] == (length as u32).to_be_bytes()
                    && sum == crc::octets(!frame.crc32c(!0, 0, covered)?)
                    && payload
                        .iter()
                        .enumerate()
                        .all(|(at, found)| *found == octet(number, at));
                if !intact {
                    return Ok(false);
                }
                frame.take()?;
                *arrived += 1;
            }
            Ok(true)
        })
    }

    /// Receives until everything that was made has arrived. Returns whether it did, intact.
    fn drain(&mut self) -> Result<bool> {
        for _ in 0..TIMEOUT_MS {
            let flushed = self.flush()?;
            if !self.take()? {
                return Ok(false);
            }
            if flushed && self.arrived == self.made {
                return Ok(true);
            }
            pause();
        }
        Ok(false)
    }
}

pub(super) fn fpdus_arrive() -> Result<bool> {
    let mut ends = Ends::new()?;
    let mut paged = false;
    for _ in 0..3 {
        // Until TCP does not take all of it, one, two or three at a time.
        while ends.flush()? {
            for _ in 0..=ends.made % 3 {
                if !ends.make()? {
                    break;
                }
            }
            paged |= ends.outbox.has_pages();
        }
        if !ends.drain()? {
            return Ok(false);
        }
    }
    Ok(paged)
}

pub(super) fn pages_are_given_back() -> Result<bool> {
    let mut ends = Ends::new()?;
    let at_first = ends.outbox.has_pages();
    for _ in 0..LENGTHS.len() {
        ends.make()?;
        if !ends.drain()? {
            return Ok(false);
        }
    }
    let busy = ends.outbox.has_pages();
    for _ in 0..TIMEOUT_MS {
        if !ends.outbox.has_pages() {
            break;
        }
        pause();
        ends.flush()?;
    }
    let idle = ends.outbox.has_pages();
    // It goes on without them.
    ends.make()?;
    Ok(!at_first && busy && !idle && ends.drain()?)
}
