// SPDX-License-Identifier: GPL-2.0

//! Both halves of one stream, in two contexts: calls of one between two calls of the other.

use rdmap::order::{InOrder, Order};
use rdmap::rx::{
    Delivery, HashKey, InboundRequest, InboundSlot, Outstanding, Receive, Refusal, RxHalf,
};
use rdmap::tx::{Outgoing, Posted, TxHalf};

use crate::rx::{code, read_of, request, ByStag};
use crate::Queues;

struct Stream {
    rx: RxHalf<InOrder, Queues>,
    tx: TxHalf<Queues>,
    requests: u32,
}

impl Stream {
    /// Creates a stream with an IRD of one.
    fn new() -> Self {
        let inbound = vec![InboundSlot::default(); 1];
        let (receives, outstanding) = (vec![Receive::default(); 1], vec![Outstanding::default()]);
        Self {
            rx: RxHalf::new(
                InOrder::new(),
                HashKey(3, 4),
                receives,
                inbound,
                outstanding,
            ),
            tx: TxHalf::new(
                vec![Posted::EMPTY; 1],
                vec![InboundRequest::default(); 1],
                1,
                InOrder::IN_ORDER,
            ),
            requests: 0,
        }
    }

    /// Receives the peer's next Read Request.
    fn request(&mut self) -> Result<(), Refusal> {
        self.requests += 1;
        let segment = request(self.requests, read_of(9, 200));
        self.rx.segment((), &segment, segment.len(), &ByStag)?;
        self.rx.placed();
        let Ok(Some(Delivery::Request(answer))) = self.rx.deliver(&ByStag) else {
            panic!("it is not delivered");
        };
        self.tx.respond(answer).unwrap();
        Ok(())
    }

    /// Peeks at the next segment. Returns whether it is the last one of a response.
    fn next(&mut self, mulpdu: u32) -> bool {
        let Some(Outgoing::Segment {
            last_of_response, ..
        }) = self.tx.peek(mulpdu, &ByStag)
        else {
            panic!("there is none");
        };
        if let Some(number) = last_of_response {
            self.rx.free_inbound(number).unwrap();
        }
        last_of_response.is_some()
    }
}

/// The peer has the last segment, and the sending context is not back from the LLP.
// Shows P5.2.1-2.
#[test]
fn peer_may_ask_again_as_soon_as_it_has_the_response() {
    let mut stream = Stream::new();
    for _ in 0..3 {
        stream.request().unwrap();
        assert!(!stream.next(128));
        stream.tx.commit().unwrap();
        assert!(stream.next(128));
        stream.request().unwrap();
        stream.tx.commit().unwrap();
        assert!(stream.next(1500));
        stream.tx.commit().unwrap();
    }
}

/// The last segment is offered, the LLP does not take it, and the peer did not wait for it.
// Shows P5.2.1-2.
#[test]
fn peer_that_does_not_wait_for_the_response_has_one_request_more_for_a_moment() {
    let mut stream = Stream::new();
    stream.request().unwrap();
    assert!(stream.next(1500));
    stream.request().unwrap();
    let Err(Refusal::Fault(fault)) = stream.request() else {
        panic!("a third request finds room");
    };
    assert_eq!(code(fault), (1, 2, 2));
    // The requests are answered in their order, cut anew.
    let lasts = [false, true, false, true].map(|_| {
        let last = stream.next(128);
        stream.tx.commit().unwrap();
        last
    });
    assert_eq!(lasts, [false, true, false, true]);
    assert_eq!(stream.tx.peek(128, &ByStag), None);
}
