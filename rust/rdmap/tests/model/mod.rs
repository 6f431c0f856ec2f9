// SPDX-License-Identifier: GPL-2.0

//! Two ends of a stream, joined by an LLP that keeps the order of segments, or does not.
//!
//! All decisions are made by the crate under test; the model copies octets and watches. It panics
//! where a rule of RFC 5040, section 5.5, is broken: a Send is delivered before octets that were
//! sent ahead of it, a Read Request is answered too early, memory is accessed that is not
//! registered, or not for this, a completion is missing, doubled, out of order or too early for the
//! LLP, more Reads are outstanding than may be, anything follows a Terminate.
//!
//! A segment may arrive before its sender has committed it: the two halves of a stream are two
//! contexts.
//!
//! A source of [choices](Choices) drives it, so that a random generator or a fuzzer can look for a
//! schedule that goes wrong.

mod end;
mod memory;
mod planted;
mod post;
mod receive;
mod send;
mod terms;

use end::End;
pub use planted::Bug;
pub use terms::Choices;
pub use terms::Flying;
pub use terms::Llp;
pub use terms::Summary;
pub use terms::Wrong;
pub use terms::WRONGS;

/// Runs `requests` requests from each end to their end. With `wrong`, the first end does that at
/// some time. With `bug`, both ends have it.
pub fn run<L: Llp>(
    choices: &mut impl Choices,
    requests: usize,
    mut wrong: Option<Wrong>,
    bug: Option<Bug>,
) -> Summary {
    let mut summary = Summary::default();
    let ord = [choices.below(4) + 1, choices.below(4) + 1];
    let new = |ord, ird| End::<L>::new(ord, ird, requests + 1, bug);
    let mut ends = [new(ord[0], ord[1]), new(ord[1], ord[0])];
    let mut wires: [Vec<Flying>; 2] = [Vec::new(), Vec::new()];
    for steps in 0.. {
        assert!(steps < 200_000, "the run does not end");
        if ends.iter().all(|end| end.is_done(requests)) && wires.iter().all(Vec::is_empty) {
            break;
        }
        let side = choices.below(2);
        let [first, second] = &mut ends;
        let (end, peer) = match side {
            0 => (first, second),
            _ => (second, first),
        };
        match choices.below(6) {
            0 => {
                if side == 0 && wrong.is_some() && choices.one_in(4) {
                    end.post_wrong(wrong.take().unwrap(), peer);
                } else if end.posted() < requests {
                    end.post(choices, peer);
                }
            }
            1 => {
                if let Some(flying) = end.send(choices) {
                    let again = bug == Some(Bug::SegmentTwice) && flying.count == 5;
                    wires[side].extend(again.then(|| flying.clone()));
                    wires[side].push(flying);
                }
            }
            2 | 3 => {
                let wire = &mut wires[side];
                if !wire.is_empty() {
                    let at = match L::IN_ORDER {
                        true => 0,
                        false => choices.below(wire.len().min(12)),
                    };
                    summary.overtaken += usize::from(at > 0);
                    let flying = wire.remove(at);
                    peer.arrive(&flying, end, &mut summary);
                }
            }
            4 => end.take(choices),
            _ => end.complete(&mut summary),
        }
    }
    for end in &ends {
        end.check_end();
    }
    summary
}
