// SPDX-License-Identifier: GPL-2.0

//! Events of a session and the actions that they cause (RFC 5043, section 6).

use crate::order::Seq;
use crate::sctp::chunk::Function;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no session: the stream can be used.
    Free,
    /// The Initiate was sent. Its answer is awaited.
    AwaitAnswer,
    /// An Initiate was received. The upper layer decides.
    AwaitUser,
    /// Segments flow.
    Open,
    /// The upper layer disconnected. The peer's segments are delivered until its Terminate.
    Closing,
    /// A rule was broken, or a Terminate Message was sent. The peer's segments are ignored.
    Failing,
    /// The session is over, but chunks may still be under way.
    Quiesce,
}

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The upper layer connects: the association is up, the peer has announced DDP, and the stream
    /// is free.
    Connect {
        /// The enhanced functions are used.
        enhanced: bool,
    },
    /// A control message arrived.
    Control {
        /// Its function.
        function: Function,
        /// It is of the enhanced kind.
        enhanced: bool,
        /// Its position in the peer's order.
        seq: Seq,
        /// The limit of undecided Initiates is reached.
        full: bool,
    },
    /// A DDP Segment arrived. Its octets are not placed yet.
    Segment {
        /// Its position in the peer's order.
        seq: Seq,
    },
    /// All chunks below this sequence number are placed, and the messages that they complete are
    /// delivered. On a stream that failed they have just arrived.
    InOrderUpto(Seq),
    /// A chunk arrived that RFC 5043 does not know, or whose number is impossible.
    Illegal,
    /// The upper layer accepts.
    Accept,
    /// The upper layer refuses.
    Reject,
    /// The upper layer disconnects, and everything that it sent was passed to SCTP.
    Disconnect,
    /// The stream failed, and the Terminate Message, if there is one, was passed to SCTP.
    Fail,
    /// SCTP has nothing unacknowledged of this end (SCTP_SENDER_DRY_EVENT of RFC 6458).
    ///
    /// Such a notification may be stale: more can have been sent between its queueing and its
    /// reading. The caller holds the lock of the socket and verifies that no chunk is
    /// unacknowledged before it passes this event.
    SenderDry,
    /// The peer took too long.
    Timeout,
    /// The association is lost, or was restarted.
    Lost,
}

/// An indication to the upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indication {
    /// A peer wants to connect.
    Request,
    /// The peer accepted.
    Established,
    /// The peer's upper layer rejected.
    Rejected,
    /// The peer refused below its upper layer.
    Refused,
    /// The session is over.
    Closed,
    /// The association is lost, and the session with it.
    Lost,
}

/// The actions that an event causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// The control message to send. [`Session::is_enhanced`](super::Session::is_enhanced) says of
    /// which kind.
    pub send: Option<Function>,
    /// The indication to the upper layer.
    pub indication: Option<Indication>,
    /// The segment that arrived may go to DDP.
    pub place: bool,
    /// The association is to be aborted.
    pub abort: bool,
}
