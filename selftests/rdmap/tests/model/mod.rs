// SPDX-License-Identifier: GPL-2.0

//! Two ends of a stream, joined by a lower layer that keeps the order of segments, or does not.
//!
//! Everything that decides is the crate under test; what stands here moves octets and watches. It panics where a rule of
//! RFC 5040, section 5.5, is broken: a Send shown before what was sent ahead of it is there, a Read Request answered too
//! early, memory touched that is not registered, a completion that is missing, doubled or out of its order, more Reads
//! outstanding than may be, anything behind a Terminate.
//!
//! A source of [choices](Choices) drives it, so that a random generator or a fuzzer can look for a schedule that
//! goes wrong.

mod end;
mod memory;

use end::End;
use rdmap::fault::Code;
use rdmap::order::Arrival;
use rdmap::order::Order;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::Window;
use rdmap::sctp::window::WORDS;

/// Decides what happens next.
pub trait Choices {
    /// A number below `limit`, which is not zero.
    fn below(&mut self, limit: usize) -> usize;

    /// One time in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }
}

/// What a run did, so that a test can tell that it was not about nothing.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Sends that were delivered.
    pub sends: usize,
    /// Writes that a later Send made visible.
    pub writes: usize,
    /// Reads that were done.
    pub reads: usize,
    /// Segments that overtook another one.
    pub overtaken: usize,
    /// Requests that were flushed.
    pub flushed: usize,
    /// What the Terminates said.
    pub codes: Vec<Code>,
}

/// A lower layer.
pub trait Lower: Order {
    /// The order of a new stream.
    fn new() -> Self;

    /// What the `count`th segment brings along.
    fn key(count: u64) -> Self::Key;
}

impl Lower for Arrival {
    fn new() -> Self {
        Arrival::new()
    }

    fn key(_: u64) {}
}

impl Lower for Window<Box<Bits>> {
    fn new() -> Self {
        Window::new(Box::new([0; WORDS]))
    }

    fn key(count: u64) -> u16 {
        u16::try_from(count % 65_536).unwrap()
    }
}

/// A segment on its way.
pub struct Flying {
    count: u64,
    octets: Vec<u8>,
}

/// What one end does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It writes to an STag that nothing has.
    WriteNowhere,
    /// It writes behind the end of a region.
    WriteBeyond,
    /// It writes what it may only read.
    WriteReadOnly,
    /// It reads what nothing has.
    ReadNowhere,
    /// It reads behind the end of a region.
    ReadBeyond,
    /// It reads beyond the last offset of all.
    ReadWrapping,
    /// It reads another stream's memory.
    ReadForeign,
    /// It sends more than a Receive holds.
    SendTooLong,
    /// It invalidates what it may not.
    InvalidateShared,
    /// It invalidates what is not there.
    InvalidateNothing,
}

/// All of them, with what they are called on the wire.
pub const WRONGS: [(Wrong, (u8, u8, u8)); 10] = [
    (Wrong::WriteNowhere, (1, 1, 0)),
    (Wrong::WriteBeyond, (1, 1, 1)),
    (Wrong::WriteReadOnly, (1, 1, 0)),
    (Wrong::ReadNowhere, (0, 1, 0)),
    (Wrong::ReadBeyond, (0, 1, 1)),
    (Wrong::ReadWrapping, (0, 1, 4)),
    (Wrong::ReadForeign, (0, 1, 3)),
    (Wrong::SendTooLong, (1, 2, 5)),
    (Wrong::InvalidateShared, (0, 1, 9)),
    (Wrong::InvalidateNothing, (0, 2, 9)),
];

/// Runs `requests` requests from each end to their end. With `wrong`, the first end does that at some time.
pub fn run<L: Lower>(
    choices: &mut impl Choices,
    requests: usize,
    mut wrong: Option<Wrong>,
) -> Summary {
    let mut summary = Summary::default();
    let ord = [choices.below(4) + 1, choices.below(4) + 1];
    let mut ends = [End::<L>::new(ord[0], ord[1]), End::<L>::new(ord[1], ord[0])];
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
