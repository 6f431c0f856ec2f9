// SPDX-License-Identifier: GPL-2.0

//! The receive half alone: what each hostile segment comes to, and what is delivered when.

use rdmap::fault::Cause;
use rdmap::fault::Fault;
use rdmap::fault::Misuse;
use rdmap::header::Header;
use rdmap::header::Model;
use rdmap::header::ReadRequest;
use rdmap::header::Untagged;
use rdmap::order::Arrival;
use rdmap::order::Invalid;
use rdmap::order::Order;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::Window;
use rdmap::sctp::window::WORDS;
use rdmap::sink::Delivery;
use rdmap::sink::Inbound;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Place;
use rdmap::sink::Receive;
use rdmap::sink::Refusal;
use rdmap::sink::Sink;
use rdmap::sink::Slots;
use rdmap::sink::HEAD_LEN;
use rdmap::source::Outgoing;
use rdmap::stag::Access;
use rdmap::stag::Denied;
use rdmap::stag::Memory;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;
use rdmap::violation::Code;

pub struct Queues;

impl Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<Inbound>;
    type Outstanding = Vec<Outstanding>;
}

/// Memory that answers what the STag says: 0 to 5 are denials, all else is allowed.
pub struct Answers;

impl Answers {
    fn answer(stag: Stag) -> Result<(), Denied> {
        match stag.0 {
            0 => Err(Denied::Invalid),
            1 => Err(Denied::Stream),
            2 => Err(Denied::Wrap),
            3 => Err(Denied::Bounds),
            4 => Err(Denied::Rights),
            5 => Err(Denied::Shared),
            _ => Ok(()),
        }
    }
}

impl Memory for Answers {
    fn check(&self, range: Range, _: Access) -> Result<(), Denied> {
        assert!(range.length > 0, "nothing is asked of no octets");
        Self::answer(range.stag)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        Self::answer(stag)
    }
}

type Ordered = Sink<Arrival, Queues>;
type Reordered = Sink<Window<Box<Bits>>, Queues>;

fn sink<O: Order>(order: O) -> Sink<O, Queues> {
    let mut sink = Sink::new(
        order,
        Key(3, 4),
        vec![Receive::default(); 4],
        vec![Inbound::default(); 2],
        vec![Outstanding::default(); 2],
    );
    sink.post_receive(100).unwrap();
    sink.post_receive(100).unwrap();
    sink
}

fn ordered() -> Ordered {
    sink(Arrival::new())
}

fn reordered() -> Reordered {
    sink(Window::new(Box::new([0; WORDS])))
}

fn untagged(message: Untagged, msn: u32, offset: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    let model = Model::Untagged {
        message,
        msn,
        offset,
    };
    [Header { last, model }.emit().as_slice(), payload].concat()
}

const SEND: Untagged = Untagged::Send {
    solicited: false,
    invalidate: None,
};

fn invalidating(stag: u32) -> Untagged {
    Untagged::Send {
        solicited: true,
        invalidate: Some(Stag(stag)),
    }
}

fn send(msn: u32, offset: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    untagged(SEND, msn, offset, last, payload)
}

fn tagged(response: bool, stag: u32, offset: u64, last: bool, payload: &[u8]) -> Vec<u8> {
    let model = Model::Tagged {
        response,
        stag: Stag(stag),
        offset,
    };
    [Header { last, model }.emit().as_slice(), payload].concat()
}

fn read_of(stag: u32, length: u32) -> ReadRequest {
    ReadRequest {
        source_stag: Stag(stag),
        length,
        ..ReadRequest::default()
    }
}

fn request(msn: u32, read: ReadRequest) -> Vec<u8> {
    untagged(Untagged::ReadRequest, msn, 0, true, read.emit().as_slice())
}

fn arrive<O: Order>(
    sink: &mut Sink<O, Queues>,
    key: O::Key,
    segment: &[u8],
) -> Result<Place, Refusal> {
    let head = &segment[..segment.len().min(HEAD_LEN)];
    let place = sink.segment(key, head, segment.len(), &Answers)?;
    sink.placed();
    Ok(place)
}

fn deliver<O: Order>(sink: &mut Sink<O, Queues>) -> Option<Delivery> {
    sink.deliver(&Answers).unwrap()
}

fn code(fault: Fault) -> (u8, u8, u8) {
    let Code { layer, etype, code } = fault.cause.code();
    (layer, etype, code)
}

