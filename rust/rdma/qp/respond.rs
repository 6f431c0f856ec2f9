// SPDX-License-Identifier: GPL-2.0

//! What a Responder posts: Reads, and replies with their Writes. They wait for room in the Send queue, and
//! what is more than a batch goes in several ([`crate::posted_transfer`]).

use super::QueuePair;
use crate::{
    dma::Direction,
    error::not_connected,
    posted_transfer::{
        RwContext, //
        Then,
    },
    send::{
        self,
        Verb, //
    },
    transfer::{
        self,
        Attached,
        ReadHandler, //
    },
    Handler, //
};
use kernel::{
    error::{
        Error,
        Result, //
    },
    prelude::*, //
};

impl<H: ReadHandler> QueuePair<H> {
    /// Posts the first `len` bytes of `buffer` as a Send, and what goes with it: with one doorbell, if
    /// that is not more than a batch.
    ///
    /// If there is no room for them, both come back, and [`Handler::send_resumed`] tells when to
    /// try again. Any other failure is the end of the connection; then it sleeps, as it does if there
    /// is more than a batch. One is that something is of another domain, or that Reads go with it.
    pub fn post_reply(
        &self,
        attached: Attached<H>,
        buffer: send::Buffer<H>,
        len: usize,
        verb: Verb,
    ) -> Result<(), Unposted<H>> {
        let count = attached.requests();
        if !attached
            .inner()
            .is_none_or(|memory| memory.is_for(self, Direction::ToDevice))
        {
            self.put_back_send_buffer(buffer);
            return Err(Unposted::Lost(EINVAL));
        }
        let mut sends = self.sends.lock();
        if !sends.open {
            sends.put_back(buffer);
            return Err(Unposted::Lost(not_connected()));
        }
        let room = count.min(self.batch);
        if room == 0 && count != 0 {
            sends.put_back(buffer);
            return Err(Unposted::Lost(EINVAL));
        }
        if !sends.enter(room) {
            return Err(Unposted::Full(attached, buffer));
        }
        let mut transfer = attached.into_inner();
        if let Some(transfer) = &mut transfer {
            transfer.room = room;
        }
        let transfer = match transfer {
            Some(transfer) if count > room => {
                drop(sends);
                let then = Then::Send { buffer, len, verb };
                return self.begin(transfer, then).map_err(Unposted::Lost);
            }
            transfer => transfer,
        };
        let result = self
            .post_message(&mut sends, transfer, 0, buffer, len, verb)
            .map_err(Unposted::Lost)?;
        let Err(error) = result else {
            return Ok(());
        };
        // Writes that precede the Send may have been posted.
        drop(sends);
        self.drain_sends();
        let spent = self.sends.lock().dequeue();
        drop(spent);
        Err(Unposted::Lost(error))
    }

    /// Posts `reads`; [`ReadHandler::read_done`] or [`ReadHandler::read_failed`] gives back `pulled`.
    ///
    /// If there is no room for them both come back at once, and [`Handler::send_resumed`] tells when
    /// to try again. Any other failure is the end of the connection. One is that there are none. Sleeps.
    pub fn post_reads(
        &self,
        mut reads: transfer::Prepared<H>,
        pulled: H::ReadDone,
    ) -> Result<(), UnpostedReads<H>> {
        if reads.is_empty() || !reads.0.is_for(self, Direction::FromDevice) {
            return Err(UnpostedReads::Lost(EINVAL));
        }
        let mut sends = self.sends.lock();
        if !sends.open {
            return Err(UnpostedReads::Lost(not_connected()));
        }
        // What they need is posted with the first batch.
        let room = reads.len().min(self.batch).max(reads.0.regions.len());
        if room == 0 || room > self.transfers {
            return Err(UnpostedReads::Lost(EINVAL));
        }
        if !sends.enter(room) {
            return Err(UnpostedReads::Full(reads, pulled));
        }
        drop(sends);
        reads.0.room = room;
        self.begin(reads.0, Then::ReadDone(pulled))
            .map_err(UnpostedReads::Lost)
    }

    /// Posts the first batch of `transfer`, which has its room. Sleeps.
    fn begin(&self, transfer: KBox<transfer::Inner<H>>, then: Then<H>) -> Result {
        let room = transfer.room;
        match RwContext::new(transfer, then, self) {
            Ok(posted) => posted.begin(self),
            Err(error) => {
                self.sends.lock().leave(room);
                Err(error)
            }
        }
    }
}

/// Why a reply was not posted.
pub enum Unposted<H: Handler> {
    /// There is no room for it now.
    Full(Attached<H>, send::Buffer<H>),
    /// The connection is at its end.
    Lost(Error),
}

/// Why Reads were not posted.
pub enum UnpostedReads<H: ReadHandler> {
    /// There is no room for them now.
    Full(transfer::Prepared<H>, H::ReadDone),
    /// The connection is at its end.
    Lost(Error),
}
