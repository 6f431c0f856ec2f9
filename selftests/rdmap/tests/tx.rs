// SPDX-License-Identifier: GPL-2.0

//! Tests of the transmit half alone: cutting of messages, scheduling, and the time of completions.

use proptest::collection::vec;
use proptest::prelude::*;
use rdmap::fault::Cause;
use rdmap::fault::Fault;
use rdmap::fault::LlpError;
use rdmap::fault::Misuse;
use rdmap::fault::OffendingSegment;
use rdmap::header::Header;
use rdmap::header::Model;
use rdmap::header::ReadRequest;
use rdmap::header::Untagged;
use rdmap::mpa::frame;
use rdmap::order::InOrder;
use rdmap::rx;
use rdmap::rx::Closed;
use rdmap::rx::HashKey;
use rdmap::rx::InboundRead;
use rdmap::rx::InboundSlot;
use rdmap::rx::Outstanding;
use rdmap::rx::Receive;
use rdmap::rx::RxHalf;
use rdmap::stag::Access;
use rdmap::stag::Denied;
use rdmap::stag::Memory;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;
use rdmap::tx::Completion;
use rdmap::tx::Operation;
use rdmap::tx::Outgoing;
use rdmap::tx::Payload;
use rdmap::tx::Posted;
use rdmap::tx::Request;
use rdmap::tx::Slots;
use rdmap::tx::Status;
use rdmap::tx::TxHalf;
use rdmap::tx::HEADER_LEN;

pub struct Queues;

impl Slots for Queues {
    type Requests = Vec<Posted>;
    type Responses = Vec<InboundRead>;
}

/// Memory that exists, or existed.
struct All(Result<(), Denied>);

impl Memory for All {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        self.0
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        self.0
    }
}

const THERE: All = All(Ok(()));

pub fn tx_half(ord: u16) -> TxHalf<Queues> {
    tx_half_over(ord, true)
}

fn tx_half_over(ord: u16, in_order: bool) -> TxHalf<Queues> {
    let responses = vec![InboundRead::default(); 4];
    TxHalf::new(vec![Posted::EMPTY; 8], responses, ord, in_order)
}

/// Returns the proof that the receive half of a stream is closed.
fn closed() -> Closed {
    struct None;
    impl rx::Slots for None {
        type Receives = Vec<Receive>;
        type Inbound = Vec<InboundSlot>;
        type Outstanding = Vec<Outstanding>;
    }
    let mut rx = RxHalf::<_, None>::new(InOrder::new(), HashKey(0, 0), vec![], vec![], vec![]);
    rx.close().unwrap()
}

fn send(length: u32) -> Request {
    Request {
        operation: Operation::Send {
            length,
            solicited: false,
            invalidate: None,
        },
        fence: false,
    }
}

fn write(length: u32, offset: u64) -> Request {
    Request {
        operation: Operation::Write(Range {
            stag: Stag(5),
            offset,
            length,
        }),
        fence: false,
    }
}

pub fn read(length: u32) -> Request {
    Request {
        operation: Operation::Read(ReadRequest {
            length,
            sink_stag: Stag(1),
            source_stag: Stag(2),
            ..ReadRequest::default()
        }),
        fence: false,
    }
}

fn fenced(request: Request) -> Request {
    Request {
        fence: true,
        ..request
    }
}

fn inbound_read(length: u32, sink_offset: u64) -> InboundRead {
    InboundRead {
        number: 0,
        request: ReadRequest {
            sink_stag: Stag(0xa59d_8500),
            sink_offset,
            length,
            source_stag: Stag(7),
            source_offset: 100,
        },
        offending: OffendingSegment::of(&[0x41; 18], 46),
    }
}

/// A segment: its header, and the length of its payload.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    header: Header,
    octets: u32,
}

impl Seen {
    fn of(outgoing: &Outgoing) -> Self {
        let (header, payload) = match outgoing {
            Outgoing::Segment {
                header, payload, ..
            } => (header, payload),
            Outgoing::Read { header, .. } => (header, &Payload::None),
            Outgoing::Local(_) => panic!("it is no segment"),
        };
        let (header, _) = Header::parse(header.as_slice()).unwrap();
        let octets = match payload {
            Payload::None => 0,
            Payload::Request { length, .. } => *length,
            Payload::Response(range) => range.length,
        };
        Self { header, octets }
    }
}

