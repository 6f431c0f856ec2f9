// SPDX-License-Identifier: GPL-2.0

//! The end of a connection whose peer is still to be given what was sent last.
//!
//! Octets that TCP has had no room for yet are handed over first, so that the stream ends behind an FPDU. If octets that arrived were never
//! received, TCP resets the connection when it is closed, and what was on its way is lost. So they are thrown away, until the peer
//! closes.

use crate::lower;
use crate::tcp::outbox::Outbox;
use crate::waker::Waker;
use kernel::prelude::*;
use socket::Connection;
use socket::State;

/// A connection that nobody needs any more.
pub(crate) struct Lingering {
    connection: Connection<Waker>,
    // What TCP does not have yet. Behind that, nothing more is sent.
    outbox: Option<Outbox>,
}

impl Lingering {
    /// Says that nothing more will be sent behind what waits. Sleeps for the socket's lock.
    pub(super) fn new(connection: Connection<Waker>, outbox: Outbox) -> Self {
        let mut this = Self {
            connection,
            outbox: Some(outbox),
        };
        // An error is found again by whoever looks at the connection next.
        let _ = this.flush();
        this
    }

    /// Hands over what waits. An error is the connection's.
    fn flush(&mut self) -> Result {
        let Some(outbox) = &mut self.outbox else {
            return Ok(());
        };
        match outbox.flush(&mut self.connection) {
            // An event will tell of room.
            Err(error) if error == EAGAIN => return Ok(()),
            flushed => flushed?,
        }
        self.outbox = None;
        self.connection.shutdown();
        Ok(())
    }
}

impl lower::Lingering for Lingering {
    fn step(&mut self) -> bool {
        let discarded = self.connection.receive(|frames| frames.discard());
        if self.flush().is_err() || discarded.is_err() {
            return true;
        }
        match self.connection.state() {
            State::Connecting | State::Open => false,
            // The peer sends nothing more, but may still receive.
            State::PeerClosed => self.outbox.is_none(),
            State::Closed | State::Failed(_) => true,
        }
    }

    fn give_up(self) {
        // TCP goes on alone, and has its own bounds for that.
        drop(self);
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if self.outbox.is_some() {
            // A stream that ends within an FPDU must not look as if it ended in order.
            self.connection.abort_when_dropped();
        }
    }
}
