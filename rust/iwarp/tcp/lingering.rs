// SPDX-License-Identifier: GPL-2.0

//! The end of a connection whose peer is still to be given what was sent last.
//!
//! If octets that arrived were never received, TCP resets the connection when it is closed, and what was on its way is lost. So
//! they are thrown away, until the peer closes.

use crate::lower;
use crate::waker::Waker;
use socket::Connection;
use socket::State;

/// A connection that nobody needs any more.
pub(crate) struct Lingering {
    connection: Connection<Waker>,
}

impl Lingering {
    /// Says that nothing more will be sent.
    pub(super) fn new(connection: Connection<Waker>) -> Self {
        connection.shutdown();
        Self { connection }
    }
}

impl lower::Lingering for Lingering {
    fn step(&mut self) -> bool {
        let discarded = self.connection.receive(|frames| frames.discard());
        let open = matches!(self.connection.state(), State::Connecting | State::Open);
        discarded.is_err() || !open
    }

    fn give_up(self) {
        // TCP goes on alone, and has its own bounds for that.
        drop(self);
    }
}
