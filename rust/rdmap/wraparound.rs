// SPDX-License-Identifier: GPL-2.0

//! Tests of streams whose message numbers go past 2^32, and whose offsets go past 2^32 and 2^64.

use crate::atomic::Atomic;
use crate::fault::{Fault, Violation};
use crate::header::{Header, Model, ReadRequest};
use crate::order::{InOrder, Order};
use crate::rx::{
    self, Delivery, HashKey, InboundRequest, InboundSlot, Outstanding, Placement, Receive, Refusal,
    RxHalf, Wanted,
};
use crate::sctp::window::{RxWindow, WORDS};
use crate::stag::{Access, Denied, Memory, Range, Stag};
use crate::tx::{self, Operation, Outgoing, Payload, Posted, Request, TxHalf};

struct Queues;

impl rx::Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<InboundSlot>;
    type Outstanding = Vec<Outstanding>;
}

impl tx::Slots for Queues {
    type Requests = Vec<Posted>;
    type Responses = Vec<InboundRequest>;
}

/// Memory that grants every access.
struct All;

impl Memory for All {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        Ok(())
    }

    fn update(&self, _: Range, _: Atomic) -> Result<u64, Denied> {
        Ok(0)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        Ok(())
    }
}

fn rx_half<O: Order>(order: O) -> RxHalf<O, Queues> {
    let (receives, inbound) = (vec![Receive::default(); 4], vec![InboundSlot::default(); 4]);
    RxHalf::new(
        order,
        HashKey(3, 4),
        receives,
        inbound,
        vec![Outstanding::default(); 4],
    )
}

fn tx_half<O: Order>() -> TxHalf<Queues> {
    let (requests, responses) = (vec![Posted::EMPTY; 8], vec![InboundRequest::default(); 4]);
    TxHalf::new(requests, responses, 4, O::IN_ORDER)
}

fn request(operation: Operation) -> Request {
    Request {
        operation,
        fence: false,
    }
}

/// A segment: its octets on the wire without the payload, and its length.
struct Segment {
    header: Vec<u8>,
    length: usize,
}

impl Segment {
    fn of(outgoing: &Outgoing) -> Self {
        let (header, payload) = match outgoing {
            Outgoing::Segment {
                header, payload, ..
            } => (header, payload),
            Outgoing::Read { header, .. } | Outgoing::Atomic { header, .. } => {
                (header, &Payload::None)
            }
            Outgoing::Local(_) => panic!("it is no segment"),
        };
        let payload = match payload {
            Payload::None => 0,
            Payload::Request { length, .. } => *length,
            Payload::Response(range) => range.length,
        };
        Self {
            header: header.as_slice().to_vec(),
            length: header.len() + crate::wire::size(payload),
        }
    }

    fn model(&self) -> Model {
        Header::parse(&self.header).unwrap().0.model
    }

    fn arrive<O: Order>(
        &self,
        rx: &mut RxHalf<O, Queues>,
        key: O::Key,
    ) -> Result<Placement, Refusal> {
        let place = rx.segment(key, &self.header, self.length, &All);
        rx.placed();
        place
    }
}

fn segments(tx: &mut TxHalf<Queues>, mulpdu: u32) -> Vec<Segment> {
    let mut segments = Vec::new();
    while let Some(outgoing) = tx.peek(mulpdu, &All) {
        segments.push(Segment::of(&outgoing));
        tx.commit().unwrap();
    }
    segments
}

