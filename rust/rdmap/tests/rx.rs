// SPDX-License-Identifier: GPL-2.0

//! Tests of the receive half alone: refusals of hostile segments, and the time of deliveries.

mod atomics;
mod immediate;
mod reads;
mod reordered;
mod sends;
mod shared;
mod stream;

use rdmap::atomic::{Atomic, AtomicRequest};
use rdmap::fault::{Code, Fault};
use rdmap::header::{Header, Model, ReadRequest, Untagged};
use rdmap::order::{InOrder, Order};
use rdmap::rx::{
    Delivery, HashKey, InboundSlot, Outstanding, Placement, Receive, Refusal, RxHalf, HEAD_LEN,
};
use rdmap::sctp::window::{Bits, RxWindow, WORDS};
use rdmap::stag::{Access, Denied, Memory, Range, Stag};
use rdmap::terminate::Terminate;

use crate::Queues;

/// Memory whose answer depends on the STag: 0 to 5 are denials, everything else is allowed.
pub struct ByStag;

impl ByStag {
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

impl Memory for ByStag {
    fn check(&self, range: Range, _: Access) -> Result<(), Denied> {
        assert!(range.length > 0, "nothing is asked of no octets");
        Self::answer(range.stag)
    }

    fn update(&self, target: Range, _: Atomic) -> Result<u64, Denied> {
        Self::answer(target.stag).map(|()| 7)
    }

    fn invalidate(&self, stag: Stag) -> Result<(), Denied> {
        Self::answer(stag)
    }
}

pub type Ordered = RxHalf<InOrder, Queues>;
pub type Reordered = RxHalf<RxWindow<Box<Bits>>, Queues>;

pub fn rx_half<O: Order>(order: O) -> RxHalf<O, Queues> {
    let mut rx = RxHalf::new(
        order,
        HashKey(3, 4),
        vec![Receive::default(); 4],
        vec![InboundSlot::default(); 2],
        vec![Outstanding::default(); 2],
    );
    rx.post_receive(100).unwrap();
    rx.post_receive(100).unwrap();
    rx
}

pub fn ordered() -> Ordered {
    rx_half(InOrder::new())
}

pub fn reordered() -> Reordered {
    rx_half(RxWindow::new(Box::new([0; WORDS])))
}

pub fn untagged(message: Untagged, msn: u32, offset: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    let model = Model::Untagged {
        message,
        msn,
        offset,
    };
    [Header { last, model }.emit().as_slice(), payload].concat()
}

pub const SEND: Untagged = Untagged::Send {
    solicited: false,
    invalidate: None,
};

pub fn invalidating(stag: u32) -> Untagged {
    Untagged::Send {
        solicited: true,
        invalidate: Some(Stag(stag)),
    }
}

pub fn send(msn: u32, offset: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    untagged(SEND, msn, offset, last, payload)
}

pub fn tagged(response: bool, stag: u32, offset: u64, last: bool, payload: &[u8]) -> Vec<u8> {
    let model = Model::Tagged {
        response,
        stag: Stag(stag),
        offset,
    };
    [Header { last, model }.emit().as_slice(), payload].concat()
}

pub fn read_of(stag: u32, length: u32) -> ReadRequest {
    ReadRequest {
        source_stag: Stag(stag),
        length,
        ..ReadRequest::default()
    }
}

pub fn request(msn: u32, read: ReadRequest) -> Vec<u8> {
    untagged(Untagged::ReadRequest, msn, 0, true, read.emit().as_slice())
}

/// An Atomic Request that adds one to memory that is there.
pub const ADD_ONE: AtomicRequest = AtomicRequest {
    identifier: 0x1234_5678,
    stag: Stag(9),
    offset: 0x1000,
    operation: Atomic::FetchAdd { add: 1, mask: 0 },
};

pub fn atomic_request(msn: u32, wanted: &AtomicRequest) -> Vec<u8> {
    let payload = wanted.emit();
    untagged(Untagged::AtomicRequest, msn, 0, true, payload.as_slice())
}

pub fn immediate(msn: u32, solicited: bool, data: &[u8]) -> Vec<u8> {
    untagged(Untagged::Immediate { solicited }, msn, 0, true, data)
}

pub fn arrive<O: Order>(
    rx: &mut RxHalf<O, Queues>,
    key: O::Key,
    segment: &[u8],
) -> Result<Placement, Refusal> {
    let head = &segment[..segment.len().min(HEAD_LEN)];
    let place = rx.segment(key, head, segment.len(), &ByStag)?;
    rx.placed();
    Ok(place)
}

pub fn deliver<O: Order>(rx: &mut RxHalf<O, Queues>) -> Option<Delivery> {
    rx.deliver(&ByStag).unwrap()
}

pub fn code(fault: Fault) -> (u8, u8, u8) {
    let Code { layer, etype, code } = fault.cause.code();
    (layer, etype, code)
}

/// Marks the octets as a tagged segment.
pub fn as_tagged(mut segment: Vec<u8>) -> Vec<u8> {
    segment[0] |= 0x80;
    segment
}

/// Returns the code with which a new stream refuses the last of these segments.
pub fn refused(segments: &[Vec<u8>]) -> (u8, u8, u8) {
    let mut rx = ordered();
    let (last, before) = segments.split_last().unwrap();
    for segment in before {
        arrive(&mut rx, (), segment).unwrap();
    }
    let Err(Refusal::Fault(fault)) = arrive(&mut rx, (), last) else {
        panic!("{last:?}");
    };
    let terminate = Terminate::new(&fault);
    assert_eq!(terminate.segment_length, u16::try_from(last.len()).ok());
    let header = terminate.header.unwrap();
    assert_eq!(header.as_slice(), &last[..header.len()]);
    // Nothing is placed afterwards, and nothing is reported.
    let good = tagged(false, 9, 0, true, &[1]);
    assert_eq!(arrive(&mut rx, (), &good), Ok(Placement::Nothing));
    assert_eq!(arrive(&mut rx, (), last), Ok(Placement::Nothing));
    code(fault)
}

/// Returns the fault of the delivery of these segments.
pub fn undeliverable(segments: &[Vec<u8>]) -> Fault {
    let mut rx = ordered();
    for segment in segments {
        arrive(&mut rx, (), segment).unwrap();
    }
    loop {
        match rx.deliver(&ByStag) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all is delivered"),
            Err(fault) => {
                assert_eq!(rx.deliver(&ByStag), Ok(None));
                return fault;
            }
        }
    }
}

pub fn terminate(msn: u32, payload: &[u8]) -> Vec<u8> {
    untagged(Untagged::Terminate, msn, 0, true, payload)
}
