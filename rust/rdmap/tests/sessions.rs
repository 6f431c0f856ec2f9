// SPDX-License-Identifier: GPL-2.0

//! Both ends of a session over SCTP that delivers chunks in any order, until the stream is free
//! again.
//!
//! Both ends keep the rules, so neither may find one broken: that is how a control message that
//! overtook another one, or a segment that came too early, would show.

use rdmap::enhanced::Enhanced;
use rdmap::order::Order;
use rdmap::sctp::chunk::{Body, Chunk, Control, Function, PPID_CONTROL, PPID_SEGMENT};
use rdmap::sctp::session::{Action, Event, Indication, Session, State};
use rdmap::sctp::window::{Bits, RxWindow, TxWindow, WORDS};

use crate::model::Choices;
use crate::streams::Random;

/// A chunk that SCTP carries.
struct Flying {
    ppid: u32,
    payload: Vec<u8>,
}

struct End {
    session: Session,
    window: RxWindow<Box<Bits>>,
    tx_window: TxWindow,
    begun: bool,
    gave_up: bool,
    segments_sent: u64,
    segments_placed: u64,
    asked: bool,
    indications: Vec<Indication>,
    sent: Vec<Function>,
    full: bool,
}

impl End {
    fn new(full: bool) -> Self {
        Self {
            session: Session::new(),
            window: RxWindow::new(Box::new([0; WORDS])),
            tx_window: TxWindow::new(),
            begun: false,
            gave_up: false,
            segments_sent: 0,
            segments_placed: 0,
            asked: false,
            indications: Vec::new(),
            sent: Vec::new(),
            full,
        }
    }

    fn on(&mut self, event: Event, wire: &mut Vec<Flying>) -> Action {
        // The kind of the answer is that of the Initiate, which a session that is over has
        // forgotten.
        let was_enhanced = self.session.is_enhanced();
        let action = self.session.on(event);
        self.begun |= self.session.state() != State::Free;
        let failing = self.session.state() == State::Failing;
        assert!(
            !failing || self.gave_up,
            "{event:?} breaks a rule: {:?}",
            self.indications
        );
        if let Some(function) = action.send {
            let is_enhanced =
                (was_enhanced || self.session.is_enhanced()) && function != Function::Terminate;
            let due = is_enhanced && function != Function::Reject;
            let control = Control {
                function,
                is_enhanced,
                enhanced: due.then(Enhanced::default),
                private_data: &[],
            };
            let mut payload = vec![0; 600];
            let length = control
                .emit(self.tx_window.peek().unwrap(), &mut payload)
                .unwrap();
            payload.truncate(length);
            self.tx_window.sent();
            self.sent.push(function);
            wire.push(Flying {
                ppid: PPID_CONTROL,
                payload,
            });
        }
        self.indications.extend(action.indication);
        self.asked |= action.indication == Some(Indication::Request);
        action
    }

    fn send_segment(&mut self, wire: &mut Vec<Flying>) {
        let ssn = self.tx_window.peek().unwrap();
        self.tx_window.sent();
        self.segments_sent += 1;
        wire.push(Flying {
            ppid: PPID_SEGMENT,
            payload: ssn.to_be_bytes().to_vec(),
        });
    }

    fn arrive(&mut self, flying: &Flying, wire: &mut Vec<Flying>) {
        let chunk = Chunk::parse(flying.ppid, true, &flying.payload).unwrap();
        let seq = self.window.pass(chunk.ssn).unwrap();
        let event = match chunk.body {
            Body::Segment(_) => Event::Segment { seq },
            Body::Control(control) => Event::Control {
                function: control.function,
                enhanced: control.is_enhanced,
                seq,
                full: self.full,
            },
        };
        let action = self.on(event, wire);
        if let Event::Segment { .. } = event {
            assert!(action.place || self.gave_up, "{:?}", self.session);
            self.segments_placed += u64::from(action.place);
        }
        self.on(Event::InOrderUpto(self.window.in_order_upto()), wire);
    }
}

