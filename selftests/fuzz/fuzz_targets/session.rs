// SPDX-License-Identifier: GPL-2.0

//! Any chunks of an SCTP peer, and anything that the upper layer and the association do meanwhile: one Terminate at most, no segment
//! before its time, one end.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use rdmap::order::Order;
use rdmap::sctp::chunk::{Body, Chunk, Function};
use rdmap::sctp::session::{Event, Indication, Session, State};
use rdmap::sctp::window::{Bits, RxWindow, WORDS};

fuzz_target!(|input: &[u8]| {
    let bits: Box<Bits> = Box::new([0; WORDS]);
    let (mut window, mut session) = (RxWindow::new(bits), Session::new());
    let (mut terminates, mut ends, mut begun, mut full) = (0, 0, false, false);
    let mut rest = input;
    while let [what, more @ ..] = rest {
        rest = more;
        let event = match what & 7 {
            0..=2 => {
                let (payload, behind) = more.split_at(more.len().min(usize::from(what >> 3)));
                rest = behind;
                let ppid = 16 + u32::from(what & 1);
                match Chunk::parse(ppid, *what & 2 == 0 || ppid == 16, payload) {
                    Err(_) => Event::Illegal,
                    Ok(chunk) => match (window.pass(chunk.ssn), chunk.body) {
                        (Err(_), _) => Event::Illegal,
                        (Ok(seq), Body::Segment(_)) => Event::Segment { seq },
                        (Ok(seq), Body::Control(control)) => Event::Control {
                            function: control.function,
                            enhanced: control.is_enhanced,
                            seq,
                            full,
                        },
                    },
                }
            }
            3 => Event::Connect {
                enhanced: what & 8 != 0,
            },
            4 if what & 8 == 0 => Event::Accept,
            4 => Event::Reject,
            5 => Event::SenderDry,
            6 => Event::Disconnect,
            _ => match what >> 3 & 3 {
                0 => Event::Fail,
                1 => Event::Lost,
                2 => Event::Timeout,
                _ => {
                    full = !full;
                    continue;
                }
            },
        };
        for event in [event, Event::InOrderUpto(window.in_order_upto())] {
            let could_begin = session.state() == State::Free;
            let action = session.on(event);
            // Who is one too many is no request.
            assert!(!could_begin || !full || action.indication.is_none());
            terminates += usize::from(action.send == Some(Function::Terminate));
            match action.indication {
                Some(Indication::Request) => begun = true,
                Some(Indication::Established) | None => {}
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
            // Of an association that is lost or aborted nothing is heard any more.
            if event == Event::Lost
                || action.abort
                || session == Session::new() && (begun || terminates > 0)
            {
                return;
            }
        }
    }
});
