// SPDX-License-Identifier: GPL-2.0

//! Open and ending sessions (RFC 5043, sections 6.1, 6.2 and 6.6).

use crate::sctp::chunk::Function;
use crate::sctp::session::event::Action;
use crate::sctp::session::event::Event;
use crate::sctp::session::event::State;
use crate::sctp::session::event::Tell;
use crate::sctp::session::state::Own;
use crate::sctp::session::state::Session;

impl Session {
    pub(super) fn open(&mut self, event: Event) -> Action {
        match event {
            Event::Segment { turn } => {
                if self.own == Own::Unconfirmed {
                    self.own = Own::Confirmed;
                }
                self.newest = self.newest.max(turn);
                if self.end.is_some_and(|end| turn >= end) {
                    return self.fail();
                }
                Action {
                    place: true,
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Terminate,
                turn,
                ..
            } => {
                // Nothing may follow the Terminate.
                if self.end.is_some() || self.newest >= turn {
                    return self.fail();
                }
                self.end = Some(turn);
                Action::default()
            }
            Event::Reached(turn) if self.end.is_some_and(|end| turn > end) => {
                self.state = State::Quiesce;
                self.peer_ended = true;
                Action {
                    send: self.end(),
                    tell: Some(Tell::Closed),
                    ..Action::default()
                }
            }
            Event::Control { .. } | Event::Illegal | Event::Fail => self.fail(),
            Event::Disconnect => {
                self.state = State::Closing;
                Action {
                    send: self.end(),
                    ..Action::default()
                }
            }
            _ => Action::default(),
        }
    }

    pub(super) fn closing(&mut self, event: Event) -> Action {
        let failing = self.state == State::Failing;
        let mut action = Action::default();
        match event {
            Event::Segment { turn } if !failing => {
                self.newest = self.newest.max(turn);
                match self.end.is_some_and(|end| turn >= end) {
                    true => return self.fail(),
                    false => action.place = true,
                }
            }
            Event::Control {
                function: Function::Terminate,
                turn,
                ..
            } => {
                self.end = Some(turn);
                // Nothing is delivered any more, so nothing is waited for.
                if failing {
                    action.tell = self.closed();
                }
            }
            Event::Reached(turn) if self.end.is_some_and(|end| turn > end) => {
                self.peer_ended = true;
                action.tell = self.closed();
            }
            // A session that failed stays as it is.
            Event::Control { .. } | Event::Illegal | Event::Fail => return self.fail(),
            Event::Timeout => {
                action.tell = self.closed();
                action.abort = true;
            }
            _ => {}
        }
        action
    }

    pub(super) fn quiesce(&mut self, event: Event) -> Action {
        match event {
            // The Terminate of a peer that broke a rule may never come, and without it the stream
            // is never free.
            Event::Timeout => {
                return Action {
                    abort: true,
                    ..Action::default()
                };
            }
            Event::Control {
                function: Function::Terminate,
                turn,
                ..
            } => self.end = Some(turn),
            // No chunk of the peer is under way any more.
            Event::Reached(turn) if self.end.is_some_and(|end| turn > end) => {
                self.peer_ended = true;
            }
            _ => {}
        }
        Action::default()
    }
}
