// SPDX-License-Identifier: GPL-2.0

//! Tests: the sequences of RFC 5043, section 6, and those that break its rules.

use crate::order::Seq;
use crate::sctp::chunk::{Chunk, Function, PPID_SEGMENT};
use crate::sctp::session::{Action, Event, Indication, Session, State};

fn control(function: Function, seq: Seq) -> Event {
    Event::Control {
        function,
        enhanced: function != Function::Terminate,
        seq,
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
    assert_eq!(action.indication, Some(Indication::Request));
    session
}

fn opened() -> Session {
    let mut session = active();
    let action = session.on(control(Function::Accept, 0));
    assert_eq!(action.indication, Some(Indication::Established));
    assert!(session.may_send());
    session
}

// Shows S6.6-2.
#[test]
fn active_side_sends_only_behind_the_accept() {
    let mut session = active();
    assert!(!session.may_send());
    let early = session.on(Event::Segment { seq: 1 });
    assert!(early.place);
    assert!(!session.may_send());
    session.on(control(Function::Accept, 0));
    assert!(session.may_send());
}

// Shows S6.1-3.
#[test]
fn segment_in_place_of_the_answer_ends_it() {
    let mut session = active();
    let action = session.on(Event::Segment { seq: 0 });
    assert_eq!(action.send, Some(Function::Terminate));
    assert_eq!(action.indication, Some(Indication::Refused));
    assert!(!action.place);
}

// Shows E6581-4.
#[test]
fn answer_is_of_the_kind_of_the_initiate() {
    let mut session = active();
    let plain = Event::Control {
        function: Function::Accept,
        enhanced: false,
        seq: 0,
        full: false,
    };
    let action = session.on(plain);
    assert_eq!(action.send, Some(Function::Terminate));
    assert_eq!(session.state(), State::Quiesce);
}

#[test]
fn refusals_are_told_apart() {
    let indication = |function| active().on(control(function, 0)).indication;
    assert_eq!(indication(Function::Reject), Some(Indication::Rejected));
    assert_eq!(indication(Function::Terminate), Some(Indication::Refused));
    assert_eq!(indication(Function::Initiate), Some(Indication::Refused));
}

// Shows S6.6-3.
#[test]
fn stream_is_free_again_when_nothing_is_on_its_way() {
    let mut session = active();
    session.on(control(Function::Reject, 0));
    assert_eq!(session.state(), State::Quiesce);
    session.on(Event::SenderDry);
    assert_eq!(session.state(), State::Free);
}

// Shows S5.2.3-5.
#[test]
fn initiate_beyond_the_limit_is_terminated() {
    let mut session = Session::new();
    let action = session.on(Event::Control {
        function: Function::Initiate,
        enhanced: false,
        seq: 0,
        full: true,
    });
    assert_eq!(
        (action.send, action.indication),
        (Some(Function::Terminate), None)
    );
}

#[test]
fn peer_that_gives_up_before_the_answer_is_forgotten() {
    let mut session = passive();
    let action = session.on(control(Function::Terminate, 1));
    assert_eq!(action.indication, Some(Indication::Closed));
    assert_eq!(action.send, Some(Function::Terminate));
    assert_eq!(session.on(Event::Accept), Action::default());
    session.on(Event::SenderDry);
    assert_eq!(session.state(), State::Free);
}

/// The active side sends nothing after its Initiate: only the acknowledgement is missing.
#[test]
fn given_up_decision_leaves_a_free_stream() {
    for event in [Event::Timeout, Event::Disconnect, Event::Fail] {
        let mut session = passive();
        let action = session.on(event);
        assert_eq!(action.send, Some(Function::Terminate));
        assert_eq!(action.indication, Some(Indication::Closed));
        assert_eq!(session.state(), State::Quiesce);
        session.on(Event::SenderDry);
        assert_eq!(session.state(), State::Free, "{event:?}");
    }
}

#[test]
fn peer_that_never_ends_costs_the_association() {
    let mut session = passive();
    session.on(Event::Segment { seq: 1 });
    session.on(Event::SenderDry);
    assert_eq!(session.state(), State::Quiesce);
    assert!(session.on(Event::Timeout).abort);
    assert_eq!(session.on(Event::Lost).indication, None);
    assert_eq!(session.state(), State::Free);
}

// Shows S6.1-3.
#[test]
fn segment_before_the_accept_is_illegal() {
    let mut session = passive();
    let action = session.on(Event::Segment { seq: 1 });
    assert_eq!(action.send, Some(Function::Terminate));
    assert!(!action.place);
}

// Shows S6.6-1.
#[test]
fn terminate_does_not_overtake_the_accept() {
    let mut session = passive();
    assert_eq!(session.on(Event::Accept).send, Some(Function::Accept));
    assert_eq!(session.on(Event::Disconnect).send, None);
    assert_eq!(session.on(Event::SenderDry).send, Some(Function::Terminate));
    let mut session = passive();
    session.on(Event::Accept);
    session.on(Event::Fail);
    let action = session.on(Event::Segment { seq: 1 });
    assert_eq!(action.send, Some(Function::Terminate));
    assert!(!action.place);
    // It is sent once.
    assert_eq!(session.on(Event::SenderDry).send, None);
}

// Shows S6.6-1.
#[test]
fn peers_terminate_does_not_prove_that_it_has_the_accept() {
    let mut session = passive();
    session.on(Event::Accept);
    assert_eq!(session.on(control(Function::Terminate, 1)).send, None);
    let action = session.on(Event::InOrderUpto(2));
    assert_eq!(
        (action.indication, action.send),
        (Some(Indication::Closed), None)
    );
    assert_eq!(session.on(Event::SenderDry).send, Some(Function::Terminate));
}

#[test]
fn confirmed_accept_lets_the_terminate_go_at_once() {
    let mut session = passive();
    session.on(Event::Accept);
    session.on(Event::Segment { seq: 1 });
    let action = session.on(Event::Disconnect);
    assert_eq!(action.send, Some(Function::Terminate));
}

// Shows S6.6-1.
#[test]
fn given_up_initiate_waits_for_its_answer() {
    let mut session = active();
    assert_eq!(session.on(Event::Disconnect).send, None);
    assert_eq!(session.on(Event::SenderDry).send, None);
    let action = session.on(control(Function::Accept, 0));
    assert_eq!(
        (action.send, action.indication),
        (Some(Function::Terminate), None)
    );
    let mut session = active();
    session.on(Event::Disconnect);
    let action = session.on(Event::Timeout);
    assert!(action.abort);
}

#[test]
fn initiate_without_an_answer_costs_the_association() {
    let action = active().on(Event::Timeout);
    assert_eq!(
        (action.indication, action.abort),
        (Some(Indication::Refused), true)
    );
    assert_eq!(action.send, None);
}

// Shows S6.1-2, D-12.
#[test]
fn peers_terminate_waits_for_the_chunks_before_it() {
    let mut session = opened();
    assert_eq!(session.on(control(Function::Terminate, 3)).indication, None);
    assert!(session.on(Event::Segment { seq: 2 }).place);
    assert_eq!(session.on(Event::InOrderUpto(3)).indication, None);
    let action = session.on(Event::InOrderUpto(4));
    assert_eq!(action.indication, Some(Indication::Closed));
    assert_eq!(action.send, Some(Function::Terminate));
    session.on(Event::SenderDry);
    assert_eq!(session.state(), State::Free);
}

#[test]
fn terminate_that_overtakes_the_accept_waits_for_it() {
    let mut session = active();
    let early = session.on(control(Function::Terminate, 1));
    assert_eq!(early, Action::default());
    let action = session.on(control(Function::Accept, 0));
    assert_eq!(
        (action.indication, action.send),
        (Some(Indication::Established), None)
    );
    let action = session.on(Event::InOrderUpto(2));
    assert_eq!(action.indication, Some(Indication::Closed));
    assert_eq!(action.send, Some(Function::Terminate));
}

// Shows D-11.
#[test]
fn nothing_comes_behind_the_terminate() {
    let mut session = opened();
    session.on(control(Function::Terminate, 3));
    let action = session.on(Event::Segment { seq: 4 });
    assert_eq!(action.send, Some(Function::Terminate));
    let mut session = opened();
    session.on(Event::Segment { seq: 4 });
    let action = session.on(control(Function::Terminate, 3));
    assert_eq!(action.send, Some(Function::Terminate));
}

// Shows S6.1-3.
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
    assert!(!session.on(Event::Segment { seq: 1 }).place);
}

