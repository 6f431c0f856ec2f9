// SPDX-License-Identifier: GPL-2.0

//! Tests of the transmit half alone: cutting of messages, scheduling, and the time of completions.

use proptest::collection::vec;
use proptest::prelude::*;
use rdmap::fault::Cause;
use rdmap::fault::Culprit;
use rdmap::fault::Fault;
use rdmap::fault::Lower;
use rdmap::fault::Misuse;
use rdmap::header::Header;
use rdmap::header::Model;
use rdmap::header::ReadRequest;
use rdmap::header::Untagged;
use rdmap::mpa::frame;
use rdmap::order::Arrival;
use rdmap::sink;
use rdmap::sink::Answer;
use rdmap::sink::Closed;
use rdmap::sink::Inbound;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Receive;
use rdmap::sink::Sink;
use rdmap::source::Completion;
use rdmap::source::Operation;
use rdmap::source::Outgoing;
use rdmap::source::Payload;
use rdmap::source::Posted;
use rdmap::source::Request;
use rdmap::source::Slots;
use rdmap::source::Source;
use rdmap::source::Status;
use rdmap::source::HEADER_LEN;
use rdmap::stag::Access;
use rdmap::stag::Denied;
use rdmap::stag::Memory;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;

pub struct Queues;

impl Slots for Queues {
    type Requests = Vec<Posted>;
    type Answers = Vec<Answer>;
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

pub fn source(ord: u16) -> Source<Queues> {
    source_over(ord, true)
}

fn source_over(ord: u16, in_order: bool) -> Source<Queues> {
    let answers = vec![Answer::default(); 4];
    Source::new(vec![Posted::EMPTY; 8], answers, ord, in_order)
}

/// Returns the proof that the receive half of a stream is closed.
fn closed() -> Closed {
    struct None;
    impl sink::Slots for None {
        type Receives = Vec<Receive>;
        type Inbound = Vec<Inbound>;
        type Outstanding = Vec<Outstanding>;
    }
    let mut sink = Sink::<_, None>::new(Arrival::new(), Key(0, 0), vec![], vec![], vec![]);
    sink.close().unwrap()
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

fn answer(length: u32, sink_offset: u64) -> Answer {
    Answer {
        number: 0,
        request: ReadRequest {
            sink_stag: Stag(0xa59d_8500),
            sink_offset,
            length,
            source_stag: Stag(7),
            source_offset: 100,
        },
        culprit: Culprit::of(&[0x41; 18], 46),
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
            Payload::Answer(range) => range.length,
        };
        Self { header, octets }
    }
}

/// Returns everything that is sent now.
fn drain(source: &mut Source<Queues>, mulpdu: u32) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(outgoing) = source.next(mulpdu, &THERE) {
        let segment = Seen::of(&outgoing);
        source.handed().unwrap();
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
    let mut source = source(1);
    source.answer(answer(1500, 0x1_0000)).unwrap();
    let seen = drain(&mut source, mulpdu);
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
    let mut source = source(1);
    source.post(send(2048)).unwrap();
    source.post(write(2048, 16_384)).unwrap();
    let seen = drain(&mut source, 1500);
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
    let mut source = source(1);
    for request in [send(0), write(0, 9), read(0)] {
        source.post(request).unwrap();
    }
    source.answer(answer(0, 3)).unwrap();
    let seen = drain(&mut source, 128);
    assert_eq!(opcodes(&seen), [2, 3, 0, 1]);
    assert!(seen.iter().all(|seen| seen.octets == 0 && seen.header.last));
}

#[test]
fn each_queue_counts_its_messages() {
    let mut source = source(4);
    for request in [send(1), read(1), write(1, 0), send(1), read(1), send(300)] {
        source.post(request).unwrap();
    }
    let seen = drain(&mut source, 128);
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
        let mut source = source(1);
        source.post(if tagged { write(length, offset) } else { send(length) }).unwrap();
        let start = if tagged { offset } else { 0 };
        let mut covered = 0;
        for (mut size, refused) in sizes.into_iter().cycle() {
            let mut outgoing = source.next(size, &THERE).unwrap();
            if refused {
                // The lower layer did not take it: it is cut anew.
                size = 128;
                outgoing = source.next(size, &THERE).unwrap();
            }
            let seen = Seen::of(&outgoing);
            let [(at, octets, last)] = offsets(&[seen])[..] else { panic!() };
            prop_assert_eq!(at, start.wrapping_add(u64::from(covered)));
            let header_len = if tagged { 14 } else { 18 };
            prop_assert!(octets + header_len <= size);
            covered += octets;
            source.handed().unwrap();
            prop_assert_eq!(last, covered == length);
            if last {
                break;
            }
        }
        prop_assert_eq!(source.next(128, &THERE), None);
    }
}