/// What a stream that is just open makes of these segments: the last of them is refused.
fn refused(segments: &[Vec<u8>]) -> (u8, u8, u8) {
    let mut sink = ordered();
    let (last, before) = segments.split_last().unwrap();
    for segment in before {
        arrive(&mut sink, (), segment).unwrap();
    }
    let Err(Refusal::Fault(fault)) = arrive(&mut sink, (), last) else {
        panic!("{last:?}");
    };
    let terminate = Terminate::new(&fault);
    assert_eq!(terminate.segment_length, u16::try_from(last.len()).ok());
    let header = terminate.header.unwrap();
    assert_eq!(header.as_slice(), &last[..header.len()]);
    // Nothing is placed afterwards, and nothing is complained about.
    let good = tagged(false, 9, 0, true, &[1]);
    assert_eq!(arrive(&mut sink, (), &good), Ok(Place::Nothing));
    assert_eq!(arrive(&mut sink, (), last), Ok(Place::Nothing));
    code(fault)
}

/// What the delivery of these segments fails with.
fn undeliverable(segments: &[Vec<u8>]) -> Fault {
    let mut sink = ordered();
    for segment in segments {
        arrive(&mut sink, (), segment).unwrap();
    }
    loop {
        match sink.deliver(&Answers) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all is delivered"),
            Err(fault) => {
                assert_eq!(sink.deliver(&Answers), Ok(None));
                return fault;
            }
        }
    }
}

#[test]
fn send_needs_a_receive_of_its_length() {
    assert_eq!(refused(&[send(3, 0, true, &[1])]), (1, 2, 2));
    assert_eq!(refused(&[send(0, 0, true, &[1])]), (1, 2, 3));
    assert_eq!(refused(&[send(u32::MAX, 0, true, &[1])]), (1, 2, 3));
    assert_eq!(refused(&[send(1, 0, true, &[1; 101])]), (1, 2, 5));
    assert_eq!(refused(&[send(1, 99, true, &[1, 2])]), (1, 2, 5));
    assert_eq!(refused(&[send(1, 101, true, &[1])]), (1, 2, 4));
    assert_eq!(refused(&[send(1, u32::MAX, true, &[1, 2])]), (1, 2, 4));
}

#[test]
fn segments_of_a_send_do_not_run_over() {
    let first = send(1, 0, true, &[1; 10]);
    assert_eq!(
        refused(&[first.clone(), send(1, 10, false, &[1])]),
        (1, 2, 4)
    );
    assert_eq!(
        refused(&[first.clone(), send(1, 0, true, &[1; 10])]),
        (1, 2, 4)
    );
    assert_eq!(refused(&[send(1, 20, false, &[1]), first]), (1, 2, 4));
}

#[test]
fn used_up_message_number_is_out_of_range() {
    let mut sink = ordered();
    arrive(&mut sink, (), &send(1, 0, true, &[1])).unwrap();
    assert!(deliver(&mut sink).is_some());
    let Err(Refusal::Fault(fault)) = arrive(&mut sink, (), &send(1, 0, true, &[1])) else {
        panic!("it is placed twice");
    };
    assert_eq!(code(fault), (1, 2, 3));
}

#[test]
fn every_send_uses_up_a_receive() {
    let mut sink = ordered();
    assert_eq!(
        arrive(&mut sink, (), &send(1, 0, true, &[])),
        Ok(Place::Nothing)
    );
    let message = |receive, length| Delivery::Message {
        receive,
        length,
        solicited: false,
        invalidated: None,
    };
    assert_eq!(deliver(&mut sink), Some(message(0, 0)));
    let place = arrive(&mut sink, (), &send(2, 0, true, &[5; 7]));
    let expected = Place::Receive {
        receive: 1,
        offset: 0,
        length: 7,
    };
    assert_eq!(place, Ok(expected));
    assert_eq!(deliver(&mut sink), Some(message(1, 7)));
    assert_eq!(deliver(&mut sink), None);
}