/// Returns everything that is sent now.
fn drain(tx: &mut TxHalf<Queues>, mulpdu: u32) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(outgoing) = tx.peek(mulpdu, &THERE) {
        let segment = Seen::of(&outgoing);
        tx.commit().unwrap();
        seen.push(segment);
    }
    seen
}

fn offsets(seen: &[Seen]) -> Vec<(u64, u32, bool)> {
    seen.iter()
        .map(|seen| {
            let offset = match seen.header.model {
                Model::Tagged { offset, .. } => offset,
                Model::Untagged { offset, .. } => u64::from(offset),
            };
            (offset, seen.octets, seen.header.last)
        })
        .collect()
}

fn opcodes(seen: &[Seen]) -> Vec<u8> {
    seen.iter()
        .map(|seen| seen.header.opcode().code())
        .collect()
}

/// A capture with an MTU of 1500 and TCP time stamps.
#[test]
fn gv05_read_response_of_1500_octets() {
    let mulpdu = frame::mulpdu(1448, false);
    assert_eq!(mulpdu, 1442);
    let mut tx = tx_half(1);
    tx.respond(inbound_read(1500, 0x1_0000)).unwrap();
    let seen = drain(&mut tx, mulpdu);
    let expected = [(0x1_0000, 1428, false), (0x1_0000 + 0x594, 72, true)];
    assert_eq!(offsets(&seen), expected);
    for segment in &seen {
        let Model::Tagged { response, stag, .. } = segment.header.model else {
            panic!("{segment:?}");
        };
        assert!(response);
        assert_eq!(stag, Stag(0xa59d_8500));
    }
}

/// RFC 5041, section 5.2.
#[test]
fn gv06_two_kib_in_segments_of_1500() {
    let mut tx = tx_half(1);
    tx.post(send(2048)).unwrap();
    tx.post(write(2048, 16_384)).unwrap();
    let seen = drain(&mut tx, 1500);
    let expected = [
        (0, 1482, false),
        (1482, 566, true),
        (16_384, 1486, false),
        (17_870, 562, true),
    ];
    assert_eq!(offsets(&seen), expected);
}

#[test]
fn message_of_no_octets_is_one_segment() {
    let mut tx = tx_half(1);
    for request in [send(0), write(0, 9), read(0)] {
        tx.post(request).unwrap();
    }
    tx.respond(inbound_read(0, 3)).unwrap();
    let seen = drain(&mut tx, 128);
    assert_eq!(opcodes(&seen), [2, 3, 0, 1]);
    assert!(seen.iter().all(|seen| seen.octets == 0 && seen.header.last));
}

#[test]
fn each_queue_counts_its_messages() {
    let mut tx = tx_half(4);
    for request in [send(1), read(1), write(1, 0), send(1), read(1), send(300)] {
        tx.post(request).unwrap();
    }
    let seen = drain(&mut tx, 128);
    let numbers: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.header.model {
            Model::Untagged { message, msn, .. } => Some((message.queue().number(), msn)),
            Model::Tagged { .. } => None,
        })
        .collect();
    let expected = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (0, 3), (0, 3)];
    assert_eq!(numbers, expected);
}

proptest! {
    #[test]
    fn segments_cover_a_message_once_whatever_the_size_does(
        length in 0..5000_u32, offset: u64, sizes in vec((128..1500_u32, any::<bool>()), 1..8), tagged: bool,
    ) {
        let mut tx = tx_half(1);
        tx.post(if tagged { write(length, offset) } else { send(length) }).unwrap();
        let start = if tagged { offset } else { 0 };
        let mut covered = 0;
        for (mut size, refused) in sizes.into_iter().cycle() {
            let mut outgoing = tx.peek(size, &THERE).unwrap();
            if refused {
                // The LLP did not take it: it is cut anew.
                size = 128;
                outgoing = tx.peek(size, &THERE).unwrap();
            }
            let seen = Seen::of(&outgoing);
            let [(at, octets, last)] = offsets(&[seen])[..] else { panic!() };
            prop_assert_eq!(at, start.wrapping_add(u64::from(covered)));
            let header_len = if tagged { 14 } else { 18 };
            prop_assert!(octets + header_len <= size);
            covered += octets;
            tx.commit().unwrap();
            prop_assert_eq!(last, covered == length);
            if last {
                break;
            }
        }
        prop_assert_eq!(tx.peek(128, &THERE), None);
    }
}

