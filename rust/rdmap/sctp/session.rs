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
//!
//! The RFC has no sequence for a local end between the Initiate and its answer. This end then waits
//! for the answer and terminates; if none comes it drops the association.

mod ending;
mod event;
mod opening;
mod state;
#[cfg(test)]
mod tests;

use crate::sctp::chunk::Function;
pub use crate::sctp::session::event::Action;
pub use crate::sctp::session::event::Event;
pub use crate::sctp::session::event::Indication;
pub use crate::sctp::session::event::State;
use crate::sctp::session::state::LocalEnd;
pub use crate::sctp::session::state::Session;

impl Session {
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

    /// Says whether this event proves that the peer has the first control message of this end. The
    /// passive side sends nothing before it has the Initiate; the active side sends segments only
    /// after the Accept.
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
