// SPDX-License-Identifier: GPL-2.0

//! The measured operations, each as one function that is not inlined. Copying of octets is not
//! included.

use rdmap::atomic::Atomic;
use rdmap::order::Order;
use rdmap::rx::{self, Delivery, HashKey, InboundSlot, Outstanding, Placement, Receive, RxHalf};
use rdmap::stag::{Access, Denied, Memory, Range, Region, Stag};
use rdmap::tx::{self, Operation, Outgoing, Payload, Posted, Request, Status, TxHalf};

pub struct Queues;

impl rx::Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<InboundSlot>;
    type Outstanding = Vec<Outstanding>;
}

impl tx::Slots for Queues {
    type Requests = Vec<Posted>;
    type Responses = Vec<rx::InboundRequest>;
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
    remote_atomic: true,
    remote_invalidate: true,
};

impl Memory for One {
    fn check(&self, range: Range, want: Access) -> Result<(), Denied> {
        REGION.check(range.offset, range.length, want)
    }

    fn update(&self, range: Range, _: Atomic) -> Result<u64, Denied> {
        REGION.check(range.offset, range.length, Access::RemoteAtomic)?;
        Ok(0)
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

pub fn tx_half<O: Order>() -> TxHalf<Queues> {
    let responses = vec![rx::InboundRequest::default(); 16];
    TxHalf::new(vec![Posted::EMPTY; 64], responses, 16, O::IN_ORDER)
}

pub fn rx_half<O: Order>(order: O) -> RxHalf<O, Queues> {
    let inbound = vec![InboundSlot::default(); 16];
    let (receives, outstanding) = (
        vec![Receive::default(); 64],
        vec![Outstanding::default(); 16],
    );
    let mut rx = RxHalf::new(order, HashKey(3, 4), receives, inbound, outstanding);
    rx.post_receive(LENGTH).expect("room for a Receive");
    rx
}

/// Runs a request from its posting to its completion.
#[inline(never)]
pub fn send(tx: &mut TxHalf<Queues>, operation: Operation) -> bool {
    let request = Request {
        operation,
        fence: false,
    };
    let posted = tx.post(request).is_ok();
    let shown = matches!(
        tx.peek(1442, &One),
        Some(Outgoing::Segment {
            payload: Payload::Request { .. },
            last: true,
            ..
        })
    );
    if let Ok(segment) = tx.commit() {
        tx.release(segment);
    }
    let done = tx.complete().map(|completion| completion.status);
    posted && shown && done == Some(Status::Success)
}

/// Returns the header of the segment that `operation` becomes.
pub fn header(operation: Operation) -> Vec<u8> {
    let mut tx = tx_half::<rdmap::order::InOrder>();
    let request = Request {
        operation,
        fence: false,
    };
    tx.post(request).expect("room for a request");
    match tx.peek(1442, &One) {
        Some(Outgoing::Segment { header, .. }) => header.as_slice().to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Receives a segment, from its arrival to its delivery.
#[inline(never)]
pub fn receive<O: Order>(rx: &mut RxHalf<O, Queues>, key: O::Key, header: &[u8]) -> bool {
    let length = header.len() + 1024;
    let Ok(place) = rx.segment(key, header, length, &One) else {
        return false;
    };
    rx.placed();
    matches!(
        (place, rx.deliver(&One)),
        (
            Placement::Receive { .. },
            Ok(Some(Delivery::Message { .. }))
        ) | (Placement::Write(_), Ok(None))
    )
}
