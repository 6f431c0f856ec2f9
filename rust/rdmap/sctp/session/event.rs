// SPDX-License-Identifier: GPL-2.0

//! What happens to a session, and what comes of it (RFC 5043, section 6).

use crate::order::Turn;
use crate::sctp::chunk::Function;

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none: the stream can be used.
    Free,
    /// The Initiate was sent. Its answer is awaited.
    AwaitAnswer,
    /// An Initiate was received. The upper layer decides.
    AwaitUser,
    /// Segments flow.
    Open,
    /// The upper layer disconnected. What the peer still sends is delivered until its Terminate.
    Closing,
    /// A rule was broken, or a Terminate Message was sent. What the peer still sends means nothing.
    Failing,
    /// Over, but chunks may still be on their way.
    Quiesce,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The upper layer connects: the association is up, the peer has announced DDP, and the stream is free.
    Connect {
        /// With the enhanced functions.
        enhanced: bool,
    },
    /// A control message arrived, of this turn.
    Control {
        /// What it says.
        function: Function,
        /// It is of the enhanced kind.
        enhanced: bool,
        /// Its place in the peer's order.
        turn: Turn,
        /// There are as many undecided Initiates as may be.
        full: bool,
    },
    /// A DDP Segment arrived, of this turn. Its octets are not placed yet.
    Segment {
        /// Its place in the peer's order.
        turn: Turn,
    },
    /// All turns below this one are placed, and what they complete is delivered. On a stream that failed: have arrived.
    Reached(Turn),
    /// A chunk arrived that RFC 5043 does not know, or whose number cannot be.
    Illegal,
    /// The upper layer accepts.
    Accept,
    /// The upper layer refuses.
    Reject,
    /// The upper layer disconnects, and all that it had to send is handed to SCTP.
    Disconnect,
    /// The stream failed, and the Terminate Message, if there is one, is handed to SCTP.
    Fail,
    /// All that this end sent is acknowledged.
    ///
    /// A notification of SCTP's may be stale: more can have been sent between its queueing and its reading. The caller
    /// holds the lock of the socket and sees that no chunk is unacknowledged before it passes this event.
    Dry,
    /// The peer took too long.
    Timeout,
    /// The association is lost, or was restarted.
    Lost,
}

/// What the upper layer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// A peer wants to connect.
    Request,
    /// The peer accepted.
    Established,
    /// The peer's upper layer refused.
    Rejected,
    /// The peer refused, but not its upper layer.
    Refused,
    /// The session is over.
    Closed,
    /// The association is gone, and the session with it.
    Lost,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Send this control message. [`Session::is_enhanced`](super::Session::is_enhanced) says of which kind.
    pub send: Option<Function>,
    /// Tell the upper layer.
    pub tell: Option<Tell>,
    /// The segment that arrived may go to DDP.
    pub place: bool,
    /// Abort the association.
    pub abort: bool,
}
