// SPDX-License-Identifier: GPL-2.0

//! Both halves of one stream, in two contexts: calls of one between two calls of the other.

use rdmap::order::Arrival;
use rdmap::order::Order;
use rdmap::sink::Answer;
use rdmap::sink::Delivery;
use rdmap::sink::Inbound;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Receive;
use rdmap::sink::Refusal;
use rdmap::sink::Sink;
use rdmap::source::Outgoing;
use rdmap::source::Posted;
use rdmap::source::Source;

use crate::sink::code;
use crate::sink::read_of;
use crate::sink::request;
use crate::sink::Answers;
use crate::sink::Queues as SinkQueues;
use crate::source::Queues as SourceQueues;

struct Stream {
    sink: Sink<Arrival, SinkQueues>,
    source: Source<SourceQueues>,
    requests: u32,
}

impl Stream {
    /// Creates a stream with an IRD of one.
    fn new() -> Self {
        let inbound = vec![Inbound::default(); 1];
        let (receives, outstanding) = (vec![Receive::default(); 1], vec![Outstanding::default()]);
        Self {
            sink: Sink::new(Arrival::new(), Key(3, 4), receives, inbound, outstanding),
            source: Source::new(
                vec![Posted::EMPTY; 1],
                vec![Answer::default(); 1],
                1,
                Arrival::IN_ORDER,
            ),
            requests: 0,
        }
    }

    /// Receives the peer's next Read Request.
    fn request(&mut self) -> Result<(), Refusal> {
        self.requests += 1;
        let segment = request(self.requests, read_of(9, 200));
        self.sink.segment((), &segment, segment.len(), &Answers)?;
        self.sink.placed();
        let Ok(Some(Delivery::Answer(answer))) = self.sink.deliver(&Answers) else {
            panic!("it is not delivered");
        };
        self.source.answer(answer).unwrap();
        Ok(())
    }

    /// Peeks at the next segment. Says whether it is the last one of a response.
    fn next(&mut self, mulpdu: u32) -> bool {
        let Some(Outgoing::Segment { answered, .. }) = self.source.next(mulpdu, &Answers) else {
            panic!("there is none");
        };
        if let Some(number) = answered {
            self.sink.answered(number).unwrap();
        }
        answered.is_some()
    }
}

/// The peer has the last segment, and the sending context is not back from the lower layer.
#[test]
fn peer_may_ask_again_as_soon_as_it_has_the_response() {
    let mut stream = Stream::new();
    for _ in 0..3 {
        stream.request().unwrap();
        assert!(!stream.next(128));
        stream.source.handed().unwrap();
        assert!(stream.next(128));
        stream.request().unwrap();
        stream.source.handed().unwrap();
        assert!(stream.next(1500));
        stream.source.handed().unwrap();
    }
}

/// The last segment is offered, the lower layer does not take it, and the peer did not wait for it.
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
        stream.source.handed().unwrap();
        last
    });
    assert_eq!(lasts, [false, true, false, true]);
    assert_eq!(stream.source.next(128, &Answers), None);
}
