// SPDX-License-Identifier: GPL-2.0

//! What a stream has: its connection, the engine's two halves, and the requests that they work on.

use crate::outbox::Outbox;
use crate::stream::requests::Requests;
use crate::waker::Waker;
use kernel::alloc::KVVec;
use provider::wr::ReceiveRequest;
use provider::wr::SendRequest;
use rdmap::order::Arrival;
use rdmap::sink;
use rdmap::sink::Sink;
use rdmap::source;
use rdmap::source::Source;
use socket::Connection;

/// The memory of the engine's queues.
pub(super) struct Slots;

impl sink::Slots for Slots {
    type Receives = KVVec<sink::Receive>;
    type Inbound = KVVec<sink::Inbound>;
    type Outstanding = KVVec<sink::Outstanding>;
}

impl source::Slots for Slots {
    type Requests = KVVec<source::Posted>;
    type Answers = KVVec<sink::Answer>;
}

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
pub(super) struct Parts {
    pub(super) connection: Connection<Waker>,
    pub(super) sink: Sink<Arrival, Slots>,
    pub(super) source: Source<Slots>,
    pub(super) outbox: Outbox,
    pub(super) sends: Requests<SendRequest>,
    pub(super) receives: Requests<ReceiveRequest>,
    pub(super) crc: bool,
    pub(super) send_markers: bool,
    // The passive side sends nothing before it has received an FPDU (RFC 5044, section 7.1.2).
    pub(super) gated: bool,
    // The peer ended it, or broke a rule to which there is no answer.
    pub(super) ended: bool,
}
