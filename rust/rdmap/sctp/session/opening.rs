// SPDX-License-Identifier: GPL-2.0

//! The opening of a session (RFC 5043, sections 6.3 to 6.5): an Initiate and its answer.

use crate::sctp::chunk::Function;
use crate::sctp::session::event::Action;
use crate::sctp::session::event::Event;
use crate::sctp::session::event::Indication;
use crate::sctp::session::event::State;
use crate::sctp::session::state::LocalEnd;
use crate::sctp::session::state::Session;

impl Session {
    pub(super) fn free(&mut self, event: Event) -> Action {
        match event {
            Event::Connect { enhanced } => {
                self.state = State::AwaitAnswer;
                self.enhanced = enhanced;
                self.active = true;
                self.local = LocalEnd::Unconfirmed;
                Action {
                    send: Some(Function::Initiate),
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Initiate,
                enhanced,
                seq: 0,
                full,
            } => {
                self.enhanced = enhanced;
                if full {
                    // The peer can have sent nothing but its Initiate.
                    self.peer_ended = true;
                    return self.refuse(None);
                }
                self.state = State::AwaitUser;
                Action {
                    indication: Some(Indication::Request),
                    ..Action::default()
                }
            }
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => self.refuse(None),
            _ => Action::default(),
        }
    }

    pub(super) fn await_answer(&mut self, event: Event) -> Action {
        let answer = match event {
            // It has overtaken the Accept. The active side has bound its queue pair, so it can be
            // placed.
            Event::Segment { seq } if seq > 0 => {
                self.newest = self.newest.max(seq);
                return Action {
                    place: self.local != LocalEnd::Deferred,
                    ..Action::default()
                };
            }
            Event::Control {
                function: Function::Terminate,
                seq,
                ..
            } if seq > 0 => {
                self.end = Some(seq);
                return Action::default();
            }
            Event::Control {
                function,
                enhanced,
                seq: 0,
                ..
            } if enhanced == self.enhanced || function == Function::Terminate => function,
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => {
                self.local = LocalEnd::Confirmed;
                return self.refuse(Some(Indication::Refused));
            }
            Event::Disconnect | Event::Fail => {
                self.local = LocalEnd::Deferred;
                return Action::default();
            }
            Event::Timeout => {
                self.state = State::Quiesce;
                return Action {
                    indication: Some(Indication::Refused),
                    abort: true,
                    ..Action::default()
                };
            }
            _ => return Action::default(),
        };
        let given_up = self.local == LocalEnd::Deferred;
        match answer {
            Function::Accept if given_up => {
                self.state = State::Failing;
                Action::default()
            }
            Function::Accept => {
                self.state = State::Open;
                self.local = LocalEnd::Confirmed;
                Action {
                    indication: Some(Indication::Established),
                    ..Action::default()
                }
            }
            Function::Reject | Function::Terminate => {
                self.state = State::Quiesce;
                self.local = LocalEnd::Ended;
                self.peer_ended = true;
                let indication = match answer {
                    Function::Reject => Indication::Rejected,
                    _ => Indication::Refused,
                };
                Action {
                    indication: Some(indication),
                    ..Action::default()
                }
            }
            // Both ends connected, on the same stream.
            Function::Initiate => {
                self.local = LocalEnd::Confirmed;
                self.refuse(Some(Indication::Refused))
            }
        }
    }

    pub(super) fn await_user(&mut self, event: Event) -> Action {
        match event {
            Event::Accept => {
                self.state = State::Open;
                self.local = LocalEnd::Unconfirmed;
                Action {
                    send: Some(Function::Accept),
                    ..Action::default()
                }
            }
            Event::Reject => {
                self.state = State::Quiesce;
                self.local = LocalEnd::Ended;
                self.peer_ended = true;
                Action {
                    send: Some(Function::Reject),
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Terminate,
                seq: 1,
                ..
            } => {
                self.peer_ended = true;
                self.refuse(Some(Indication::Closed))
            }
            // The active side waits for the answer before it sends a segment.
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => {
                self.refuse(Some(Indication::Closed))
            }
            // The active side sends nothing between its Initiate and the answer, and this Terminate
            // is the answer.
            Event::Timeout | Event::Disconnect | Event::Fail => {
                self.peer_ended = true;
                self.refuse(Some(Indication::Closed))
            }
            _ => Action::default(),
        }
    }
}
