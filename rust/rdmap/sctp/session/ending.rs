// SPDX-License-Identifier: GPL-2.0

//! Open and ending sessions (RFC 5043, sections 6.1, 6.2 and 6.6).

use crate::sctp::chunk::Function;
use crate::sctp::session::event::Action;
use crate::sctp::session::event::Event;
use crate::sctp::session::event::Indication;
use crate::sctp::session::event::State;
use crate::sctp::session::state::LocalEnd;
use crate::sctp::session::state::Session;

impl Session {
    pub(super) fn open(&mut self, event: Event) -> Action {
        match event {
            Event::Segment { seq } => {
                if self.local == LocalEnd::Unconfirmed {
                    self.local = LocalEnd::Confirmed;
                }
                self.newest = self.newest.max(seq);
                if self.end.is_some_and(|end| seq >= end) {
                    return self.fail();
                }
                Action {
                    place: true,
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Terminate,
                seq,
                ..
            } => {
                // Nothing may follow the Terminate.
                if self.end.is_some() || self.newest >= seq {
                    return self.fail();
                }
                self.end = Some(seq);
                Action::default()
            }
            Event::InOrderUpto(seq) if self.end.is_some_and(|end| seq > end) => {
                self.state = State::Quiesce;
                self.peer_ended = true;
                Action {
                    send: self.end(),
                    indication: Some(Indication::Closed),
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
            Event::Segment { seq } if !failing => {
                self.newest = self.newest.max(seq);
                match self.end.is_some_and(|end| seq >= end) {
                    true => return self.fail(),
                    false => action.place = true,
                }
            }
            Event::Control {
                function: Function::Terminate,
                seq,
                ..
            } => {
                self.end = Some(seq);
                // Nothing is delivered any more, so nothing is waited for.
                if failing {
                    action.indication = self.closed();
                }
            }
            Event::InOrderUpto(seq) if self.end.is_some_and(|end| seq > end) => {
                self.peer_ended = true;
                action.indication = self.closed();
            }
            // A session that failed stays as it is.
            Event::Control { .. } | Event::Illegal | Event::Fail => return self.fail(),
            Event::Timeout => {
                action.indication = self.closed();
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
                seq,
                ..
            } => self.end = Some(seq),
            // No chunk of the peer is under way any more.
            Event::InOrderUpto(seq) if self.end.is_some_and(|end| seq > end) => {
                self.peer_ended = true;
            }
            _ => {}
        }
        Action::default()
    }
}
