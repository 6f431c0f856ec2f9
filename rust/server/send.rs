// SPDX-License-Identifier: GPL-2.0

//! Sending, for whoever has something to send: replies, errors, and calls to the client.

use super::{
    config::{
        Config,
        BACKCHANNEL_CREDITS,
        WRITES, //
    },
    endpoint::Endpoint, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Release, //
        },
        Arc, //
    },
};
use proto::{
    conn::server::Event,
    credit,
    reverse, //
};
use rdma::{
    error::not_connected,
    qp::Unposted,
    send::{
        Buffer,
        Verb, //
    },
    transfer::Attached,
    QueuePair, //
};
use sunrpc::SvcCallback;

/// The way out of a connection.
#[derive(Clone)]
pub(crate) struct SendPath {
    pub(super) queue: Arc<QueuePair<Endpoint>>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) config: Config,
    /// Whether a reply may invalidate memory of the client.
    pub(super) invalidate: bool,
    /// The longest message, header included, that the client has a Receive for.
    pub(super) max: usize,
}

impl SendPath {
    /// The credits to grant.
    pub(super) fn credits(&self) -> u32 {
        self.endpoint.granted.load(Acquire)
    }

    /// Grants `credits` from now on, as Receives for them are posted first. Sleeps if `flags` allow it.
    pub(super) fn grant(&self, credits: u32, flags: Flags) -> Result {
        self.endpoint
            .make_places(Config::receives(credits)?, flags)?;
        let missing = self.endpoint.receives.fill(
            &self.queue,
            Config::messages(credits)?,
            self.config.inline.receive_size(),
            flags,
        )?;
        // If there are none somebody else granted as much, or more by now.
        if missing > 0 {
            self.endpoint.granted.store(credits, Release);
        }
        Ok(())
    }

    /// Grants more, if `serving` calls in work call for it and there is memory. Does not sleep.
    pub(super) fn raise_grant(&self, serving: u32) {
        let raised = credit::raised(self.credits(), serving, self.config.credits);
        if let Some(credits) = raised {
            // If not now, then after one of the next calls.
            let _ = self.grant(credits, GFP_NOWAIT);
        }
    }

    /// A Send buffer, as soon as there is one. [`None`] if the connection ends. Sleeps.
    pub(super) fn buffer(&self) -> Option<Buffer<Endpoint>> {
        self.endpoint
            .with_room((), |()| self.queue.make_send_buffer().ok_or(()))
    }

    /// Posts a Send and what goes with it, as soon as there is room. Sleeps.
    pub(super) fn post(
        &self,
        attached: Attached<Endpoint>,
        buffer: Buffer<Endpoint>,
        len: usize,
        verb: Verb,
    ) -> Result {
        WRITES.add(attached.requests());
        let posted = self
            .endpoint
            .with_room((attached, buffer), |(attached, buffer)| {
                match self.queue.post_reply(attached, buffer, len, verb) {
                    Ok(()) => Ok(Ok(())),
                    Err(Unposted::Full(attached, buffer)) => Err((attached, buffer)),
                    Err(Unposted::Lost(error)) => Ok(Err(error)),
                }
            });
        let result = posted.unwrap_or_else(|| Err(not_connected()));
        if result.is_err() {
            self.endpoint.lost(Event::Unanswered);
        }
        result
    }

    /// Calls the client (RFC 8167): a header without chunks, and the message behind it.
    pub(super) fn call(&self, xid: u32, call: &SvcCallback<'_>) -> Result {
        let mut buffer = self.buffer().ok_or_else(not_connected)?;
        match self.put_together(xid, call, buffer.bytes_mut()) {
            Ok(len) => self.post(Attached::Nothing, buffer, len, Verb::Send),
            Err(error) => {
                self.queue.put_back_send_buffer(buffer);
                // Nobody else finds out, as the connection is there.
                self.endpoint.lost(Event::Unanswered);
                Err(error)
            }
        }
    }

    fn put_together(&self, xid: u32, call: &SvcCallback<'_>, out: &mut [u8]) -> Result<usize> {
        let header = reverse::Header {
            xid,
            credits: BACKCHANNEL_CREDITS,
        };
        let at = header.emit(out).map_err(|_| EINVAL)?;
        let end = at.checked_add(call.len()).ok_or(EINVAL)?;
        if end > self.max {
            return Err(EMSGSIZE);
        }
        let place = out.get_mut(at..end).ok_or(EMSGSIZE)?;
        if call.copy_out(place)? != place.len() {
            return Err(EINVAL);
        }
        Ok(end)
    }
}
