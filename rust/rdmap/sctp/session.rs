// SPDX-License-Identifier: GPL-2.0

//! The session of a DDP stream over SCTP (RFC 5043, section 6): Initiate, its answer, segments,
//! Terminate.
//!
//! Chunks are considered in the order of their DDP-SSNs, although they arrive in any; only the
//! placement of a segment's octets does not wait. A control message is unordered as well, so one
//! that could overtake an earlier one of this end is deferred until that one is known to have
//! arrived (section 6.6): the peer answered, or sent a segment, or SCTP says that everything is
//! acknowledged.
//!
//! RFC 5043 asks for a Terminate from one side. This end answers every Terminate in an open session
//! with its own, and does not insist that the peer does so.
//!
//! There are the sequences of the RFC and no others (section 6.5): no consumer asks for one, and
//! none needs one.
// Argues for S6.5-1, S6.5-2.
//!
//! The RFC has no sequence for a local end between the Initiate and its answer. This end then waits
//! for the answer and terminates; if none comes it drops the association.

#[cfg(test)]
mod tests;
mod transitions;

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
    /// The control message to send. [`Session::is_enhanced`] says of
    /// which kind.
    pub send: Option<Function>,
    /// The indication to the upper layer.
    pub indication: Option<Indication>,
    /// The segment that arrived may go to DDP.
    pub place: bool,
    /// The association is to be aborted.
    pub abort: bool,
}

/// The progress of this end with its own control messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalEnd {
    /// None was sent.
    NotBegun,
    /// The first one was sent, and may not have arrived.
    Unconfirmed,
    /// The first one may not have arrived, and the Terminate waits until it has.
    Deferred,
    /// The first one has arrived.
    Confirmed,
    /// The last one was sent.
    Ended,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    state: State,
    enhanced: bool,
    local: LocalEnd,
    active: bool,
    // The sequence number of the peer's Terminate, and the highest one of a segment.
    end: Option<Seq>,
    newest: Seq,
    peer_ended: bool,
    sender_dry: bool,
}
impl Session {
    /// Creates a session that has not begun: the stream is free.
    #[inline]
    pub const fn new() -> Self {
        Self {
            state: State::Free,
            enhanced: false,
            local: LocalEnd::NotBegun,
            active: false,
            end: None,
            newest: 0,
            peer_ended: false,
            sender_dry: true,
        }
    }

    /// Returns the state.
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns whether its first control messages are of the enhanced kind.
    #[inline]
    pub const fn is_enhanced(&self) -> bool {
        self.enhanced
    }

    /// Returns whether segments may be sent: they cannot overtake a control message (section 6.6).
    #[inline]
    pub fn may_send(&self) -> bool {
        self.state == State::Open
    }

    /// Sends the Terminate, now or when it can no longer overtake.
    fn end(&mut self) -> Option<Function> {
        match self.local {
            LocalEnd::Unconfirmed | LocalEnd::Deferred => {
                self.local = LocalEnd::Deferred;
                None
            }
            LocalEnd::Ended => None,
            LocalEnd::NotBegun | LocalEnd::Confirmed => {
                self.local = LocalEnd::Ended;
                Some(Function::Terminate)
            }
        }
    }

    /// Ends a session in which the peer broke a rule before it was open.
    fn refuse(&mut self, indication: Option<Indication>) -> Action {
        self.state = State::Quiesce;
        Action {
            send: self.end(),
            indication,
            ..Action::default()
        }
    }

    fn fail(&mut self) -> Action {
        self.state = State::Failing;
        let send = self.end();
        let mut action = Action {
            send,
            ..Action::default()
        };
        // The peer's last chunk may be there already.
        if self.end.is_some() {
            action.indication = self.closed();
        }
        action
    }

    fn closed(&mut self) -> Option<Indication> {
        self.state = State::Quiesce;
        Some(Indication::Closed)
    }

    /// Handles an event, and returns the actions that follow.
    pub fn on(&mut self, event: Event) -> Action {
        let mut action = match (self.state, event) {
            (_, Event::Lost) => self.lost(),
            (_, Event::SenderDry) => self.acknowledged(),
            (State::Free, _) => self.free(event),
            (State::AwaitAnswer, _) => self.await_answer(event),
            (State::AwaitUser, _) => self.await_user(event),
            (State::Open, _) => self.open(event),
            (State::Closing | State::Failing, _) => self.closing(event),
            (State::Quiesce, _) => self.quiesce(event),
        };
        // A session that was ended after its Initiate waits for the answer all the same.
        if self.local == LocalEnd::Deferred
            && self.state != State::AwaitAnswer
            && self.confirms(event)
        {
            self.local = LocalEnd::Ended;
            action.send = Some(Function::Terminate);
        }
        if action.send.is_some() {
            self.sender_dry = false;
        }
        if self.state == State::Quiesce && self.sender_dry && self.peer_ended {
            *self = Self::new();
        }
        action
    }

    /// Returns whether this event proves that the peer has the first control message of this end.
    /// The passive side sends nothing before it has the Initiate; the active side sends segments
    /// only after the Accept.
    fn confirms(&self, event: Event) -> bool {
        match event {
            Event::SenderDry | Event::Segment { .. } => true,
            Event::Control { .. } | Event::Illegal => self.active,
            _ => false,
        }
    }

    fn lost(&mut self) -> Action {
        let indication = match self.state {
            State::Free | State::Quiesce => None,
            _ => Some(Indication::Lost),
        };
        *self = Self::new();
        Action {
            indication,
            ..Action::default()
        }
    }

    fn acknowledged(&mut self) -> Action {
        self.sender_dry = true;
        if self.local == LocalEnd::Unconfirmed {
            self.local = LocalEnd::Confirmed;
        }
        Action::default()
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}
