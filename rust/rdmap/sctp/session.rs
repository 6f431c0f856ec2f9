// SPDX-License-Identifier: GPL-2.0

//! The session of a DDP stream over SCTP (RFC 5043, section 6): Initiate, its answer, segments, Terminate.
//!
//! Chunks are considered in the order of their DDP-SSNs, although they arrive in any; only the placing of a segment's
//! octets does not wait. A control message is unordered as well, so one that could overtake an earlier one of this end
//! is held back until that one is known to have arrived (section 6.6): the peer answered, or sent a segment, or SCTP
//! says that all is acknowledged.
//!
//! RFC 5043 asks for a Terminate from one side. This end answers every Terminate in an open session with its own, and
//! does not insist that the peer does so.
//!
//! What the RFC has no sequence for: giving up between the Initiate and its answer. Then this end waits for the answer,
//! and terminates; if none comes it drops the association.

mod event;

use crate::order::Turn;
use crate::sctp::chunk::Function;
pub use crate::sctp::session::event::Action;
pub use crate::sctp::session::event::Event;
pub use crate::sctp::session::event::State;
pub use crate::sctp::session::event::Tell;

/// Where this end is with its own control messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// None sent.
    Silent,
    /// The first one may not have arrived.
    Unconfirmed,
    /// The first one may not have arrived, and the Terminate waits until it has.
    Held,
    /// The first one arrived.
    Confirmed,
    /// The last one was sent.
    Ended,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    state: State,
    enhanced: bool,
    own: Own,
    active: bool,
    // The turn of the peer's Terminate, and the newest turn of a segment.
    end: Option<Turn>,
    newest: Turn,
    peer_ended: bool,
    dry: bool,
}

impl Session {
    /// A session that has not begun: the stream is free.
    #[inline]
    pub const fn new() -> Self {
        Self {
            state: State::Free,
            enhanced: false,
            own: Own::Silent,
            active: false,
            end: None,
            newest: 0,
            peer_ended: false,
            dry: true,
        }
    }

    /// Where it is.
    #[inline]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its first control messages are of the enhanced kind.
    #[inline]
    pub const fn is_enhanced(&self) -> bool {
        self.enhanced
    }

    /// Segments may be sent: they cannot overtake what must come first (section 6.6).
    #[inline]
    pub fn may_send(&self) -> bool {
        self.state == State::Open
    }

    /// Takes note of an event, and says what is to be done.
    pub fn on(&mut self, event: Event) -> Action {
        let mut action = match (self.state, event) {
            (_, Event::Lost) => self.lost(),
            (_, Event::Dry) => self.acknowledged(),
            (State::Free, _) => self.free(event),
            (State::AwaitAnswer, _) => self.await_answer(event),
            (State::AwaitUser, _) => self.await_user(event),
            (State::Open, _) => self.open(event),
            (State::Closing | State::Failing, _) => self.closing(event),
            (State::Quiesce, _) => self.quiesce(event),
        };
        // Who gave up an Initiate waits for its answer all the same.
        if self.own == Own::Held && self.state != State::AwaitAnswer && self.confirms(event) {
            self.own = Own::Ended;
            action.send = Some(Function::Terminate);
        }
        if action.send.is_some() {
            self.dry = false;
        }
        if self.state == State::Quiesce && self.dry && self.peer_ended {
            *self = Self::new();
        }
        action
    }

    /// Says whether this proves that the peer has the first control message of this end. The passive side sends nothing
    /// before it has the Initiate; the active side sends segments only behind the Accept.
    fn confirms(&self, event: Event) -> bool {
        match event {
            Event::Dry | Event::Segment { .. } => true,
            Event::Control { .. } | Event::Illegal => self.active,
            _ => false,
        }
    }

    /// Sends the Terminate, now or when it can no longer overtake.
    fn end(&mut self) -> Option<Function> {
        match self.own {
            Own::Unconfirmed | Own::Held => {
                self.own = Own::Held;
                None
            }
            Own::Ended => None,
            Own::Silent | Own::Confirmed => {
                self.own = Own::Ended;
                Some(Function::Terminate)
            }
        }
    }

    /// The peer broke a rule before the session was open.
    fn refuse(&mut self, tell: Option<Tell>) -> Action {
        self.state = State::Quiesce;
        Action {
            send: self.end(),
            tell,
            ..Action::default()
        }
    }

    fn lost(&mut self) -> Action {
        let tell = match self.state {
            State::Free | State::Quiesce => None,
            _ => Some(Tell::Lost),
        };
        *self = Self::new();
        Action {
            tell,
            ..Action::default()
        }
    }

    fn acknowledged(&mut self) -> Action {
        self.dry = true;
        if self.own == Own::Unconfirmed {
            self.own = Own::Confirmed;
        }
        Action::default()
    }