#[test]
fn reads_wait_for_ord_and_hold_up_what_follows() {
    let mut source = source(2);
    for request in [read(1), read(1), read(1), send(1)] {
        source.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut source, 128)), [1, 1]);
    source.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut source, 128)), [1, 3]);
    assert_eq!(source.done(0), Err(Misuse::Unknown));
    assert_eq!(source.done(3), Err(Misuse::Unknown));
    let mut none = self::source(0);
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
        let mut source = source_over(4, in_order);
        for request in requests {
            source.post(request).unwrap();
        }
        assert_eq!(opcodes(&drain(&mut source, 128)), expected);
        source.done(1).unwrap();
        assert_eq!(opcodes(&drain(&mut source, 128)), []);
        source.done(0).unwrap();
        let rest = if in_order { vec![] } else { vec![1, 3] };
        assert_eq!(opcodes(&drain(&mut source, 128)), rest);
    }
}

#[test]
fn fence_waits_for_all_reads() {
    let mut source = source(4);
    for request in [read(1), read(1), fenced(send(1)), write(1, 0)] {
        source.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut source, 128)), [1, 1]);
    source.done(1).unwrap();
    assert!(drain(&mut source, 128).is_empty());
    source.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut source, 128)), [3, 0]);
}

#[test]
fn completions_keep_the_order_of_posting() {
    let mut source = source(4);
    for request in [send(1), read(1), send(1), write(1, 0)] {
        source.post(request).unwrap();
    }
    drain(&mut source, 128);
    assert_eq!(source.complete(), None);
    source.taken(4);
    let success = |number| {
        Some(Completion {
            number,
            status: Status::Success,
        })
    };
    assert_eq!(source.complete(), success(0));
    // The Send behind the Read waits for it.
    assert_eq!(source.complete(), None);
    source.done(1).unwrap();
    assert_eq!(source.complete(), success(1));
    assert_eq!(source.complete(), success(2));
    assert_eq!(source.complete(), success(3));
    assert_eq!(source.complete(), None);
}

#[test]
fn send_is_complete_when_its_last_segment_is_taken() {
    let mut source = source(1);
    source.post(send(300)).unwrap();
    drain(&mut source, 128);
    source.taken(2);
    assert_eq!(source.complete(), None);
    source.taken(99);
    assert!(source.complete().is_some());
}

#[test]
fn local_operations_hold_up_what_follows_until_they_are_done() {
    let mut source = source(1);
    let local = Request {
        operation: Operation::Local,
        fence: false,
    };
    source.post(local).unwrap();
    source.post(send(1)).unwrap();
    assert_eq!(source.done(0), Err(Misuse::Unknown));
    assert_eq!(source.next(128, &THERE), Some(Outgoing::Local(0)));
    source.handed().unwrap();
    assert_eq!(source.next(128, &THERE), None);
    // Answers go on.
    source.answer(answer(1, 0)).unwrap();
    assert_eq!(opcodes(&drain(&mut source, 128)), [2]);
    assert_eq!(source.complete(), None);
    source.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut source, 128)), [3]);
    assert!(source.complete().is_some());
}

#[test]
fn answers_and_requests_take_turns_between_messages() {
    let mut source = source(1);
    for _ in 0..3 {
        source.post(send(200)).unwrap();
        source.answer(answer(200, 0)).unwrap();
    }
    let expected = [2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3];
    assert_eq!(opcodes(&drain(&mut source, 128)), expected);
}