#[test]
fn message_that_is_not_whole_is_not_delivered() {
    let twice = [
        send(1, 0, false, &[1; 50]),
        send(1, 0, false, &[1; 50]),
        send(1, 100, true, &[]),
    ];
    assert_eq!(code(undeliverable(&twice)), (1, 2, 4));
    let gap = [send(1, 0, false, &[1; 10]), send(1, 20, true, &[1; 10])];
    assert_eq!(code(undeliverable(&gap)), (1, 2, 4));
    // Messages of a queue do not overtake one another.
    let overtaking = [
        send(1, 0, false, &[1; 10]),
        send(2, 0, true, &[1; 10]),
        send(1, 10, true, &[1; 10]),
    ];
    assert_eq!(code(undeliverable(&overtaking)), (1, 2, 3));
}

#[test]
fn invalidation_happens_at_delivery_or_ends_the_stream() {
    let mut sink = ordered();
    arrive(&mut sink, (), &untagged(invalidating(9), 1, 0, true, &[1])).unwrap();
    let expected = Delivery::Message {
        receive: 0,
        length: 1,
        solicited: true,
        invalidated: Some(Stag(9)),
    };
    assert_eq!(deliver(&mut sink), Some(expected));
    for (stag, expected) in [(0, (0, 2, 9)), (1, (0, 1, 9)), (5, (0, 1, 9))] {
        let fault = undeliverable(&[untagged(invalidating(stag), 1, 0, true, &[1])]);
        assert_eq!(code(fault), expected);
        let terminate = Terminate::new(&fault);
        assert!(terminate.header.is_some());
        assert_eq!(terminate.read, None);
    }
}

#[test]
fn receive_of_a_send_that_fails_comes_back() {
    let mut sink = ordered();
    arrive(&mut sink, (), &untagged(invalidating(0), 1, 0, true, &[1])).unwrap();
    assert_eq!(sink.flush(), None);
    assert!(sink.deliver(&Answers).is_err());
    assert_eq!((sink.flush(), sink.flush()), (Some(0), Some(1)));
    assert_eq!(sink.flush(), None);
}

#[test]
fn writes_are_checked_and_never_delivered() {
    let mut sink = ordered();
    let range = Range {
        stag: Stag(9),
        offset: 77,
        length: 3,
    };
    let place = arrive(&mut sink, (), &tagged(false, 9, 77, true, &[1; 3]));
    assert_eq!(place, Ok(Place::Write(range)));
    assert_eq!(deliver(&mut sink), None);
    for (stag, expected) in [(0, 0), (1, 2), (2, 3), (3, 1), (4, 0)] {
        let write = tagged(false, stag, 0, true, &[1]);
        assert_eq!(refused(&[write]), (1, 1, expected));
        // Of no octets, nothing is asked.
        let write = tagged(false, stag, 0, true, &[]);
        assert_eq!(arrive(&mut ordered(), (), &write), Ok(Place::Nothing));
    }
}

#[test]
fn read_requests_are_answered_up_to_ird() {
    let mut sink = ordered();
    for msn in [1, 2] {
        let place = arrive(&mut sink, (), &request(msn, read_of(9, 10)));
        assert_eq!(place, Ok(Place::Nothing));
        assert!(matches!(deliver(&mut sink), Some(Delivery::Answer(_))));
    }
    sink.answered().unwrap();
    arrive(&mut sink, (), &request(3, read_of(9, 10))).unwrap();
    assert!(matches!(deliver(&mut sink), Some(Delivery::Answer(_))));
    sink.answered().unwrap();
    sink.answered().unwrap();
    assert!(sink.answered().is_err());
    let three = [1, 2, 3].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&three), (1, 2, 2));
    let twice = [1, 1].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&twice), (1, 2, 3));
}

#[test]
fn read_request_has_its_length() {
    let whole = request(1, read_of(9, 1));
    let long = [&whole[..], &[0]].concat();
    assert_eq!(refused(&[long]), (1, 2, 5));
    assert_eq!(refused(&[whole[..45].to_vec()]), (0, 2, 0xff));
    let more = untagged(Untagged::ReadRequest, 1, 0, false, &whole[18..]);
    assert_eq!(refused(&[more]), (1, 2, 5));
    let late = untagged(Untagged::ReadRequest, 1, 28, true, &whole[18..]);
    assert_eq!(refused(&[late]), (1, 2, 4));
}

