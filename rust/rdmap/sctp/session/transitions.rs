// SPDX-License-Identifier: GPL-2.0

//! The transitions of a session (RFC 5043, section 6): its opening, by an Initiate and its answer,
//! and its end.

use crate::sctp::chunk::Function;
use crate::sctp::session::{Action, Event, Indication, LocalEnd, Session, State};

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
        match event {
            // It has overtaken the Accept. The active side has bound its queue pair, so it can be
            // placed.
            Event::Segment { seq } if seq > 0 => {
                self.newest = self.newest.max(seq);
                Action {
                    place: self.local != LocalEnd::Deferred,
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Terminate,
                seq,
                ..
            } if seq > 0 => {
                self.end = Some(seq);
                Action::default()
            }
            Event::Control {
                function,
                enhanced,
                seq: 0,
                ..
            } if enhanced == self.enhanced || function == Function::Terminate => {
                self.answered(function)
            }
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => {
                self.local = LocalEnd::Confirmed;
                self.refuse(Some(Indication::Refused))
            }
            Event::Disconnect | Event::Fail => {
                self.local = LocalEnd::Deferred;
                Action::default()
            }
            Event::Timeout => {
                self.state = State::Quiesce;
                Action {
                    indication: Some(Indication::Refused),
                    abort: true,
                    ..Action::default()
                }
            }
            _ => Action::default(),
        }
    }

    /// Handles the answer to the Initiate of this end.
    fn answered(&mut self, answer: Function) -> Action {
        match answer {
            // The upper layer has disconnected meanwhile.
            Function::Accept if self.local == LocalEnd::Deferred => {
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
            Function::Reject => self.rejected(Indication::Rejected),
            Function::Terminate => self.rejected(Indication::Refused),
            // Both ends connected, on the same stream.
            Function::Initiate => {
                self.local = LocalEnd::Confirmed;
                self.refuse(Some(Indication::Refused))
            }
        }
    }

    /// Takes note that the peer accepts no session.
    fn rejected(&mut self, indication: Indication) -> Action {
        self.state = State::Quiesce;
        self.local = LocalEnd::Ended;
        self.peer_ended = true;
        Action {
            indication: Some(indication),
            ..Action::default()
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
