// SPDX-License-Identifier: GPL-2.0

//! The state of a session, and its end (RFC 5043, sections 6.2 and 6.6).

use crate::order::Seq;
use crate::sctp::chunk::Function;
use crate::sctp::session::event::Action;
use crate::sctp::session::event::Indication;
use crate::sctp::session::event::State;

/// The progress of this end with its own control messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalEnd {
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
    pub(super) state: State,
    pub(super) enhanced: bool,
    pub(super) local: LocalEnd,
    pub(super) active: bool,
    // The sequence number of the peer's Terminate, and the highest one of a segment.
    pub(super) end: Option<Seq>,
    pub(super) newest: Seq,
    pub(super) peer_ended: bool,
    pub(super) sender_dry: bool,
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

    /// Says whether its first control messages are of the enhanced kind.
    #[inline]
    pub const fn is_enhanced(&self) -> bool {
        self.enhanced
    }

    /// Says whether segments may be sent: they cannot overtake a control message (section 6.6).
    #[inline]
    pub fn may_send(&self) -> bool {
        self.state == State::Open
    }

    /// Sends the Terminate, now or when it can no longer overtake.
    pub(super) fn end(&mut self) -> Option<Function> {
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
    pub(super) fn refuse(&mut self, indication: Option<Indication>) -> Action {
        self.state = State::Quiesce;
        Action {
            send: self.end(),
            indication,
            ..Action::default()
        }
    }

    pub(super) fn fail(&mut self) -> Action {
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

    pub(super) fn closed(&mut self) -> Option<Indication> {
        self.state = State::Quiesce;
        Some(Indication::Closed)
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}