#[test]
fn reads_wait_for_ord_and_hold_up_what_follows() {
    let mut tx = tx_half(2);
    for request in [read(1), read(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 1]);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 3]);
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.done(3), Err(Misuse::Unknown));
    let mut none = self::tx_half(0);
    assert_eq!(none.post(read(1)), Err(Misuse::NoReads));
}

fn read_to(offset: u64, length: u32) -> Request {
    let mut request = read(length);
    if let Operation::Read(read) = &mut request.operation {
        read.sink_offset = offset;
    }
    request
}

/// The destination identifies segments that come in any order.
#[test]
fn reads_whose_sinks_overlap_wait_for_each_other_where_segments_do_not_keep_their_order() {
    let requests = [read_to(100, 10), read_to(110, 10), read_to(105, 1), send(1)];
    for (in_order, expected) in [(true, vec![1, 1, 1, 3]), (false, vec![1, 1])] {
        let mut tx = tx_half_over(4, in_order);
        for request in requests {
            tx.post(request).unwrap();
        }
        assert_eq!(opcodes(&drain(&mut tx, 128)), expected);
        tx.done(1).unwrap();
        assert_eq!(opcodes(&drain(&mut tx, 128)), []);
        tx.done(0).unwrap();
        let rest = if in_order { vec![] } else { vec![1, 3] };
        assert_eq!(opcodes(&drain(&mut tx, 128)), rest);
    }
}

#[test]
fn fence_waits_for_all_reads() {
    let mut tx = tx_half(4);
    for request in [read(1), read(1), fenced(send(1)), write(1, 0)] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 1]);
    tx.done(1).unwrap();
    assert!(drain(&mut tx, 128).is_empty());
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [3, 0]);
}

#[test]
fn completions_keep_the_order_of_posting() {
    let mut tx = tx_half(4);
    for request in [send(1), read(1), send(1), write(1, 0)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    assert_eq!(tx.complete(), None);
    tx.release(4);
    let success = |number| {
        Some(Completion {
            number,
            status: Status::Success,
        })
    };
    assert_eq!(tx.complete(), success(0));
    // The Send behind the Read waits for it.
    assert_eq!(tx.complete(), None);
    tx.done(1).unwrap();
    assert_eq!(tx.complete(), success(1));
    assert_eq!(tx.complete(), success(2));
    assert_eq!(tx.complete(), success(3));
    assert_eq!(tx.complete(), None);
}

#[test]
fn send_is_complete_when_its_last_segment_is_taken() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    drain(&mut tx, 128);
    tx.release(2);
    assert_eq!(tx.complete(), None);
    tx.release(99);
    assert!(tx.complete().is_some());
}

#[test]
fn local_operations_hold_up_what_follows_until_they_are_done() {
    let mut tx = tx_half(1);
    let local = Request {
        operation: Operation::Local,
        fence: false,
    };
    tx.post(local).unwrap();
    tx.post(send(1)).unwrap();
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.peek(128, &THERE), Some(Outgoing::Local(0)));
    tx.commit().unwrap();
    assert_eq!(tx.peek(128, &THERE), None);
    // Answers go on.
    tx.respond(inbound_read(1, 0)).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [2]);
    assert_eq!(tx.complete(), None);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [3]);
    assert!(tx.complete().is_some());
}

#[test]
fn responses_and_requests_alternate_between_messages() {
    let mut tx = tx_half(1);
    for _ in 0..3 {
        tx.post(send(200)).unwrap();
        tx.respond(inbound_read(200, 0)).unwrap();
    }
    let expected = [2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3];
    assert_eq!(opcodes(&drain(&mut tx, 128)), expected);
}

