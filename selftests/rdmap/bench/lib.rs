// SPDX-License-Identifier: GPL-2.0

//! The measured operations, each as one function that is not inlined. Copying of octets is not
//! included.

use rdmap::order::Order;
use rdmap::sink;
use rdmap::sink::Delivery;
use rdmap::sink::Inbound;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Place;
use rdmap::sink::Receive;
use rdmap::sink::Sink;
use rdmap::source;
use rdmap::source::Operation;
use rdmap::source::Outgoing;
use rdmap::source::Payload;
use rdmap::source::Posted;
use rdmap::source::Request;
use rdmap::source::Source;
use rdmap::source::Status;
use rdmap::stag::Access;
use rdmap::stag::Denied;
use rdmap::stag::Memory;
use rdmap::stag::Range;
use rdmap::stag::Region;
use rdmap::stag::Stag;

pub struct Queues;

impl sink::Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<Inbound>;
    type Outstanding = Vec<Outstanding>;
}

impl source::Slots for Queues {
    type Requests = Vec<Posted>;
    type Answers = Vec<sink::Answer>;
}

/// One region, which has every STag.
pub struct One;

const REGION: Region = Region {
    base: 0,
    length: 1 << 20,
    valid: true,
    of_this_stream: true,
    remote_read: true,
    remote_write: true,
    remote_invalidate: true,
};

impl Memory for One {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        REGION.check(range.offset, range.length, want)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        REGION.check_invalidate()
    }
}

/// The length of a message of one segment in octets.
pub const LENGTH: u32 = 1024;

/// A Send of one segment.
pub const SEND: Operation = Operation::Send {
    length: LENGTH,
    solicited: false,
    invalidate: None,
};

/// A Write of one segment.
pub const WRITE: Operation = Operation::Write(Range {
    stag: Stag(9),
    offset: 0x1000,
    length: LENGTH,
});

pub fn source<O: Order>() -> Source<Queues> {
    let answers = vec![sink::Answer::default(); 16];
    Source::new(vec![Posted::EMPTY; 64], answers, 16, O::IN_ORDER)
}

pub fn sink<O: Order>(order: O) -> Sink<O, Queues> {
    let inbound = vec![Inbound::default(); 16];
    let (receives, outstanding) = (
        vec![Receive::default(); 64],
        vec![Outstanding::default(); 16],
    );
    let mut sink = Sink::new(order, Key(3, 4), receives, inbound, outstanding);
    sink.post_receive(LENGTH).expect("room for a Receive");
    sink
}

/// Runs a request from its posting to its completion.
#[inline(never)]
pub fn send(source: &mut Source<Queues>, operation: Operation) -> bool {
    let request = Request {
        operation,
        fence: false,
    };
    let posted = source.post(request).is_ok();
    let shown = matches!(
        source.next(1442, &One),
        Some(Outgoing::Segment {
            payload: Payload::Request { .. },
            last: true,
            ..
        })
    );
    if let Ok(segment) = source.handed() {
        source.taken(segment);
    }
    let done = source.complete().map(|completion| completion.status);
    posted && shown && done == Some(Status::Success)
}

/// Returns the header of the segment that `operation` becomes.
pub fn header(operation: Operation) -> Vec<u8> {
    let mut source = source::<rdmap::order::Arrival>();
    let request = Request {
        operation,
        fence: false,
    };
    source.post(request).expect("room for a request");
    match source.next(1442, &One) {
        Some(Outgoing::Segment { header, .. }) => header.as_slice().to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Receives a segment, from its arrival to its delivery.
#[inline(never)]
pub fn receive<O: Order>(sink: &mut Sink<O, Queues>, key: O::Key, header: &[u8]) -> bool {
    let length = header.len() + 1024;
    let Ok(place) = sink.segment(key, header, length, &One) else {
        return false;
    };
    sink.placed();
    match (place, sink.deliver(&One)) {
        (Place::Receive { .. }, Ok(Some(Delivery::Message { .. }))) => true,
        (Place::Write(_), Ok(None)) => true,
        _ => false,
    }
}