#[test]
fn answers_are_owed_until_they_are_handed_over_or_cannot_be() {
    let mut source = source(1);
    assert!(!source.owes_answers());
    source.answer(answer(1500, 0)).unwrap();
    for _ in 0..2 {
        assert!(source.owes_answers());
        source.next(1014, &THERE).unwrap();
        assert!(source.owes_answers());
        source.handed().unwrap();
    }
    assert!(!source.owes_answers());
    source.answer(answer(1, 0)).unwrap();
    source.fail(Fault::LOCAL);
    assert!(!source.owes_answers());
}

#[test]
fn answers_keep_the_order_of_the_requests() {
    let mut source = source(1);
    for offset in [10, 20, 30] {
        source.answer(answer(1, offset)).unwrap();
    }
    let seen = drain(&mut source, 128);
    let order: Vec<_> = offsets(&seen).into_iter().map(|(at, ..)| at).collect();
    assert_eq!(order, [10, 20, 30]);
}

/// Returns the payload of the Terminate that is sent next.
pub fn terminate(source: &mut Source<Queues>) -> Terminate {
    let Some(Outgoing::Segment { header, .. }) = source.next(128, &THERE) else {
        panic!("there is none");
    };
    assert!(header.len() <= 70);
    source.handed().unwrap();
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
    let mut source = source(1);
    source.post(send(500)).unwrap();
    source.post(send(1)).unwrap();
    source.next(128, &THERE).unwrap();
    source.handed().unwrap();
    assert!(source.fail(Fault::lower(Lower::Crc)));
    assert!(!source.fail(Fault::LOCAL));
    let told = terminate(&mut source);
    assert_eq!(told.code, Cause::Lower(Lower::Crc).code());
    assert_eq!(told.header, None);
    assert!(source.is_over());
    assert_eq!(source.next(128, &THERE), None);
    // Segments that the lower layer still has keep their requests from completing.
    assert_eq!(source.complete(), None);
    source.taken(1);
    let flushed = |number| {
        Some(Completion {
            number,
            status: Status::Flushed,
        })
    };
    assert_eq!(source.complete(), flushed(0));
    assert_eq!(source.complete(), flushed(1));
    assert_eq!(source.post(send(1)), Ok(2));
    assert_eq!(source.complete(), flushed(2));
}

#[test]
fn closed_stream_sends_nothing_and_flushes_all() {
    let mut source = source(2);
    for request in [send(1), read(1), send(1)] {
        source.post(request).unwrap();
    }
    drain(&mut source, 128);
    source.taken(1);
    source.close(closed());
    source.fail(Fault::LOCAL);
    assert_eq!(source.next(128, &THERE), None);
    let ends: Vec<_> = std::iter::from_fn(|| source.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Success, Status::Flushed, Status::Flushed]);
}

#[test]
fn answer_that_fails_halfway_says_how_far_it_came() {
    let mut source = source(1);
    source.answer(answer(1000, 5000)).unwrap();
    source.next(128, &THERE).unwrap();
    source.handed().unwrap();
    source.next(200, &THERE).unwrap();
    source.handed().unwrap();
    let gone = All(Err(Denied::Invalid));
    let Some(Outgoing::Segment { header, .. }) = source.next(128, &gone) else {
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
    let mut source = source(1);
    source.post(send(1)).unwrap();
    source.post(send(1)).unwrap();
    source.next(128, &THERE).unwrap();
    source.abandon();
    let told = terminate(&mut source);
    assert_eq!((told.code.layer, told.code.etype), (0, 0));
    assert_eq!((told.header, told.segment_length), (None, None));
    let ends: Vec<_> = std::iter::from_fn(|| source.complete())
        .map(|completion| completion.status)
        .collect();
    assert_eq!(ends, [Status::Failed, Status::Flushed]);
}

fn statuses(source: &mut Source<Queues>) -> Vec<Status> {
    std::iter::from_fn(|| source.complete())
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
    let mut source = source(2);
    for request in [send(1), read(1), send(1)] {
        source.post(request).unwrap();
    }
    drain(&mut source, 128);
    source.taken(3);
    source.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut source), [Status::Success]);
    terminate(&mut source);
    source.taken(4);
    assert_eq!(statuses(&mut source), []);
    source.close(closed());
    assert_eq!(statuses(&mut source), [Status::Flushed; 2]);
}

#[test]
fn read_that_did_not_leave_is_flushed_by_a_fault() {
    let mut source = source(2);
    source.post(read(1)).unwrap();
    source.fail(Fault::LOCAL);
    assert_eq!(statuses(&mut source), [Status::Flushed]);
}