/// Two Sends and two Reads at a time, of two segments each, the last segment first if the LLP
/// reorders.
fn messages_go_past_the_last_number<O: Order>(order: O, key: impl Fn(u64) -> O::Key) {
    const FIRST: u64 = (1 << 32) - 7;
    let (mut here, mut tx) = (rx_half(order), tx_half::<O>());
    here.skip_to(FIRST);
    tx.skip_to(FIRST);
    let mut sent = 0;
    let (mut sends, mut reads) = (Vec::new(), Vec::new());
    for round in 0..8 {
        let mut numbers = Vec::new();
        for sink_offset in 0..2 {
            here.post_receive(200).unwrap();
            let send = Operation::Send {
                length: 150,
                solicited: false,
                invalidate: None,
            };
            let read = Operation::Read(ReadRequest {
                sink_offset,
                ..ReadRequest::default()
            });
            tx.post(request(send)).unwrap();
            numbers.push(tx.post(request(read)).unwrap());
        }
        let segments = segments(&mut tx, 128);
        assert_eq!(segments.len(), 6);
        let places: Vec<_> = match O::IN_ORDER {
            true => (0..6).collect(),
            false => (0..6).rev().collect(),
        };
        for at in places {
            let segment = &segments[at];
            let seq = sent + u64::try_from(at).unwrap();
            segment.arrive(&mut here, key(seq)).unwrap();
            if let Model::Untagged { message, msn, .. } = segment.model() {
                match message.queue().number() {
                    0 => sends.push(msn),
                    _ => reads.push(msn),
                }
            }
        }
        sent += 6;
        for number in [0, 1] {
            let due = FIRST + 2 * round + number;
            let delivered = here.deliver(&All).unwrap();
            let Some(Delivery::Message {
                receive, length, ..
            }) = delivered
            else {
                panic!("{delivered:?}");
            };
            assert_eq!((receive, length), (due, 150));
            let delivered = here.deliver(&All).unwrap();
            let Some(Delivery::Request(answer)) = delivered else {
                panic!("{delivered:?}");
            };
            assert_eq!(answer.number, due);
            here.free_inbound(answer.number).unwrap();
        }
        assert_eq!(here.deliver(&All), Ok(None));
        tx.release(u64::MAX);
        for number in numbers {
            tx.done(number).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| tx.complete()).count(), 4);
    }
    // Message numbers are one above: the first message has 1.
    let mut due: Vec<_> = (0..16_u32).map(|number| number.wrapping_sub(6)).collect();
    assert!(due.contains(&u32::MAX) && due.contains(&0));
    sends.dedup();
    for mut seen in [sends, reads] {
        seen.sort_unstable();
        seen.dedup();
        due.sort_unstable();
        assert_eq!(seen, due);
    }
}

// Shows D-3.
#[test]
fn messages_go_past_the_last_number_in_their_order() {
    messages_go_past_the_last_number(InOrder::new(), |_| ());
}

// Shows D-3.
#[test]
fn messages_go_past_the_last_number_in_any_order() {
    let window = RxWindow::new(Box::new([0; WORDS]));
    messages_go_past_the_last_number(window, |seq| u16::try_from(seq).unwrap());
}

/// Numbers behind and ahead of the window, on both sides of the last one.
// Shows D-9.
#[test]
fn windows_go_past_the_last_number() {
    let send = |msn| {
        let message = crate::header::Untagged::Send {
            solicited: false,
            invalidate: None,
        };
        Segment {
            header: header(message, msn, 0, true),
            length: 18,
        }
    };
    for first in [(1 << 32) - 3, (1 << 32) - 1, 1 << 32] {
        let fresh = || {
            let mut rx = rx_half(InOrder::new());
            rx.skip_to(first);
            rx.post_receive(10).unwrap();
            rx.post_receive(10).unwrap();
            rx
        };
        let next = crate::serial::low_u32(first + 1);
        for (ahead, expected) in [
            (0, None),
            (1, None),
            (2, Some(Violation::NoBuffer)),
            (0x7fff_ffff, Some(Violation::NoBuffer)),
            (0x8000_0000, Some(Violation::MessageNumber)),
            (u32::MAX, Some(Violation::MessageNumber)),
        ] {
            let place = send(next.wrapping_add(ahead)).arrive(&mut fresh(), ());
            assert_eq!(violation(place), expected, "{first:#x} {ahead:#x}");
        }
    }
}

fn header(message: crate::header::Untagged, msn: u32, offset: u32, last: bool) -> Vec<u8> {
    let model = Model::Untagged {
        message,
        msn,
        offset,
    };
    Header { last, model }.emit().as_slice().to_vec()
}

fn violation(place: Result<Placement, Refusal>) -> Option<Violation> {
    match place {
        Ok(_) => None,
        Err(Refusal::Fault(Fault {
            cause: crate::fault::Cause::Peer(violation),
            ..
        })) => Some(violation),
        Err(other) => panic!("{other:?}"),
    }
}

/// The requests share their numbers with Reads, and the responses have numbers of their own.
// Shows X5.2-1, X5.2.2-6.
#[test]
fn atomic_messages_go_past_the_last_number() {
    const FIRST: u64 = (1 << 32) - 2;
    let (mut here, mut there) = (rx_half(InOrder::new()), rx_half(InOrder::new()));
    let (mut asking, mut answering) = (tx_half::<InOrder>(), tx_half::<InOrder>());
    for half in [&mut here, &mut there] {
        half.skip_to(FIRST);
    }
    for half in [&mut asking, &mut answering] {
        half.skip_to(FIRST);
    }
    let atomic = Operation::Atomic {
        stag: Stag(9),
        offset: 0,
        operation: Atomic::FetchAdd { add: 1, mask: 0 },
    };
    let msn = |segment: &Segment| match segment.model() {
        Model::Untagged { msn, .. } => msn,
        model => panic!("{model:?}"),
    };
    for due in [u32::MAX, 0, 1] {
        let number = asking.post(request(atomic)).unwrap();
        here.expect_atomic(number).unwrap();
        for segment in segments(&mut asking, 128) {
            assert_eq!(msn(&segment), due);
            segment.arrive(&mut there, ()).unwrap();
        }
        let Ok(Some(Delivery::Request(delivered))) = there.deliver(&All) else {
            panic!("it is not delivered");
        };
        answering.respond(delivered).unwrap();
        there.free_inbound(delivered.number).unwrap();
        for segment in segments(&mut answering, 128) {
            assert_eq!(msn(&segment), due);
            segment.arrive(&mut here, ()).unwrap();
        }
        let done = Delivery::AtomicDone {
            request: number,
            original: 0,
        };
        assert_eq!(here.deliver(&All), Ok(Some(done)));
        asking.done(number).unwrap();
    }
}