#[test]
fn responses_are_owed_until_they_are_committed_or_cannot_be() {
    let mut tx = tx_half(1);
    assert!(!tx.owes_responses());
    tx.respond(inbound_read(1500, 0)).unwrap();
    for _ in 0..2 {
        assert!(tx.owes_responses());
        tx.peek(1014, &THERE).unwrap();
        assert!(tx.owes_responses());
        tx.commit().unwrap();
    }
    assert!(!tx.owes_responses());
    tx.respond(inbound_read(1, 0)).unwrap();
    tx.fail(Fault::LOCAL);
    assert!(!tx.owes_responses());
}

#[test]
fn responses_keep_the_order_of_the_requests() {
    let mut tx = tx_half(1);
    for offset in [10, 20, 30] {
        tx.respond(inbound_read(1, offset)).unwrap();
    }
    let seen = drain(&mut tx, 128);
    let order: Vec<_> = offsets(&seen).into_iter().map(|(at, ..)| at).collect();
    assert_eq!(order, [10, 20, 30]);
}

/// Returns the payload of the Terminate that is sent next.
pub fn terminate(tx: &mut TxHalf<Queues>) -> Terminate {
    let Some(Outgoing::Segment { header, .. }) = tx.peek(128, &THERE) else {
        panic!("there is none");
    };
    assert!(header.len() <= 70);
    tx.commit().unwrap();
    let (parsed, payload) = Header::parse(header.as_slice()).unwrap();
    let model = Model::Untagged {
        message: Untagged::Terminate,
        msn: 1,
        offset: 0,
    };
    assert_eq!(parsed, Header { last: true, model });
    Terminate::parse(payload).unwrap()
}

#[test]
fn terminate_is_the_last_and_the_first_fault_wins() {
    let mut tx = tx_half(1);
    tx.post(send(500)).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    assert!(tx.fail(Fault::llp(LlpError::Crc)));
    assert!(!tx.fail(Fault::LOCAL));
    let told = terminate(&mut tx);
    assert_eq!(told.code, Cause::Llp(LlpError::Crc).code());
    assert_eq!(told.header, None);
    assert!(tx.is_over());
    assert_eq!(tx.peek(128, &THERE), None);
    // Segments that the LLP still has keep their requests from completing.
    assert_eq!(tx.complete(), None);
    tx.release(1);
    let flushed = |number| {
        Some(Completion {
            number,
            status: Status::Flushed,
        })
    };
    assert_eq!(tx.complete(), flushed(0));
    assert_eq!(tx.complete(), flushed(1));
    assert_eq!(tx.post(send(1)), Ok(2));
    assert_eq!(tx.complete(), flushed(2));
}

#[test]
fn closed_stream_sends_nothing_and_flushes_all() {
    let mut tx = tx_half(2);
    for request in [send(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    tx.release(1);
    tx.close(closed());
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.peek(128, &THERE), None);
    let ends: Vec<_> = std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Success, Status::Flushed, Status::Flushed]);
}

#[test]
fn response_that_fails_halfway_says_how_far_it_came() {
    let mut tx = tx_half(1);
    tx.respond(inbound_read(1000, 5000)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.peek(200, &THERE).unwrap();
    tx.commit().unwrap();
    let gone = All(Err(Denied::Invalid));
    let Some(Outgoing::Segment { header, .. }) = tx.peek(128, &gone) else {
        panic!("there is no Terminate");
    };
    // There is no longer one.
    assert_eq!((header.len(), HEADER_LEN), (70, 70));
    let (_, payload) = Header::parse(header.as_slice()).unwrap();
    let told = Terminate::parse(payload).unwrap();
    assert_eq!(told.code, rdmap::violation::Code::new(0, 1, 0));
    let sent = 128 - 14 + 200 - 14;
    let left = told.read.unwrap();
    assert_eq!(left.length, 1000 - sent);
    assert_eq!(left.sink_offset, 5000 + u64::from(sent));
    assert_eq!(left.source_offset, 100 + u64::from(sent));
    assert_eq!(
        (left.sink_stag, left.source_stag),
        (Stag(0xa59d_8500), Stag(7))
    );
}

#[test]
fn request_whose_memory_is_not_there_ends_the_stream() {
    let mut tx = tx_half(1);
    tx.post(send(1)).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.abandon();
    let told = terminate(&mut tx);
    assert_eq!((told.code.layer, told.code.etype), (0, 0));
    assert_eq!((told.header, told.segment_length), (None, None));
    let ends: Vec<_> = std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Failed, Status::Flushed]);
}