#[test]
fn local_operation_that_was_started_is_waited_for() {
    for abandoned in [false, true] {
        let mut source = source(1);
        for _ in 0..2 {
            source.post(local()).unwrap();
        }
        assert_eq!(source.next(128, &THERE), Some(Outgoing::Local(0)));
        source.handed().unwrap();
        source.fail(Fault::LOCAL);
        terminate(&mut source);
        assert_eq!(statuses(&mut source), []);
        let status = match abandoned {
            true => {
                source.abandon();
                Status::Failed
            }
            false => {
                source.done(0).unwrap();
                Status::Success
            }
        };
        assert_eq!(statuses(&mut source), [status, Status::Flushed]);
    }
}

/// Who started it may never say that it is done.
#[test]
fn local_operation_does_not_keep_a_closed_stream_from_completing() {
    let mut source = source(1);
    source.post(local()).unwrap();
    source.post(send(1)).unwrap();
    source.next(128, &THERE).unwrap();
    source.handed().unwrap();
    source.close(closed());
    assert_eq!(statuses(&mut source), [Status::Flushed; 2]);
    assert_eq!(source.done(0), Err(Misuse::Unknown));
}

#[test]
fn local_operation_that_is_done_behind_a_flushed_read_is_flushed() {
    let mut source = source(1);
    source.post(read(1)).unwrap();
    source.post(local()).unwrap();
    drain_with_local(&mut source);
    source.close(closed());
    assert_eq!(statuses(&mut source), [Status::Flushed; 2]);
}

/// Hands over a Read and starts and ends a local operation.
fn drain_with_local(source: &mut Source<Queues>) {
    for _ in 0..2 {
        source.next(128, &THERE).unwrap();
        source.handed().unwrap();
    }
    source.done(1).unwrap();
}

/// The response was faster than the sender's return from the socket.
#[test]
fn read_may_be_done_before_its_request_is_handed() {
    let mut source = source(1);
    source.post(read(1)).unwrap();
    source.post(read(1)).unwrap();
    source.next(128, &THERE).unwrap();
    assert_eq!(source.done(1), Err(Misuse::Unknown));
    source.done(0).unwrap();
    assert_eq!(source.done(0), Err(Misuse::Unknown));
    assert_eq!(source.complete(), None);
    source.handed().unwrap();
    assert_eq!(source.complete(), None);
    source.taken(1);
    assert_eq!(statuses(&mut source), [Status::Success]);
    // It is not outstanding any more.
    assert_eq!(opcodes(&drain(&mut source, 128)), [1]);
    assert_eq!(source.next(128, &THERE), None);
}

#[test]
fn request_is_kept_while_the_lower_layer_takes_its_first_segment() {
    let mut source = source(1);
    source.post(send(300)).unwrap();
    source.next(128, &THERE).unwrap();
    source.fail(Fault::LOCAL);
    assert_eq!(source.complete(), None);
    source.handed().unwrap();
    assert_eq!(source.complete(), None);
    source.taken(1);
    assert_eq!(statuses(&mut source), [Status::Flushed]);
}

#[test]
fn request_that_was_not_taken_is_given_back_after_the_terminate_is_shown() {
    let mut source = source(1);
    source.post(send(300)).unwrap();
    source.next(128, &THERE).unwrap();
    source.fail(Fault::LOCAL);
    assert_eq!(source.complete(), None);
    source.next(128, &THERE).unwrap();
    assert_eq!(statuses(&mut source), [Status::Flushed]);
}

#[test]
fn stream_stays_closed_when_its_terminate_was_under_way() {
    let mut source = source(1);
    source.post(read(1)).unwrap();
    drain(&mut source, 128);
    source.fail(Fault::LOCAL);
    source.next(128, &THERE).unwrap();
    source.close(closed());
    source.handed().unwrap();
    assert_eq!(statuses(&mut source), [Status::Flushed]);
}

#[test]
fn queues_have_an_end() {
    let mut source = source(1);
    for _ in 0..8 {
        source.post(send(1)).unwrap();
    }
    assert_eq!(source.post(send(1)), Err(Misuse::Full));
    assert_eq!(source.handed(), Err(Misuse::State));
}
