// SPDX-License-Identifier: GPL-2.0

//! The end of a connection whose peer is still to receive the last octets.
//!
//! Octets that TCP has had no space for yet are handed over first, so that the stream ends behind
//! an FPDU. If received octets were left unread, TCP would reset the connection when it is closed,
//! and octets under way would be lost. So they are discarded, until the peer closes.

use crate::event_target::EventTarget;
use crate::llp;
use crate::tcp::outbox::Outbox;
use kernel::prelude::*;
use socket::ConnState;
use socket::TcpConn;

/// A connection that is shut down for sending.
pub(crate) struct HalfClosed {
    connection: TcpConn<EventTarget>,
    // Octets that TCP does not have yet. Behind them, nothing more is sent.
    outbox: Option<Outbox>,
}

impl HalfClosed {
    /// Shuts down for sending behind the octets that wait. Sleeps for the socket's lock.
    pub(super) fn new(connection: TcpConn<EventTarget>, outbox: Outbox) -> Self {
        let mut this = Self {
            connection,
            outbox: Some(outbox),
        };
        // The next look at the connection finds an error again.
        let _ = this.flush();
        this
    }

    /// Hands over the octets that wait. An error is the connection's.
    fn flush(&mut self) -> Result {
        let Some(outbox) = &mut self.outbox else {
            return Ok(());
        };
        match outbox.flush(&mut self.connection) {
            // An event will report space.
            Err(error) if error == EAGAIN => return Ok(()),
            flushed => flushed?,
        }
        self.outbox = None;
        self.connection.shutdown();
        Ok(())
    }
}

impl llp::HalfClosed for HalfClosed {
    fn step(&mut self) -> bool {
        let discarded = self.connection.receive(|frames| frames.discard());
        if self.flush().is_err() || discarded.is_err() {
            return true;
        }
        match self.connection.state() {
            ConnState::Connecting | ConnState::Open => false,
            // The peer sends nothing more, but may still receive.
            ConnState::PeerClosed => self.outbox.is_none(),
            ConnState::Closed | ConnState::Failed(_) => true,
        }
    }

    fn abort(self) {
        // TCP continues alone, and has its own limits for that.
        drop(self);
    }
}

impl Drop for HalfClosed {
    fn drop(&mut self) {
        if self.outbox.is_some() {
            // A stream that ends within an FPDU must not look as if it ended in order.
            self.connection.abort_when_dropped();
        }
    }
}