/// A Send of 2^32 - 1 octets in three segments.
// Shows D-5.
#[test]
fn longest_send_is_placed_and_delivered() {
    let (mut here, mut tx) = (rx_half(InOrder::new()), tx_half::<InOrder>());
    here.post_receive(u32::MAX).unwrap();
    let send = Operation::Send {
        length: u32::MAX,
        solicited: false,
        invalidate: None,
    };
    tx.post(request(send)).unwrap();
    let segments = segments(&mut tx, 0x7fff_ffff);
    let lengths: Vec<_> = segments.iter().map(|segment| segment.length - 18).collect();
    assert_eq!(lengths, [0x7fff_ffed, 0x7fff_ffed, 37]);
    for (segment, offset) in segments.iter().zip([0, 0x7fff_ffed, 0xffff_ffda]) {
        let place = segment.arrive(&mut here, ());
        let Ok(Placement::Receive { offset: at, .. }) = place else {
            panic!("{place:?}");
        };
        assert_eq!(at, offset);
    }
    let delivered = here.deliver(&All);
    assert!(matches!(delivered, Ok(Some(Delivery::Message { length, .. })) if length == u32::MAX));
    // One octet more has no offset.
    here.post_receive(u32::MAX).unwrap();
    let message = crate::header::Untagged::Send {
        solicited: false,
        invalidate: None,
    };
    let longer = Segment {
        header: header(message, 2, 0xffff_fffe, true),
        length: 18 + 2,
    };
    assert_eq!(
        violation(longer.arrive(&mut here, ())),
        Some(Violation::TooLong)
    );
}

/// Returns the destinations of the segments of a Write and of a response from this offset on.
fn tagged_offsets(offset: u64) -> [Vec<u64>; 2] {
    let mut tx = tx_half::<InOrder>();
    let write = Range {
        stag: Stag(9),
        offset,
        length: 300,
    };
    tx.post(request(Operation::Write(write))).unwrap();
    let answer = InboundRequest {
        wanted: Wanted::Read(ReadRequest {
            sink_offset: offset,
            length: 300,
            source_offset: offset,
            ..ReadRequest::default()
        }),
        ..InboundRequest::default()
    };
    tx.respond(answer).unwrap();
    let mut offsets = [Vec::new(), Vec::new()];
    for segment in segments(&mut tx, 128) {
        let Model::Tagged {
            response, offset, ..
        } = segment.model()
        else {
            panic!("{:?}", segment.model());
        };
        offsets[usize::from(response)].push(offset);
    }
    offsets
}

// Shows P4.4-3.
#[test]
fn tagged_offsets_go_on_where_their_low_half_wraps() {
    for offset in [0xffff_ff00, 0x7_ffff_ffff, u64::MAX - 299] {
        let due = [0, 114, 228].map(|sent| offset + sent);
        assert_eq!(tagged_offsets(offset), [due, due]);
    }
}

/// The response to a Read whose destination crosses 2^32, and one that ends with the greatest
/// offset.
// Shows P4.4-4.
#[test]
fn response_goes_where_the_low_half_of_its_offset_wraps() {
    for offset in [0xffff_ff80, u64::MAX - 199] {
        let mut here = rx_half(InOrder::new());
        let range = Range {
            stag: Stag(9),
            offset,
            length: 200,
        };
        here.expect(0, range, false).unwrap();
        for (sent, length, last) in [(0, 128, false), (128, 72, true)] {
            let model = Model::Tagged {
                response: true,
                stag: Stag(9),
                offset: offset + sent,
            };
            let segment = Segment {
                header: Header { last, model }.emit().as_slice().to_vec(),
                length: 14 + length,
            };
            let place = segment.arrive(&mut here, ());
            assert!(matches!(place, Ok(Placement::Response { .. })), "{place:?}");
        }
        let delivered = here.deliver(&All);
        assert!(matches!(delivered, Ok(Some(Delivery::ReadDone { .. }))));
    }
}
