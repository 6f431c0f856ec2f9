// SPDX-License-Identifier: GPL-2.0

//! The end of a session: its Terminate, the peer's, and then the end of the association.
//!
//! A Terminate that could overtake the first control message of this end waits until that was
//! acknowledged (RFC 5043, section 6.6). Chunks of the peer are discarded; unread ones would make
//! SCTP abort the association, and lose everything that is under way.

use crate::lower;
use crate::sctp::heard::Heard;
use crate::sctp::peer::Peer;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Chunk;
use rdmap::sctp::chunk::Function;

/// The time that the peer has for its Terminate, in milliseconds.
const TERMINATE_MS: i64 = 1_000;

/// Chunks that are discarded in a row, so that a peer that never stops cannot keep the association
/// from ending.
const BATCH: usize = 4_096;

/// A session in the course of closing.
pub(crate) struct Lingering {
    peer: Peer,
    since: Instant<Monotonic>,
    // The peer has sent its last control message.
    heard: bool,
    // This end has shut the association down.
    shut: bool,
}

impl Lingering {
    /// Begins to close a session. `peer` may still have a Terminate to send.
    pub(super) fn new(peer: Peer) -> Self {
        Self {
            heard: peer.session.state() == rdmap::sctp::session::State::Quiesce
                || peer.session.state() == rdmap::sctp::session::State::Free,
            peer,
            since: Instant::now(),
            shut: false,
        }
    }

    /// Discards the chunks that arrived, up to a budget. Says whether the association is over.
    fn drain(&mut self) -> bool {
        for _ in 0..BATCH {
            match self.peer.hear() {
                Heard::Nothing => return false,
                Heard::End | Heard::Lost | Heard::Wrong => return true,
                Heard::Data(data) => {
                    if let Some(Chunk {
                        body: Body::Control(control),
                        ..
                    }) = data.chunk()
                    {
                        self.heard |= control.function == Function::Terminate;
                    }
                    self.peer.give_back(data);
                }
            }
        }
        false
    }
}

impl lower::Lingering for Lingering {
    fn step(&mut self) -> bool {
        let over = self.drain();
        self.peer.settle_soon();
        let waited = self.since.elapsed().as_millis();
        if over || self.peer.flush().is_err() {
            return true;
        }
        let heard = self.heard || waited > TERMINATE_MS;
        if self.peer.terminated && heard && !self.shut {
            self.peer.shutdown();
            self.shut = true;
        }
        false
    }

    fn give_up(self) {
        self.peer.abort();
    }
}
