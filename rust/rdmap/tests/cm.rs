// SPDX-License-Identifier: GPL-2.0

//! Events towards iw_cm against an automaton of the states in which it has a `BUG_ON`.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use rdmap::cm::{
    clamp_reads, Accepting, ConnectError, Connecting, Established, Event, Id, NoEntry, PrivateData,
    Reply,
};

/// States of an `iw_cm_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ConnSent,
    ConnRecv,
    Established,
    Idle,
}

struct IwCm {
    state: State,
    references: usize,
    /// No memory for private data.
    no_memory: bool,
    events: Vec<&'static str>,
}

/// A provider's reference to the automaton.
struct Reference(Rc<RefCell<IwCm>>);

impl Drop for Reference {
    fn drop(&mut self) {
        self.0.borrow_mut().references -= 1;
    }
}

impl Id for Reference {
    fn event(&mut self, event: Event<'_>) -> Result<(), NoEntry> {
        let mut cm = self.0.borrow_mut();
        let private_data = match event {
            Event::ConnectReply(Ok(reply)) => reply.private_data,
            Event::ConnectReply(Err(ConnectError::Refused(private_data))) => private_data,
            _ => PrivateData::default(),
        };
        if cm.no_memory && !private_data.as_slice().is_empty() {
            return Err(NoEntry);
        }
        let (due, next, name) = match event {
            Event::ConnectReply(Ok(_)) => (State::ConnSent, State::Established, "reply"),
            Event::ConnectReply(Err(_)) => (State::ConnSent, State::Idle, "refusal"),
            Event::Established => (State::ConnRecv, State::Established, "established"),
            Event::Close => (State::Established, State::Idle, "close"),
        };
        assert_eq!(cm.state, due, "BUG_ON");
        cm.state = next;
        cm.events.push(name);
        Ok(())
    }
}

fn cm(state: State, no_memory: bool) -> (Rc<RefCell<IwCm>>, Reference) {
    let cm = Rc::new(RefCell::new(IwCm {
        state,
        references: 1,
        no_memory,
        events: Vec::new(),
    }));
    (cm.clone(), Reference(cm))
}

fn reply(octets: &[u8]) -> Reply<'_> {
    Reply {
        ird: 4,
        ord: 4,
        private_data: PrivateData::new(octets).unwrap(),
    }
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Accepted,
    Refused,
    TimedOut,
    Dropped,
    DowncallFails,
}

fn choice() -> impl Strategy<Value = Choice> {
    prop_oneof![
        Just(Choice::Accepted),
        Just(Choice::Refused),
        Just(Choice::TimedOut),
        Just(Choice::Dropped),
        Just(Choice::DowncallFails),
    ]
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    #[test]
    fn every_connection_ends_as_iw_cm_expects(active: bool, no_memory: bool, choice in choice(), private_data in vec(any::<u8>(), 0..3)) {
        let state = if active { State::ConnSent } else { State::ConnRecv };
        let (cm, id) = cm(state, no_memory);
        let established: Option<Established<Reference>> = match (active, choice) {
            (true, Choice::Accepted) => Connecting::new(id).reply(Ok(reply(&private_data))),
            (true, Choice::Refused) => Connecting::new(id).reply(Err(ConnectError::Refused(PrivateData::new(&private_data).unwrap()))),
            (true, Choice::TimedOut) => Connecting::new(id).reply(Err(ConnectError::TimedOut)),
            (true, Choice::Dropped) => { drop(Connecting::new(id)); None }
            (true, Choice::DowncallFails) => { Connecting::new(id).fail(); None }
            (false, Choice::Accepted) => Some(Accepting::new(id).established()),
            (false, _) => { drop(Accepting::new(id)); None }
        };
        prop_assert_eq!(established.is_some(), cm.borrow().state == State::Established);
        drop(established);
        let cm = cm.borrow();
        prop_assert_eq!(cm.references, 0);
        let fails = matches!((active, choice), (true, Choice::DowncallFails))
            || !active && !matches!(choice, Choice::Accepted);
        // There is no event before a downcall that fails; else exactly one reply, and one end.
        prop_assert_eq!(cm.events.is_empty(), fails);
        prop_assert_eq!(cm.state == State::Idle, !fails);
        let responses = cm.events.iter().filter(|name| **name != "close").count();
        prop_assert!(responses <= 1);
        // iw_cm receives the peer's reply, if it has room for that.
        let heard = !(active && no_memory && !private_data.is_empty());
        let is_there = matches!(choice, Choice::Accepted) && heard;
        prop_assert_eq!(cm.events.last() == Some(&"close"), is_there);
    }
}

#[test]
fn private_data_that_iw_cm_cannot_take_resets_the_connection() {
    let (cm, id) = cm(State::ConnSent, true);
    assert!(Connecting::new(id).reply(Ok(reply(b"data"))).is_none());
    assert_eq!(cm.borrow().events, ["refusal"]);
}

#[test]
fn numbers_are_those_that_events_can_hold() {
    assert!(PrivateData::new(&[0; 255]).is_some());
    assert!(PrivateData::new(&[0; 256]).is_none());
    assert_eq!((clamp_reads(255), clamp_reads(256)), (255, 255));
}
