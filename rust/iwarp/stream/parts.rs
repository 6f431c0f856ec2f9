// SPDX-License-Identifier: GPL-2.0

//! What a stream has: its connection, the engine's two halves, and the requests that they work on.

use crate::lower::Open;
use crate::stream::receiver::Slots;
use crate::stream::requests::Requests;
use provider::wr::ReceiveRequest;
use provider::wr::SendRequest;
use rdmap::sink::Sink;
use rdmap::source::Source;
use rdmap::violation::Code;

/// What a round led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// There may be more to do at once.
    More,
    /// Nothing to do until something happens.
    Idle,
    /// The stream is over. The peer still has to be given what was sent last, if `graceful`.
    Over {
        /// A Terminate was sent, or the peer closed in order.
        graceful: bool,
    },
}

/// What a stream has.
pub(super) struct Parts<O: Open> {
    pub(super) open: O,
    pub(super) sink: Sink<O::Order, Slots>,
    pub(super) source: Source<Slots>,
    pub(super) sends: Requests<SendRequest>,
    pub(super) receives: Requests<ReceiveRequest>,
    // Why the peer ended the stream, if it said so.
    pub(super) terminated: Option<Code>,
}