#[test]
fn read_source_is_checked_at_delivery() {
    for (stag, expected) in [(0, 0), (1, 3), (2, 4), (3, 1), (4, 2)] {
        let read = read_of(stag, 10);
        let fault = undeliverable(&[request(1, read)]);
        assert_eq!(code(fault), (0, 1, expected));
        assert_eq!(Terminate::new(&fault).read, Some(read));
        // Of no octets, nothing is asked, and there is an answer.
        let mut sink = ordered();
        arrive(&mut sink, (), &request(1, read_of(stag, 0))).unwrap();
        assert!(matches!(deliver(&mut sink), Some(Delivery::Answer(_))));
    }
}

fn with_read(length: u32) -> Ordered {
    let mut sink = ordered();
    let range = Range {
        stag: Stag(50),
        offset: 1000,
        length,
    };
    sink.expect(7, range, true).unwrap();
    sink
}

fn response_fails(length: u32, segment: Vec<u8>) -> (u8, u8, u8) {
    match arrive(&mut with_read(length), (), &segment) {
        Err(Refusal::Fault(fault)) => code(fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn response_lies_in_the_sink_of_its_read() {
    assert_eq!(refused(&[tagged(true, 50, 1000, true, &[1])]), (0, 2, 6));
    assert_eq!(
        response_fails(10, tagged(true, 51, 1000, true, &[1])),
        (1, 1, 0)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 999, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 1010, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 1000, true, &[1; 11])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(0, tagged(true, 50, 1000, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, u64::MAX, true, &[1])),
        (1, 1, 1)
    );
}

#[test]
fn responses_keep_the_order_of_the_requests_where_segments_do() {
    fn answered<O: Order>(mut sink: Sink<O, Queues>, key: O::Key) -> Result<Place, Refusal> {
        let range = |stag| Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        sink.expect(1, range(60), false).unwrap();
        sink.expect(2, range(61), false).unwrap();
        arrive(&mut sink, key, &tagged(true, 61, 0, true, &[1]))
    }
    let Err(Refusal::Fault(fault)) = answered(ordered(), ()) else {
        panic!("the second Read is answered first");
    };
    assert_eq!(code(fault), (1, 1, 0));
    let place = answered(reordered(), 1);
    assert!(matches!(place, Ok(Place::Response { read: 2, .. })));
}

#[test]
fn sink_that_was_invalidated_is_not_written() {
    for (stag, expected) in [(0, 0), (1, 2), (3, 1)] {
        let mut sink = ordered();
        let range = Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        sink.expect(1, range, false).unwrap();
        let place = arrive(&mut sink, (), &tagged(true, stag, 0, true, &[1]));
        let Err(Refusal::Fault(fault)) = place else {
            panic!("{place:?}");
        };
        assert_eq!(code(fault), (1, 1, expected));
    }
}

#[test]
fn nothing_is_delivered_before_its_octets_are_placed() {
    let mut sink = ordered();
    let segment = send(1, 0, true, &[1]);
    sink.segment((), &segment, segment.len(), &Answers).unwrap();
    assert_eq!(deliver(&mut sink), None);
    sink.placed();
    assert!(deliver(&mut sink).is_some());
}

#[test]
fn response_must_be_complete() {
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    assert_eq!(deliver(&mut sink), None);
    arrive(&mut sink, (), &tagged(true, 50, 1005, true, &[1; 5])).unwrap();
    let done = Delivery::ReadDone {
        read: 7,
        invalidate: Some(Stag(50)),
    };
    assert_eq!(deliver(&mut sink), Some(done));
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, true, &[1; 5])).unwrap();
    assert_eq!(sink.deliver(&Answers).map_err(code), Err((1, 1, 1)));
    // The same half twice.
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut sink, (), &tagged(true, 50, 1010, true, &[])).unwrap();
    assert_eq!(sink.deliver(&Answers).map_err(code), Err((1, 1, 1)));
}

#[test]
fn response_of_no_octets_completes_its_read() {
    let mut sink = with_read(0);
    arrive(&mut sink, (), &tagged(true, 3, 5, true, &[])).unwrap();
    assert!(matches!(
        deliver(&mut sink),
        Some(Delivery::ReadDone { read: 7, .. })
    ));
}

