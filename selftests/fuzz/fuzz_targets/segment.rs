// SPDX-License-Identifier: GPL-2.0

//! Any segments to the receive half of a stream: what is placed lies where it may, what fails can be told.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use rdmap::atomic::Atomic;
use rdmap::order::{InOrder, Order};
use rdmap::rx::{
    Delivery, HashKey, InboundSlot, Outstanding, Placement, Receive, Refusal, RxHalf, Slots,
    Wanted, HEAD_LEN,
};
use rdmap::sctp::window::{Bits, RxWindow, WORDS};
use rdmap::stag::{Access, Denied, Memory, Range, Region, Stag};
use rdmap::terminate::Terminate;

const CAPACITY: u32 = 64;
const SINK: Range = Range {
    stag: Stag(0x100),
    offset: 8,
    length: 24,
};

struct Queues;

impl Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<InboundSlot>;
    type Outstanding = Vec<Outstanding>;
}

/// One region; its STag is 0x100 and its octets are 0 to 99.
struct One;

const REGION: Region = Region {
    base: 0,
    length: 100,
    valid: true,
    of_this_stream: true,
    remote_read: true,
    remote_write: true,
    remote_atomic: true,
    remote_invalidate: true,
};

impl Memory for One {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        assert!(range.length > 0);
        match range.stag {
            Stag(0x100) => REGION.check(range.offset, range.length, want),
            _ => Err(Denied::Invalid),
        }
    }

    fn update(&self, target: Range, _: Atomic) -> Result<u64, Denied> {
        self.check(target, Access::RemoteAtomic).map(|()| 0)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        match stag {
            Stag(0x100) => Ok(()),
            _ => Err(Denied::Invalid),
        }
    }
}

/// The input is a row of segments, each behind an octet for its length and one for its number.
fn run<O: Order>(order: O, mut input: &[u8], key: impl Fn(u8) -> O::Key) {
    let mut rx: RxHalf<O, Queues> = RxHalf::new(
        order,
        HashKey(5, 6),
        vec![Receive::default(); 4],
        vec![InboundSlot::default(); 2],
        vec![Outstanding::default(); 4],
    );
    // The others are posted when a segment wants them, as from a shared receive queue.
    let mut posted = 2;
    for _ in 0..posted {
        rx.post_receive(CAPACITY).unwrap();
    }
    rx.expect(0, SINK, true).unwrap();
    rx.expect(1, Range::default(), false).unwrap();
    rx.expect_atomic(2).unwrap();
    rx.expect_atomic(3).unwrap();
    let (mut failed, mut receives, mut reads) = (false, 0, 0);
    while let [length, number, rest @ ..] = input {
        let (segment, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        input = rest;
        let head = &segment[..segment.len().min(HEAD_LEN)];
        let wanted = rx.receives_wanted(head);
        assert!(!failed || wanted == 0);
        for _ in 0..wanted {
            rx.post_receive(CAPACITY).unwrap();
            posted += 1;
        }
        let placed = rx.segment(key(*number), head, segment.len(), &One);
        assert!(!failed || placed == Ok(Placement::Nothing));
        match placed {
            Ok(Placement::Nothing) => {}
            Ok(Placement::Receive {
                receive,
                offset,
                length,
            }) => {
                assert!((receives..posted).contains(&receive) && receive < receives + 4);
                assert!(offset + length <= CAPACITY && length > 0);
            }
            Ok(Placement::Write(range)) => assert!(range.offset + u64::from(range.length) <= 100),
            Ok(Placement::Response { range, .. }) => {
                assert_eq!(range.stag, SINK.stag);
                let end = range.offset + u64::from(range.length);
                assert!(range.offset >= SINK.offset && end <= 32);
            }
            Err(refusal) => {
                failed = true;
                if let Refusal::Fault(fault) = refusal {
                    let terminate = Terminate::new(&fault);
                    let told = Terminate::parse(terminate.emit().as_slice());
                    assert_eq!(told, Some(terminate));
                }
            }
        }
        rx.placed();
        while let Ok(Some(delivery)) = rx.deliver(&One) {
            match delivery {
                Delivery::Message {
                    receive, length, ..
                } => {
                    assert_eq!(receive, receives);
                    assert!(length <= CAPACITY);
                    receives += 1;
                }
                Delivery::Immediate { receive, .. } => {
                    assert_eq!(receive, receives);
                    receives += 1;
                }
                Delivery::Request(request) => {
                    if let Wanted::Atomic(request) = request.wanted {
                        assert!(request.offset <= 92 && request.is_aligned());
                    }
                    rx.free_inbound(request.number).unwrap();
                }
                Delivery::AtomicDone { request, .. } => {
                    assert_eq!(request, reads);
                    reads += 1;
                }
                Delivery::ReadDone { read, .. } => {
                    assert_eq!(read, reads);
                    reads += 1;
                }
                Delivery::Terminate(_) => failed = true,
            }
        }
    }
    assert!(rx.close().is_some());
    let left = std::iter::from_fn(|| rx.flush()).count();
    assert_eq!(u64::try_from(left), Ok(posted - receives));
}

fuzz_target!(|input: &[u8]| {
    let Some((first, input)) = input.split_first() else {
        return;
    };
    match first % 2 {
        0 => run(InOrder::new(), input, |_| ()),
        _ => {
            let bits: Box<Bits> = Box::new([0; WORDS]);
            run(RxWindow::new(bits), input, u16::from);
        }
    }
});