// Shows D-11.
#[test]
fn peer_may_go_on_until_its_own_terminate() {
    let mut session = opened();
    assert_eq!(
        session.on(Event::Disconnect).send,
        Some(Function::Terminate)
    );
    assert!(session.on(Event::Segment { seq: 1 }).place);
    session.on(control(Function::Terminate, 2));
    assert_eq!(
        session.on(Event::InOrderUpto(3)).indication,
        Some(Indication::Closed)
    );
}

#[test]
fn peers_terminate_waits_for_the_chunks_before_it_in_a_session_that_closes() {
    let mut session = opened();
    session.on(Event::Disconnect);
    session.on(control(Function::Terminate, 3));
    assert!(session.on(Event::Segment { seq: 2 }).place);
    assert_eq!(session.on(Event::InOrderUpto(3)), Action::default());
    assert_eq!(
        session.on(Event::InOrderUpto(4)).indication,
        Some(Indication::Closed)
    );
    assert_eq!(session.state(), State::Quiesce);
}

/// This end has sent its Terminate.
#[test]
fn broken_rule_ends_delivery_in_a_session_that_closes() {
    for event in [Event::Illegal, Event::Fail, control(Function::Accept, 1)] {
        let mut session = opened();
        session.on(Event::Disconnect);
        for _ in 0..2 {
            assert_eq!(session.on(event), Action::default());
            assert_eq!(session.state(), State::Failing);
        }
        assert!(!session.on(Event::Segment { seq: 2 }).place);
    }
    // Its last chunk was not the last.
    let mut session = opened();
    session.on(Event::Disconnect);
    session.on(control(Function::Terminate, 3));
    let action = session.on(Event::Segment { seq: 4 });
    assert_eq!(
        (action.place, action.indication),
        (false, Some(Indication::Closed))
    );
}