/// With ORD 1, the request of the first Read is shown twice because the lower layer does not take it at once.
#[test]
fn read_that_is_shown_again_is_expected_once() {
    let range = |offset| Range {
        stag: Stag(9),
        offset,
        length: 4,
    };
    let mut sink = Ordered::new(
        Arrival::new(),
        Key(3, 4),
        vec![],
        vec![],
        vec![Outstanding::default(); 1],
    );
    let mut source = crate::source::source(1);
    for (number, offset) in [(0, 100), (1, 200)] {
        source.post(crate::source::read(4)).unwrap();
        for _ in 0..2 {
            let next = source.next(128, &Answers);
            assert!(matches!(next, Some(Outgoing::Read { number: shown, .. }) if shown == number));
            assert_eq!(sink.expect(number, range(offset), false), Ok(()));
        }
        source.handed().unwrap();
        arrive(&mut sink, (), &tagged(true, 9, offset, true, &[1; 4])).unwrap();
        let done = Delivery::ReadDone {
            read: number,
            invalidate: None,
        };
        assert_eq!(deliver(&mut sink), Some(done));
        source.done(number).unwrap();
    }
    assert_eq!(sink.expect(2, range(0), false), Ok(()));
    assert_eq!(sink.expect(3, range(0), false), Err(Misuse::Full));
}

fn terminate(msn: u32, payload: &[u8]) -> Vec<u8> {
    untagged(Untagged::Terminate, msn, 0, true, payload)
}

#[test]
fn terminate_is_delivered_and_is_the_last() {
    let mut sink = ordered();
    arrive(&mut sink, (), &send(1, 0, true, &[1])).unwrap();
    arrive(&mut sink, (), &terminate(1, &[0x10, 0, 0, 0])).unwrap();
    assert!(matches!(deliver(&mut sink), Some(Delivery::Message { .. })));
    let Some(Delivery::Terminate(told)) = deliver(&mut sink) else {
        panic!("it is not delivered");
    };
    assert_eq!(told.code, Code::new(1, 0, 0));
    let place = arrive(&mut sink, (), &send(2, 0, true, &[1]));
    assert_eq!((place, deliver(&mut sink)), (Ok(Place::Nothing), None));
    assert_eq!((sink.flush(), sink.flush()), (Some(1), None));
}

#[test]
fn wrong_terminate_is_not_answered() {
    let wrong = [
        terminate(2, &[0x10, 0, 0, 0]),
        terminate(1, &[0x10, 0, 0]),
        untagged(Untagged::Terminate, 1, 4, true, &[0x10, 0, 0, 0]),
        untagged(Untagged::Terminate, 1, 0, false, &[0x10, 0, 0, 0]),
    ];
    for segment in wrong {
        let mut sink = ordered();
        let place = arrive(&mut sink, (), &segment);
        assert!(matches!(place, Err(Refusal::Terminate(_))), "{place:?}");
        assert_eq!(arrive(&mut sink, (), &segment), Ok(Place::Nothing));
    }
}

#[test]
fn segment_that_lies_about_its_length_is_refused() {
    let mut sink = ordered();
    let segment = send(1, 0, true, &[1]);
    let place = sink.segment((), &segment, 10, &Answers);
    assert!(matches!(place, Err(Refusal::Fault(_))));
}

#[test]
fn nothing_overtakes_in_delivery() {
    // As it was sent: Write, Send, Read Request, Terminate.
    let segments = [
        tagged(false, 9, 0, true, &[1]),
        send(1, 0, true, &[1]),
        request(1, read_of(9, 0)),
        terminate(1, &[0x10, 0, 0, 0]),
    ];
    for order in permutations(segments.len()) {
        let mut sink = reordered();
        let mut delivered = Vec::new();
        let mut arrived = [false; 4];
        for at in order {
            let key = u16::try_from(at).unwrap();
            arrive(&mut sink, key, &segments[at]).unwrap();
            arrived[at] = true;
            while let Some(delivery) = deliver(&mut sink) {
                let turn = match delivery {
                    Delivery::Message { .. } => 1,
                    Delivery::Answer(_) => 2,
                    Delivery::Terminate(_) => 3,
                    Delivery::ReadDone { .. } => panic!("there was no Read"),
                };
                assert!(arrived[..=turn].iter().all(|arrived| *arrived));
                delivered.push(turn);
            }
        }
        assert_eq!(delivered, [1, 2, 3]);
    }
}

fn permutations(length: usize) -> Vec<Vec<usize>> {
    match length {
        0 => vec![Vec::new()],
        _ => permutations(length - 1)
            .into_iter()
            .flat_map(|shorter| {
                (0..length).map(move |at| {
                    let mut longer = shorter.clone();
                    longer.insert(at, length - 1);
                    longer
                })
            })
            .collect(),
    }
}

