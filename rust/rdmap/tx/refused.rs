// SPDX-License-Identifier: GPL-2.0

//! The request that a Terminate of the peer is about (RFC 5040, sections 4.8 and 7.2).
//!
//! A Terminate repeats the header of the segment that it refuses. The message number of that finds
//! a Send, a Read or an atomic operation; its STag and offset find a Write. Only a request that is
//! still in the queue is found: a Send or a Write may be complete by then, as the LLP had all of it
//! (RFC 5040, section 5.5, rule 14). What a Terminate says about no segment is about no request.

use crate::header::Header;
use crate::header::Model;
use crate::header::Untagged;
use crate::serial::low_u32;
use crate::stag::Range;
use crate::stag::Stag;
use crate::terminate::Terminate;
use crate::tx::Message;
use crate::tx::Operation;
use crate::tx::Progress;
use crate::tx::Slots;
use crate::tx::TxHalf;

impl<S: Slots> TxHalf<S> {
    /// Takes note of the Terminate of the peer. The request that it is about, if that is found,
    /// completes as refused once the stream is [closed](Self::close).
    pub fn refused(&mut self, terminate: &Terminate) {
        let Some(number) = self.request_of(terminate) else {
            return;
        };
        if let Some(posted) = self.requests.get_mut(number) {
            // One that failed here has its reason.
            if posted.progress != Progress::Failed {
                posted.progress = Progress::Refused(terminate.code.remote_error());
            }
        }
    }

    /// Finds the request that a Terminate is about.
    fn request_of(&self, terminate: &Terminate) -> Option<u64> {
        let header = terminate.header?;
        let (header, _) = Header::parse(header.as_slice()).ok()?;
        match header.model {
            Model::Tagged {
                response: false,
                stag,
                offset,
            } => self.write_of(stag, offset),
            Model::Untagged {
                message: Untagged::Send { .. } | Untagged::Immediate { .. },
                msn,
                ..
            } => self.message_of(msn, self.sends, |operation| {
                matches!(
                    operation,
                    Operation::Send { .. } | Operation::WriteImmediate { .. }
                )
            }),
            Model::Untagged {
                message: Untagged::ReadRequest | Untagged::AtomicRequest,
                msn,
                ..
            } => self.message_of(msn, self.reads, Operation::has_response),
            // Responses of this end, and its own Terminate.
            Model::Tagged { response: true, .. } | Model::Untagged { .. } => None,
        }
    }

    /// Returns the number behind the newest request of which a segment was handed over.
    fn begun(&self) -> u64 {
        let begins = matches!(self.partial, Some((Message::Request, _)));
        self.cutting.saturating_add(u64::from(begins))
    }

    /// Finds the oldest Write of which a segment may begin at this offset: one of no octets has a
    /// segment as well.
    fn write_of(&self, stag: Stag, offset: u64) -> Option<u64> {
        let contains = |range: Range| {
            let length = u64::from(range.length.max(1));
            let ahead = offset.checked_sub(range.offset);
            range.stag == stag && ahead.is_some_and(|ahead| ahead < length)
        };
        (self.requests.first()..self.begun()).find(|number| {
            let posted = self.requests.get(*number);
            matches!(
                posted.map(|posted| posted.request.operation),
                Some(Operation::Write(range) | Operation::WriteImmediate { range, .. })
                    if contains(range)
            )
        })
    }

    /// Finds the request with this message number in a queue of the peer, to which `sent` messages
    /// were sent, each by a request that `is_sent_there`.
    fn message_of(
        &self,
        msn: u32,
        sent: u64,
        is_sent_there: impl Fn(&Operation) -> bool,
    ) -> Option<u64> {
        let is_there = |number: &u64| {
            let posted = self.requests.get(*number);
            posted.is_some_and(|posted| is_sent_there(&posted.request.operation))
        };
        let first = self.requests.first();
        // The number of the newest message that is before all of these requests.
        let here = (first..self.cutting).filter(is_there);
        let mut message = here.fold(sent, |message, _| message.saturating_sub(1));
        (first..self.begun()).filter(is_there).find(|_| {
            message = message.saturating_add(1);
            low_u32(message) == msn
        })
    }
}