fn statuses(tx: &mut TxHalf<Queues>) -> Vec<Status> {
    std::iter::from_fn(|| tx.complete())
        .map(|completion| completion.status)
        .collect()
}

fn local() -> Request {
    Request {
        operation: Operation::Local,
        fence: false,
    }
}

/// The receive half is still open: the response may be placed where the upper layer would already
/// use the memory again.
#[test]
fn read_that_left_is_not_flushed_before_the_stream_is_closed() {
    let mut tx = tx_half(2);
    for request in [send(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    tx.release(3);
    tx.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut tx), [Status::Success]);
    terminate(&mut tx);
    tx.release(4);
    assert_eq!(statuses(&mut tx), []);
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
}

#[test]
fn read_that_did_not_leave_is_flushed_by_a_fault() {
    let mut tx = tx_half(2);
    tx.post(read(1)).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn local_operation_that_was_started_is_waited_for() {
    for abandoned in [false, true] {
        let mut tx = tx_half(1);
        for _ in 0..2 {
            tx.post(local()).unwrap();
        }
        assert_eq!(tx.peek(128, &THERE), Some(Outgoing::Local(0)));
        tx.commit().unwrap();
        tx.fail(Fault::LOCAL);
        terminate(&mut tx);
        assert_eq!(statuses(&mut tx), []);
        let status = match abandoned {
            true => {
                tx.abandon();
                Status::Failed
            }
            false => {
                tx.done(0).unwrap();
                Status::Success
            }
        };
        assert_eq!(statuses(&mut tx), [status, Status::Flushed]);
    }
}

/// Who started it may never say that it is done.
#[test]
fn local_operation_does_not_keep_a_closed_stream_from_completing() {
    let mut tx = tx_half(1);
    tx.post(local()).unwrap();
    tx.post(send(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
}

#[test]
fn local_operation_that_is_done_behind_a_flushed_read_is_flushed() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    tx.post(local()).unwrap();
    drain_with_local(&mut tx);
    tx.close(closed());
    assert_eq!(statuses(&mut tx), [Status::Flushed; 2]);
}

/// Hands over a Read and starts and ends a local operation.
fn drain_with_local(tx: &mut TxHalf<Queues>) {
    for _ in 0..2 {
        tx.peek(128, &THERE).unwrap();
        tx.commit().unwrap();
    }
    tx.done(1).unwrap();
}

/// The response was faster than the sender's return from the socket.
#[test]
fn read_may_be_done_before_its_request_is_committed() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    tx.post(read(1)).unwrap();
    tx.peek(128, &THERE).unwrap();
    assert_eq!(tx.done(1), Err(Misuse::Unknown));
    tx.done(0).unwrap();
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.complete(), None);
    tx.commit().unwrap();
    assert_eq!(tx.complete(), None);
    tx.release(1);
    assert_eq!(statuses(&mut tx), [Status::Success]);
    // It is not outstanding any more.
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1]);
    assert_eq!(tx.peek(128, &THERE), None);
}

#[test]
fn request_is_kept_while_the_llp_takes_its_first_segment() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.complete(), None);
    tx.commit().unwrap();
    assert_eq!(tx.complete(), None);
    tx.release(1);
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn request_that_was_not_taken_is_returned_after_the_terminate_is_offered() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.fail(Fault::LOCAL);
    assert_eq!(tx.complete(), None);
    tx.peek(128, &THERE).unwrap();
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn stream_stays_closed_when_its_terminate_was_under_way() {
    let mut tx = tx_half(1);
    tx.post(read(1)).unwrap();
    drain(&mut tx, 128);
    tx.fail(Fault::LOCAL);
    tx.peek(128, &THERE).unwrap();
    tx.close(closed());
    tx.commit().unwrap();
    assert_eq!(statuses(&mut tx), [Status::Flushed]);
}

#[test]
fn queues_have_an_end() {
    let mut tx = tx_half(1);
    for _ in 0..8 {
        tx.post(send(1)).unwrap();
    }
    assert_eq!(tx.post(send(1)), Err(Misuse::Full));
    assert_eq!(tx.commit(), Err(Misuse::State));
}