#[test]
fn segments_of_one_message_come_in_any_order() {
    let segments = [
        send(1, 0, false, &[1; 40]),
        send(1, 40, false, &[1; 40]),
        send(1, 80, true, &[1; 5]),
    ];
    for order in permutations(segments.len()) {
        let mut sink = reordered();
        for (count, at) in order.into_iter().enumerate() {
            assert_eq!(deliver(&mut sink), None, "after {count} segments");
            arrive(&mut sink, u16::try_from(at).unwrap(), &segments[at]).unwrap();
        }
        let whole = deliver(&mut sink);
        assert!(matches!(whole, Some(Delivery::Message { length: 85, .. })));
    }
}

#[test]
fn what_came_before_a_fault_is_delivered() {
    let mut sink = reordered();
    arrive(&mut sink, 0, &send(1, 0, true, &[1])).unwrap();
    let wrong = arrive(&mut sink, 2, &tagged(false, 0, 0, true, &[1]));
    assert!(matches!(wrong, Err(Refusal::Fault(_))));
    assert!(matches!(deliver(&mut sink), Some(Delivery::Message { .. })));
    assert_eq!(deliver(&mut sink), None);
}

#[test]
fn what_waits_for_a_dropped_segment_is_not_delivered() {
    let mut sink = reordered();
    // The Write that is sent first comes last, when the stream has failed, and is dropped.
    arrive(&mut sink, 1, &send(1, 0, true, &[1])).unwrap();
    assert!(arrive(&mut sink, 2, &tagged(false, 0, 0, true, &[1])).is_err());
    let late = arrive(&mut sink, 0, &tagged(false, 9, 0, true, &[1]));
    assert_eq!((late, deliver(&mut sink)), (Ok(Place::Nothing), None));
    // Its number counts all the same.
    assert_eq!(sink.order().reached(), 3);
}

#[test]
fn numbers_that_cannot_be_end_the_session() {
    let mut sink = reordered();
    arrive(&mut sink, 0, &send(1, 0, true, &[1])).unwrap();
    let again = arrive(&mut sink, 0, &send(2, 0, true, &[1]));
    assert_eq!(again, Err(Refusal::Order(Invalid::Repeated)));
    let far = arrive(&mut reordered(), 32_767, &send(1, 0, true, &[1]));
    assert_eq!(far, Err(Refusal::Order(Invalid::Window)));
}

#[test]
fn receive_is_not_given_back_while_octets_are_moved_to_it() {
    let mut sink = ordered();
    let segment = send(1, 0, true, &[1]);
    sink.segment((), &segment, segment.len(), &Answers).unwrap();
    sink.close();
    assert_eq!(sink.flush(), None);
    sink.placed();
    assert_eq!(sink.flush(), Some(0));
    assert_eq!(sink.flush(), Some(1));
    assert_eq!(sink.flush(), None);
}

#[test]
fn segment_before_its_time_changes_nothing() {
    let mut sink = ordered();
    let segment = send(1, 0, true, &[1]);
    sink.segment((), &segment, segment.len(), &Answers).unwrap();
    let busy = Err(Refusal::Order(Invalid::Busy));
    assert_eq!(sink.segment((), &segment, segment.len(), &Answers), busy);
    sink.placed();
    assert!(deliver(&mut sink).is_some());
    let second = send(2, 0, true, &[1]);
    let place = arrive(&mut sink, (), &second);
    assert!(matches!(place, Ok(Place::Receive { receive: 1, .. })));
}

#[test]
fn first_fault_is_the_peers() {
    let Err(Refusal::Fault(fault)) = arrive(&mut ordered(), (), &[0x41]) else {
        panic!("it is placed");
    };
    assert!(matches!(fault.cause, Cause::Peer(_)));
    assert_eq!(fault.culprit, None);
}

/// Message numbers wrap: 2^32 Sends are too many to send, but not to begin near.
#[test]
fn more_receives_can_be_posted_as_others_are_used() {
    let mut sink = ordered();
    for msn in 1..=1000 {
        arrive(&mut sink, (), &send(msn, 0, true, &[1])).unwrap();
        let Some(Delivery::Message { receive, .. }) = deliver(&mut sink) else {
            panic!("{msn} is not delivered");
        };
        assert_eq!(receive, u64::from(msn - 1));
        sink.post_receive(100).unwrap();
    }
}