/// Returns the indications to the active side, and the number of placed segments.
fn run(choices: &mut impl Choices) -> (Vec<Indication>, u64) {
    let mut ends = [End::new(false), End::new(choices.one_in(8))];
    let mut wires: [Vec<Flying>; 2] = [Vec::new(), Vec::new()];
    let enhanced = choices.one_in(2);
    let mut aborted = false;
    ends[0].on(Event::Connect { enhanced }, &mut wires[0]);
    for steps in 0.. {
        let states = [&ends[0], &ends[1]]
            .map(|end| (end.session, end.indications.clone(), end.sent.clone()));
        assert!(steps < 10_000, "the session does not end: {states:?}");
        // A stream that is free could be used again at once.
        let is_over = |end: &End| end.begun && end.session.state() == State::Free;
        if ends.iter().any(is_over) {
            assert!(wires.iter().all(Vec::is_empty), "a chunk is outstanding");
        }
        let begun = !ends[1].indications.is_empty() || !ends[1].sent.is_empty();
        let free = ends.iter().all(|end| end.session.state() == State::Free);
        if begun && free && wires.iter().all(Vec::is_empty) {
            break;
        }
        let side = choices.below(2);
        let end = &mut ends[side];
        let wire = &mut wires[side];
        match choices.below(8) {
            0 | 1 if end.session.may_send() && end.segments_sent < 10 => end.send_segment(wire),
            2 | 3 if !wire.is_empty() => {
                let flying = wire.remove(choices.below(wire.len()));
                let [first, second] = &mut wires;
                let (peer, back) = match side {
                    0 => (&mut ends[1], second),
                    _ => (&mut ends[0], first),
                };
                peer.arrive(&flying, back);
            }
            4 if wire.is_empty() => {
                end.tx_window.sender_dry();
                end.on(Event::SenderDry, wire);
            }
            5 if end.asked => {
                end.asked = false;
                let decision = match choices.one_in(4) {
                    true => Event::Reject,
                    false => Event::Accept,
                };
                end.on(decision, wire);
            }
            6 if choices.one_in(8) => {
                if end.session.state() != State::Free {
                    end.gave_up |= end.session.state() == State::AwaitAnswer;
                    end.on(Event::Disconnect, wire);
                }
            }
            6 if choices.one_in(64) => {
                if end.on(Event::Timeout, wire).abort {
                    // The association is gone, with everything that SCTP had to carry.
                    wires.iter_mut().for_each(Vec::clear);
                    for (end, wire) in ends.iter_mut().zip(&mut wires) {
                        end.on(Event::Lost, wire);
                        assert_eq!(end.session.state(), State::Free);
                        assert!(wire.is_empty());
                    }
                    aborted = true;
                    break;
                }
            }
            7 if choices.one_in(16) && end.session.state() == State::Open => {
                end.gave_up = true;
                end.on(Event::Fail, wire);
            }
            _ => {}
        }
    }
    let [active, passive] = ends;
    // The Terminate is each side's last, and at least one side sent it if the session was open.
    for end in [&active, &passive] {
        let terminates = end.sent.iter().filter(|sent| **sent == Function::Terminate);
        assert!(terminates.count() <= 1);
        assert!(!end.sent[..end.sent.len().saturating_sub(1)].contains(&Function::Terminate));
    }
    let opened = passive.sent.contains(&Function::Accept);
    let terminated = [&active, &passive]
        .iter()
        .any(|end| end.sent.last() == Some(&Function::Terminate));
    assert!(!opened || terminated || aborted);
    // A Reject is the upper layer's; an end that reached its limit sends a Terminate, without an
    // indication.
    if passive.full && !aborted {
        assert_eq!(passive.sent, [Function::Terminate]);
        assert!(passive.indications.is_empty());
    }
    // Everything that was sent is placed, unless the receiver gave up or the association is gone.
    for (sender, receiver) in [(&active, &passive), (&passive, &active)] {
        match receiver.gave_up || aborted {
            true => assert!(receiver.segments_placed <= sender.segments_sent),
            false => assert_eq!(receiver.segments_placed, sender.segments_sent),
        }
    }
    (
        active.indications,
        active.segments_placed + passive.segments_placed,
    )
}

// Shows S6-1, S6.1-2, S6.2-1, S6.3-1, S6.6-1, S6.6-2, S6.6-3.
#[test]
fn thousands_of_sessions_come_to_their_end() {
    let (mut indications, mut segments) = (Vec::new(), 0);
    for seed in 1..=2000 {
        let (new, placed) = run(&mut Random((seed << 32) | 0x9e37_79b9));
        indications.extend(new);
        segments += placed;
    }
    for indication in [
        Indication::Established,
        Indication::Rejected,
        Indication::Refused,
        Indication::Closed,
    ] {
        assert!(
            indications
                .iter()
                .filter(|seen| **seen == indication)
                .count()
                > 50,
            "{indication:?}"
        );
    }
    assert!(segments > 5000);
}