#[test]
fn peer_that_does_not_terminate_costs_the_association() {
    for event in [Event::Disconnect, Event::Fail] {
        let mut session = opened();
        session.on(event);
        let action = session.on(Event::Timeout);
        assert_eq!(
            (action.indication, action.abort),
            (Some(Indication::Closed), true)
        );
        assert_eq!(session.on(Event::Lost).indication, None);
    }
}

/// Chunks that the peer sent before it knew of the refusal are under way until then.
#[test]
fn stream_is_free_behind_the_terminate_of_a_peer_that_was_refused() {
    let mut session = passive();
    session.on(Event::Segment { seq: 1 });
    session.on(Event::SenderDry);
    session.on(control(Function::Terminate, 3));
    session.on(Event::InOrderUpto(3));
    assert_eq!(session.state(), State::Quiesce);
    session.on(Event::InOrderUpto(4));
    assert_eq!(session.state(), State::Free);
}

#[test]
fn failed_session_does_not_wait_for_missing_chunks() {
    let mut session = opened();
    session.on(Event::Fail);
    let action = session.on(control(Function::Terminate, 9));
    assert_eq!(action.indication, Some(Indication::Closed));
    assert_eq!(action.send, None);
}

/// Each session of the association is told. There is nobody to send anything to.
// Shows S11.3-1, S11.3-2.
#[test]
fn lost_association_is_told_to_each_of_its_sessions_and_nothing_is_sent() {
    let mut closing = opened();
    closing.on(Event::Disconnect);
    let mut failing = opened();
    failing.on(Event::Fail);
    let mut held = passive();
    held.on(Event::Accept);
    held.on(Event::Fail);
    let mut given_up = active();
    given_up.on(Event::Disconnect);
    let lost = Action {
        indication: Some(Indication::Lost),
        ..Action::default()
    };
    for mut session in [
        active(),
        passive(),
        opened(),
        closing,
        failing,
        held,
        given_up,
    ] {
        assert_eq!(session.on(Event::Lost), lost, "{session:?}");
        assert_eq!(session.state(), State::Free);
    }
    // It was told of its end before.
    let mut over = active();
    over.on(control(Function::Reject, 0));
    assert_eq!(over.on(Event::Lost), Action::default());
}

/// A stream that fails says so on its own stream, and the association stays for its siblings.
// Shows P7-2, S11.3-3, D-12.
#[test]
fn failed_stream_is_blocked_and_its_siblings_go_on() {
    let (mut failed, mut sibling) = (opened(), opened());
    let action = failed.on(Event::Fail);
    assert_eq!(action.send, Some(Function::Terminate));
    assert!(!action.abort);
    assert!(!failed.may_send());
    assert!(!failed.on(Event::Segment { seq: 1 }).place);
    assert!(sibling.may_send());
    assert!(sibling.on(Event::Segment { seq: 1 }).place);
}

/// Only chunks of RFC 5043 belong on a DDP stream.
// Shows S4-1.
#[test]
fn chunk_of_another_protocol_ends_the_session() {
    for (ppid, unordered) in [(0, true), (18, true), (PPID_SEGMENT, false)] {
        assert!(Chunk::parse(ppid, unordered, &[0; 16]).is_err());
        let mut session = opened();
        let action = session.on(Event::Illegal);
        assert_eq!(action.send, Some(Function::Terminate));
        assert!(!session.may_send());
    }
}

/// The numbers of a session begin with 0, whatever those of the previous session of the stream
/// were.
// Shows S6.1-1.
#[test]
fn next_session_of_a_stream_begins_with_number_0() {
    let mut session = active();
    session.on(control(Function::Reject, 0));
    session.on(Event::SenderDry);
    assert_eq!(session.state(), State::Free);
    let mut late = session;
    assert_eq!(
        session.on(control(Function::Initiate, 0)).indication,
        Some(Indication::Request)
    );
    // An Initiate that goes on where the other session ended is none.
    let action = late.on(control(Function::Initiate, 1));
    assert_eq!(
        (action.indication, action.send),
        (None, Some(Function::Terminate))
    );
}

#[test]
fn lost_association_is_told_once() {
    let mut session = opened();
    assert_eq!(session.on(Event::Lost).indication, Some(Indication::Lost));
    assert_eq!(session.on(Event::Lost).indication, None);
    assert_eq!(session.state(), State::Free);
}