    fn free(&mut self, event: Event) -> Action {
        match event {
            Event::Connect { enhanced } => {
                self.state = State::AwaitAnswer;
                self.enhanced = enhanced;
                self.active = true;
                self.own = Own::Unconfirmed;
                Action {
                    send: Some(Function::Initiate),
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Initiate,
                enhanced,
                turn: 0,
                full,
            } => {
                self.enhanced = enhanced;
                if full {
                    // Its Initiate is all that the peer may have sent.
                    self.peer_ended = true;
                    return self.refuse(None);
                }
                self.state = State::AwaitUser;
                Action {
                    tell: Some(Tell::Request),
                    ..Action::default()
                }
            }
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => self.refuse(None),
            _ => Action::default(),
        }
    }

    fn await_answer(&mut self, event: Event) -> Action {
        let answer = match event {
            // It has overtaken the Accept. Whoever connected has bound its queue pair, so it can be placed.
            Event::Segment { turn } if turn > 0 => {
                self.newest = self.newest.max(turn);
                return Action {
                    place: self.own != Own::Held,
                    ..Action::default()
                };
            }
            Event::Control {
                function: Function::Terminate,
                turn,
                ..
            } if turn > 0 => {
                self.end = Some(turn);
                return Action::default();
            }
            Event::Control {
                function,
                enhanced,
                turn: 0,
                ..
            } if enhanced == self.enhanced || function == Function::Terminate => function,
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => {
                self.own = Own::Confirmed;
                return self.refuse(Some(Tell::Refused));
            }
            Event::Disconnect | Event::Fail => {
                self.own = Own::Held;
                return Action::default();
            }
            Event::Timeout => {
                self.state = State::Quiesce;
                return Action {
                    tell: Some(Tell::Refused),
                    abort: true,
                    ..Action::default()
                };
            }
            _ => return Action::default(),
        };
        let given_up = self.own == Own::Held;
        match answer {
            Function::Accept if given_up => {
                self.state = State::Failing;
                Action::default()
            }
            Function::Accept => {
                self.state = State::Open;
                self.own = Own::Confirmed;
                Action {
                    tell: Some(Tell::Established),
                    ..Action::default()
                }
            }
            Function::Reject | Function::Terminate => {
                self.state = State::Quiesce;
                self.own = Own::Ended;
                self.peer_ended = true;
                let tell = match answer {
                    Function::Reject => Tell::Rejected,
                    _ => Tell::Refused,
                };
                Action {
                    tell: Some(tell),
                    ..Action::default()
                }
            }
            // Both ends connected, on the same stream.
            Function::Initiate => {
                self.own = Own::Confirmed;
                self.refuse(Some(Tell::Refused))
            }
        }
    }

    fn await_user(&mut self, event: Event) -> Action {
        match event {
            Event::Accept => {
                self.state = State::Open;
                self.own = Own::Unconfirmed;
                Action {
                    send: Some(Function::Accept),
                    ..Action::default()
                }
            }
            Event::Reject => {
                self.state = State::Quiesce;
                self.own = Own::Ended;
                self.peer_ended = true;
                Action {
                    send: Some(Function::Reject),
                    ..Action::default()
                }
            }
            Event::Control {
                function: Function::Terminate,
                turn: 1,
                ..
            } => {
                self.peer_ended = true;
                self.refuse(Some(Tell::Closed))
            }
            // The active side waits for the answer before it sends a segment.
            Event::Control { .. } | Event::Segment { .. } | Event::Illegal => {
                self.refuse(Some(Tell::Closed))
            }
            // The active side sends nothing between its Initiate and the answer, and this Terminate is the answer.
            Event::Timeout | Event::Disconnect | Event::Fail => {
                self.peer_ended = true;
                self.refuse(Some(Tell::Closed))
            }
            _ => Action::default(),
        }
    }

    fn open(&mut self, event: Event) -> Action {
        match event {
            Event::Segment { turn } => {
                if self.own == Own::Unconfirmed {
                    self.own = Own::Confirmed;
                }
                self.newest = self.newest.max(turn);
                if self.end.is_some_and(|end| turn > end) {
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
                // The last chunk of the peer's is its last.
                if self.end.is_some() || self.newest > turn {
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

    fn fail(&mut self) -> Action {
        self.state = State::Failing;
        let send = self.end();
        let mut action = Action {
            send,
            ..Action::default()
        };
        // The peer's last chunk may be there already.
        if self.end.is_some() {
            action.tell = self.closed();
        }
        action
    }

    fn closed(&mut self) -> Option<Tell> {
        self.state = State::Quiesce;
        Some(Tell::Closed)
    }

    fn quiesce(&mut self, event: Event) -> Action {
        match event {
            // The Terminate of a peer that broke a rule may never come, and without it the stream is never free.
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
            // No chunk of the peer's is on its way any more.
            Event::Reached(turn) if self.end.is_some_and(|end| turn > end) => {
                self.peer_ended = true;
            }
            _ => {}
        }
        Action::default()
    }

    fn closing(&mut self, event: Event) -> Action {
        let failing = self.state == State::Failing;
        let mut action = Action::default();
        match event {
            Event::Segment { turn } if !failing => {
                self.newest = self.newest.max(turn);
                match self.end.is_some_and(|end| turn > end) {
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
            Event::Control { .. } | Event::Illegal | Event::Fail if !failing => {
                return self.fail();
            }
            Event::Timeout => {
                action.tell = self.closed();
                action.abort = true;
            }
            _ => {}
        }
        action
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(function: Function, turn: Turn) -> Event {
        Event::Control {
            function,
            enhanced: function != Function::Terminate,
            turn,
            full: false,
        }
    }

    fn active() -> Session {
        let mut session = Session::new();
        let action = session.on(Event::Connect { enhanced: true });
        assert_eq!(action.send, Some(Function::Initiate));
        session
    }

    fn passive() -> Session {
        let mut session = Session::new();
        let action = session.on(control(Function::Initiate, 0));
        assert_eq!(action.tell, Some(Tell::Request));
        session
    }

    fn opened() -> Session {
        let mut session = active();
        let action = session.on(control(Function::Accept, 0));
        assert_eq!(action.tell, Some(Tell::Established));
        assert!(session.may_send());
        session
    }

    #[test]
    fn active_side_sends_only_behind_the_accept() {
        let mut session = active();
        assert!(!session.may_send());
        let early = session.on(Event::Segment { turn: 1 });
        assert!(early.place);
        assert!(!session.may_send());
        session.on(control(Function::Accept, 0));
        assert!(session.may_send());
    }

    #[test]
    fn segment_in_place_of_the_answer_ends_it() {
        let mut session = active();
        let action = session.on(Event::Segment { turn: 0 });
        assert_eq!(action.send, Some(Function::Terminate));
        assert_eq!(action.tell, Some(Tell::Refused));
        assert!(!action.place);
    }

    #[test]
    fn answer_is_of_the_kind_of_the_initiate() {
        let mut session = active();
        let plain = Event::Control {
            function: Function::Accept,
            enhanced: false,
            turn: 0,
            full: false,
        };
        let action = session.on(plain);
        assert_eq!(action.send, Some(Function::Terminate));
        assert_eq!(session.state(), State::Quiesce);
    }

    #[test]
    fn refusals_are_told_apart() {
        let tell = |function| active().on(control(function, 0)).tell;
        assert_eq!(tell(Function::Reject), Some(Tell::Rejected));
        assert_eq!(tell(Function::Terminate), Some(Tell::Refused));
        assert_eq!(tell(Function::Initiate), Some(Tell::Refused));
    }

    #[test]
    fn stream_is_free_again_when_nothing_is_on_its_way() {
        let mut session = active();
        session.on(control(Function::Reject, 0));
        assert_eq!(session.state(), State::Quiesce);
        session.on(Event::Dry);
        assert_eq!(session.state(), State::Free);
    }

    #[test]
    fn initiate_beyond_the_limit_is_terminated() {
        let mut session = Session::new();
        let action = session.on(Event::Control {
            function: Function::Initiate,
            enhanced: false,
            turn: 0,
            full: true,
        });
        assert_eq!(
            (action.send, action.tell),
            (Some(Function::Terminate), None)
        );
    }

    #[test]
    fn peer_that_gives_up_before_the_answer_is_forgotten() {
        let mut session = passive();
        let action = session.on(control(Function::Terminate, 1));
        assert_eq!(action.tell, Some(Tell::Closed));
        assert_eq!(action.send, Some(Function::Terminate));
        assert_eq!(session.on(Event::Accept), Action::default());
    }

    /// The active side has sent its Initiate and sends nothing more: all that is missing is the acknowledgement.
    #[test]
    fn given_up_decision_leaves_a_free_stream() {
        for event in [Event::Timeout, Event::Disconnect, Event::Fail] {
            let mut session = passive();
            let action = session.on(event);
            assert_eq!(action.send, Some(Function::Terminate));
            assert_eq!(action.tell, Some(Tell::Closed));
            assert_eq!(session.state(), State::Quiesce);
            session.on(Event::Dry);
            assert_eq!(session.state(), State::Free, "{event:?}");
        }
    }

    #[test]
    fn peer_that_never_ends_costs_the_association() {
        let mut session = passive();
        session.on(Event::Segment { turn: 1 });
        session.on(Event::Dry);
        assert_eq!(session.state(), State::Quiesce);
        assert!(session.on(Event::Timeout).abort);
        assert_eq!(session.on(Event::Lost).tell, None);
        assert_eq!(session.state(), State::Free);
    }

    #[test]
    fn segment_before_the_accept_is_illegal() {
        let mut session = passive();
        let action = session.on(Event::Segment { turn: 1 });
        assert_eq!(action.send, Some(Function::Terminate));
        assert!(!action.place);
    }

    #[test]
    fn terminate_does_not_overtake_the_accept() {
        let mut session = passive();
        assert_eq!(session.on(Event::Accept).send, Some(Function::Accept));
        assert_eq!(session.on(Event::Disconnect).send, None);
        assert_eq!(session.on(Event::Dry).send, Some(Function::Terminate));
        let mut session = passive();
        session.on(Event::Accept);
        session.on(Event::Fail);
        let action = session.on(Event::Segment { turn: 1 });
        assert_eq!(action.send, Some(Function::Terminate));
        assert!(!action.place);
        // It is sent once.
        assert_eq!(session.on(Event::Dry).send, None);
    }

    #[test]
    fn peers_terminate_does_not_prove_that_it_has_the_accept() {
        let mut session = passive();
        session.on(Event::Accept);
        assert_eq!(session.on(control(Function::Terminate, 1)).send, None);
        let action = session.on(Event::Reached(2));
        assert_eq!((action.tell, action.send), (Some(Tell::Closed), None));
        assert_eq!(session.on(Event::Dry).send, Some(Function::Terminate));
    }

    #[test]
    fn confirmed_accept_lets_the_terminate_go_at_once() {
        let mut session = passive();
        session.on(Event::Accept);
        session.on(Event::Segment { turn: 1 });
        let action = session.on(Event::Disconnect);
        assert_eq!(action.send, Some(Function::Terminate));
    }

    #[test]
    fn given_up_initiate_waits_for_its_answer() {
        let mut session = active();
        assert_eq!(session.on(Event::Disconnect).send, None);
        assert_eq!(session.on(Event::Dry).send, None);
        let action = session.on(control(Function::Accept, 0));
        assert_eq!(
            (action.send, action.tell),
            (Some(Function::Terminate), None)
        );
        let mut session = active();
        session.on(Event::Disconnect);
        let action = session.on(Event::Timeout);
        assert!(action.abort);
    }

    #[test]
    fn peers_terminate_waits_for_its_turn() {
        let mut session = opened();
        assert_eq!(session.on(control(Function::Terminate, 3)).tell, None);
        assert!(session.on(Event::Segment { turn: 2 }).place);
        assert_eq!(session.on(Event::Reached(3)).tell, None);
        let action = session.on(Event::Reached(4));
        assert_eq!(action.tell, Some(Tell::Closed));
        assert_eq!(action.send, Some(Function::Terminate));
        session.on(Event::Dry);
        assert_eq!(session.state(), State::Free);
    }

    #[test]
    fn nothing_comes_behind_the_terminate() {
        let mut session = opened();
        session.on(control(Function::Terminate, 3));
        let action = session.on(Event::Segment { turn: 4 });
        assert_eq!(action.send, Some(Function::Terminate));
        let mut session = opened();
        session.on(Event::Segment { turn: 4 });
        let action = session.on(control(Function::Terminate, 3));
        assert_eq!(action.send, Some(Function::Terminate));
    }

    #[test]
    fn second_answer_ends_an_open_session() {
        for function in [Function::Initiate, Function::Accept, Function::Reject] {
            let mut session = opened();
            let action = session.on(control(function, 1));
            assert_eq!(action.send, Some(Function::Terminate));
            assert_eq!(session.state(), State::Failing);
        }
        let mut session = opened();
        assert_eq!(session.on(Event::Illegal).send, Some(Function::Terminate));
        assert!(!session.on(Event::Segment { turn: 1 }).place);
    }

    #[test]
    fn peer_may_go_on_until_its_own_terminate() {
        let mut session = opened();
        assert_eq!(
            session.on(Event::Disconnect).send,
            Some(Function::Terminate)
        );
        assert!(session.on(Event::Segment { turn: 1 }).place);
        session.on(control(Function::Terminate, 2));
        assert_eq!(session.on(Event::Reached(3)).tell, Some(Tell::Closed));
    }

    #[test]
    fn failed_session_does_not_wait_for_turns() {
        let mut session = opened();
        session.on(Event::Fail);
        let action = session.on(control(Function::Terminate, 9));
        assert_eq!(action.tell, Some(Tell::Closed));
        assert_eq!(action.send, None);
    }

    #[test]
    fn lost_association_is_told_once() {
        let mut session = opened();
        assert_eq!(session.on(Event::Lost).tell, Some(Tell::Lost));
        assert_eq!(session.on(Event::Lost).tell, None);
        assert_eq!(session.state(), State::Free);
    }
}
