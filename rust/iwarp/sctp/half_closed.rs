// SPDX-License-Identifier: GPL-2.0

//! The end of a session: its Terminate, the peer's, and then the end of the association.
//!
//! A Terminate that could overtake the first control message of this end waits until that was
//! acknowledged (RFC 5043, section 6.6). Chunks of the peer are discarded; unread ones would make
//! SCTP abort the association, and lose everything that is under way.

use crate::llp;
use crate::sctp::association::DdpAssociation;
use crate::sctp::recv::RecvOutcome;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Chunk;
use rdmap::sctp::chunk::Function;

/// The time that the peer has for its Terminate, in milliseconds.
const TERMINATE_MS: i64 = 1_000;

/// Chunks that are discarded in a row, so that a peer that never stops cannot keep the association
/// from ending.
const DISCARD_BUDGET: usize = 4_096;

/// A session in the course of closing.
pub(crate) struct HalfClosed {
    assoc: DdpAssociation,
    since: Instant<Monotonic>,
    // The peer has sent its last control message.
    peer_done: bool,
    // This end has shut the association down.
    is_shut_down: bool,
}

impl HalfClosed {
    /// Begins to close a session. `assoc` may still have a Terminate to send.
    pub(super) fn new(assoc: DdpAssociation) -> Self {
        Self {
            peer_done: assoc.session.state() == rdmap::sctp::session::State::Quiesce
                || assoc.session.state() == rdmap::sctp::session::State::Free,
            assoc,
            since: Instant::now(),
            is_shut_down: false,
        }
    }

    /// Discards the chunks that arrived, up to a budget. Says whether the association is over.
    fn drain(&mut self) -> bool {
        for _ in 0..DISCARD_BUDGET {
            match self.assoc.recv() {
                RecvOutcome::Nothing => return false,
                RecvOutcome::End | RecvOutcome::Lost | RecvOutcome::Violation => return true,
                RecvOutcome::Data(data) => {
                    if let Some(Chunk {
                        body: Body::Control(control),
                        ..
                    }) = data.chunk()
                    {
                        self.peer_done |= control.function == Function::Terminate;
                    }
                    self.assoc.return_buffer(data);
                }
            }
        }
        false
    }
}

impl llp::HalfClosed for HalfClosed {
    fn step(&mut self) -> bool {
        let over = self.drain();
        self.assoc.note_acked_and_watch();
        let waited = self.since.elapsed().as_millis();
        if over || self.assoc.flush().is_err() {
            return true;
        }
        let peer_done = self.peer_done || waited > TERMINATE_MS;
        if self.assoc.terminate_sent && peer_done && !self.is_shut_down {
            self.assoc.shutdown();
            self.is_shut_down = true;
        }
        false
    }

    fn abort(self) {
        self.assoc.abort();
    }
}
