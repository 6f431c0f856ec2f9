// SPDX-License-Identifier: GPL-2.0

//! Sending: segments of requests and responses, as many as one call takes.

use crate::llp;
use crate::prelude::*;
use provider::{
    borrowed::Piece,
    region::Access,
    wr::{
        Operation,
        Run,
        SgList, //
    }, //
};
use rdmap::{
    header::ReadRequest,
    stag,
    tx, //
};

/// Copies octets one behind the other.
struct Gather<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl<'a> Gather<'a> {
    fn new(to: &'a mut [u8]) -> Self {
        Self { to, at: 0 }
    }

    /// Returns the place of the next octets.
    fn next(&mut self, length: usize) -> Result<&mut [u8]> {
        let rest = self.to.get_mut(self.at..).ok_or(EINVAL)?;
        let place = rest.get_mut(..length).ok_or(EINVAL)?;
        self.at = self.at.saturating_add(length);
        Ok(place)
    }

    fn piece(&mut self, piece: Piece<'_>) -> Result {
        piece.copy_to(self.next(usize::try_from(piece.len())?)?)
    }

    fn run(&mut self, memory: &RegisteredMemory<'_>, run: Run<'_>) -> Result {
        match run {
            Run::Inline(octets) => {
                self.next(octets.len())?.copy_from_slice(octets);
                Ok(())
            }
            run => memory.pieces(run, Access::Read, |piece| self.piece(piece)),
        }
    }
}

/// Returns the octets of a part of a list, if all of it is in one region, and in one SGE.
fn only_range(list: &SgList, offset: u32, length: u32) -> Option<stag::Range> {
    let mut only = None;
    let found = list.runs(offset, length, |run| match run {
        Run::Registered {
            stag,
            offset,
            length,
        } if only.is_none() => {
            let stag = Stag(stag);
            only = Some(stag::Range {
                stag,
                offset,
                length,
            });
            Ok(())
        }
        _ => Err(EINVAL),
    });
    found.ok().and(only)
}

/// Adds a segment to `conn` whose payload is sent from where it is. [`None`] if it is in too many
/// pieces for that. The region is not locked meanwhile, as the socket's lock comes before that.
fn lend<O: EstablishedConn>(
    conn: &mut O,
    header: &[u8],
    range: stag::Range,
    memory: &RegisteredMemory<'_>,
) -> Result<Option<llp::SendStatus>, llp::SendError> {
    let sent = memory.lend(range, Access::Read, |lent| {
        conn.add_pieces(header, lent.pieces())
    });
    match sent {
        Ok(sent) => sent.map(Some),
        Err(error) if error == E2BIG => Ok(None),
        Err(_) => Err(llp::SendError::Payload),
    }
}

impl<O: EstablishedConn> Stream<O> {
    /// Sends segments, as many as there is space for, in one call. Returns whether there may be
    /// more. An error is one of the connection.
    pub(super) fn send(
        &mut self,
        shared: &DeviceState,
        memory: &RegisteredMemory<'_>,
    ) -> Result<bool> {
        if !self.flush()? {
            return Ok(false);
        }
        if !self.conn.may_send() && self.tx.fault().is_none() {
            return Ok(false);
        }
        let mut more = true;
        while more && self.conn.has_space() {
            more = self.send_next(shared, memory)?;
        }
        Ok(self.flush()? && more)
    }

