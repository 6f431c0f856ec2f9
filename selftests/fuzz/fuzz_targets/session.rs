// SPDX-License-Identifier: GPL-2.0

//! Any chunks of an SCTP peer, and anything that the upper layer does meanwhile: one Terminate at most, no segment before
//! its time, one end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rdmap::order::Order;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Chunk;
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::Session;
use rdmap::sctp::session::State;
use rdmap::sctp::session::Tell;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::Window;
use rdmap::sctp::window::WORDS;

fuzz_target!(|input: &[u8]| {
    let bits: Box<Bits> = Box::new([0; WORDS]);
    let (mut window, mut session) = (Window::new(bits), Session::new());
    let (mut terminates, mut ends, mut begun) = (0, 0, false);
    let mut rest = input;
    while let [what, more @ ..] = rest {
        let (payload, behind) = more.split_at(more.len().min(usize::from(what >> 3)));
        rest = behind;
        let event = match what & 7 {
            0..=2 => {
                let ppid = 16 + u32::from(what & 1);
                match Chunk::parse(ppid, *what & 2 == 0 || ppid == 16, payload) {
                    Err(_) => Event::Illegal,
                    Ok(chunk) => match (window.pass(chunk.ssn), chunk.body) {
                        (Err(_), _) => Event::Illegal,
                        (Ok(turn), Body::Segment(_)) => Event::Segment { turn },
                        (Ok(turn), Body::Control(control)) => Event::Control {
                            function: control.function,
                            enhanced: control.is_enhanced,
                            turn,
                            full: false,
                        },
                    },
                }
            }
            3 => Event::Connect { enhanced: false },
            4 => Event::Accept,
            5 => Event::Dry,
            6 => Event::Disconnect,
            _ => Event::Fail,
        };
        for event in [event, Event::Reached(window.reached())] {
            let action = session.on(event);
            terminates += usize::from(action.send == Some(Function::Terminate));
            match action.tell {
                Some(Tell::Request) => begun = true,
                Some(Tell::Established) | None => {}
                Some(_) => ends += 1,
            }
            begun |= action.send == Some(Function::Initiate);
            assert!(
                !action.place
                    || matches!(
                        session.state(),
                        State::Open | State::Closing | State::AwaitAnswer
                    )
            );
            assert!(!session.may_send() || begun && terminates == 0);
            assert!(terminates <= 1 && ends <= 1);
            if session == Session::new() && (begun || terminates > 0) {
                return;
            }
        }
    }
});