    /// Hands over the added segments. Returns false if an event will report space.
    fn flush(&mut self) -> Result<bool> {
        match self.conn.flush() {
            Ok(()) => {
                // RFC 5040, section 5.5, rule 14: a request is complete when the layer below has
                // all of it. Octets that were copied and wait here would be lost with the
                // connection. Nothing is added while something waits, so all go at once.
                self.tx.release(u64::MAX);
                Ok(true)
            }
            Err(error) if error == EAGAIN => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds the next segment, or carries out the next local operation. Returns false if there is
    /// none, or no space for it.
    fn send_next(&mut self, shared: &DeviceState, memory: &RegisteredMemory<'_>) -> Result<bool> {
        let Some(outgoing) = self.tx.peek(self.conn.mulpdu(), memory) else {
            return Ok(false);
        };
        let (header, payload) = match &outgoing {
            tx::Outgoing::Segment {
                header,
                payload,
                last_of_response,
                ..
            } => {
                if let Some(number) = last_of_response {
                    self.rx.free_inbound(*number).map_err(|_| EINVAL)?;
                }
                (header, *payload)
            }
            tx::Outgoing::Read {
                number,
                header,
                request,
            } => {
                self.expect(*number, request)?;
                (header, tx::Payload::None)
            }
            tx::Outgoing::Atomic { number, header } => {
                // Later it would be too late: the peer's memory would have changed.
                if !self.has_result(*number, memory) {
                    self.tx.abandon();
                    return Ok(true);
                }
                self.rx.expect_atomic(*number).map_err(|_| EINVAL)?;
                (header, tx::Payload::None)
            }
            tx::Outgoing::Local(number) => return self.carry_out(*number, memory).map(|()| true),
        };
        let terminates = self.tx.fault().is_some();
        match self.add(header.as_slice(), payload, memory) {
            Ok(llp::SendStatus::Queued) => {
                shared.counters.add(Count::Sent);
                if terminates {
                    shared.counters.add(Count::TerminateSent);
                }
                self.tx.commit().map_err(|_| EINVAL)?;
                Ok(true)
            }
            // The next one is the same again, or a shorter one.
            Ok(llp::SendStatus::TooLong) => Ok(true),
            Ok(llp::SendStatus::NoSpace) => Ok(false),
            Err(llp::SendError::Connection) => Err(EIO),
            // The memory is not there: the rest of a request cannot be sent, and a response must
            // not be.
            Err(llp::SendError::Payload) if terminates => Err(EIO),
            Err(llp::SendError::Payload) => {
                match payload {
                    // Only the first fault counts.
                    tx::Payload::Response(_) => drop(self.tx.fail(Fault::LOCAL)),
                    tx::Payload::Request { .. } | tx::Payload::None => self.tx.abandon(),
                }
                Ok(true)
            }
        }
    }

    /// Returns whether the memory for the result of an atomic operation is there.
    fn has_result(&mut self, number: u64, memory: &RegisteredMemory<'_>) -> bool {
        let Some(request) = self.sends.get(number) else {
            return false;
        };
        let list = &request.sg_list;
        list.runs(0, list.len(), |run| {
            memory.pieces(run, Access::Write, |_| Ok(()))
        })
        .is_ok()
    }

    /// Registers a Read with the receive half.
    fn expect(&mut self, number: u64, request: &ReadRequest) -> Result {
        let invalidate = match self.sends.get(number).map(|posted| &posted.operation) {
            Some(Operation::Read { invalidate, .. }) => *invalidate,
            _ => false,
        };
        let expected = self.rx.expect(number, request.sink(), invalidate);
        expected.map_err(|_| EINVAL)
    }

    /// Adds a segment of a header and its payload.
    fn add(
        &mut self,
        header: &[u8],
        payload: tx::Payload,
        memory: &RegisteredMemory<'_>,
    ) -> Result<llp::SendStatus, llp::SendError> {
        match payload {
            tx::Payload::None => self.conn.add(header, 0, |_| Ok(())),
            tx::Payload::Request {
                number,
                offset,
                length,
            } => {
                let request = self.sends.get(number).ok_or(llp::SendError::Payload)?;
                let list = &request.sg_list;
                if O::GATHERS {
                    if let Some(pieces) = list.local(offset, length) {
                        return self.conn.add_pieces(header, pieces);
                    }
                    if let Some(range) = only_range(list, offset, length) {
                        if let Some(sent) = lend(&mut self.conn, header, range, memory)? {
                            return Ok(sent);
                        }
                    }
                }
                self.conn.add(header, length, |to| {
                    let mut gather = Gather::new(to);
                    let copy = |run: Run<'_>| gather.run(memory, run);
                    list.runs(offset, length, copy)
                })
            }
            tx::Payload::Response(range) => {
                if O::GATHERS {
                    if let Some(sent) = lend(&mut self.conn, header, range, memory)? {
                        return Ok(sent);
                    }
                }
                self.conn.add(header, range.length, |to| {
                    let mut gather = Gather::new(to);
                    memory.copy(range, Access::Read, |piece| gather.piece(piece))
                })
            }
        }
    }

    /// Carries out a local operation: registers or invalidates memory.
    fn carry_out(&mut self, number: u64, memory: &RegisteredMemory<'_>) -> Result {
        let done = match self.sends.get(number).map(|request| &request.operation) {
            Some(Operation::Register {
                region,
                registration,
            }) => region.pd() == memory.pd && region.register(*registration).is_ok(),
            Some(Operation::Invalidate(stag)) => memory.invalidate_local(Stag(*stag)),
            _ => false,
        };
        self.tx.commit().map_err(|_| EINVAL)?;
        match done {
            true => self.tx.done(number).map_err(|_| EINVAL),
            false => {
                self.tx.abandon();
                Ok(())
            }
        }
    }
}
