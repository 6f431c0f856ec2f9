// SPDX-License-Identifier: GPL-2.0

//! An established stream.
//!
//! One context at a time owns it. In rounds it takes posted requests, receives, sends, and
//! completes, until there is nothing to do.

mod outbound;
mod parts;
pub(crate) mod receiver;
mod requests;

use crate::lower::Open;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::stream::parts::Parts;
pub(crate) use crate::stream::parts::Round;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use crate::stream::requests::Requests;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use provider::queue::Queues;
use provider::wr::Operation;
use provider::wr::SendRequest;
use provider::wr::Status;
use rdmap::enhanced::Agreed;
use rdmap::fault::Fault;
use rdmap::fault::Lower;
use rdmap::header::ReadRequest;
use rdmap::order::Order;
use rdmap::sink;
use rdmap::sink::Key;
use rdmap::sink::Sink;
use rdmap::source;
use rdmap::source::Source;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::violation::Code;

/// An established stream.
pub(crate) struct Stream<O: Open>(Parts<O>);

impl<O: Open> Stream<O> {
    /// Creates a stream over a connection, with the numbers of Reads that both ends agreed on.
    /// Sleeps.
    pub(crate) fn new(mut open: O, queues: &Queues, reads: Agreed) -> Result<Self> {
        let capacities = queues.capacities();
        let (ird, ord) = (usize::from(reads.ird), usize::from(reads.ord));
        Ok(Self(Parts {
            sink: Sink::new(
                open.order()?,
                Key(provider::random(), provider::random()),
                KVVec::from_elem(sink::Receive::default(), capacities.receives, GFP_KERNEL)?,
                KVVec::from_elem(sink::Inbound::default(), ird, GFP_KERNEL)?,
                KVVec::from_elem(sink::Outstanding::default(), ord, GFP_KERNEL)?,
            ),
            source: Source::new(
                KVVec::from_elem(source::Posted::EMPTY, capacities.sends, GFP_KERNEL)?,
                KVVec::from_elem(sink::Answer::default(), ird, GFP_KERNEL)?,
                reads.ord,
                <O::Order as Order>::IN_ORDER,
            ),
            sends: Requests::new(capacities.sends)?,
            receives: Requests::new(capacities.receives)?,
            terminated: None,
            open,
        }))
    }

    /// Runs one round of work.
    pub(crate) fn round(
        &mut self,
        shared: &Shared,
        queues: &Queues,
        memory: &Registered<'_>,
    ) -> Round {
        self.take_sends(queues);
        let received = self.receive(shared, queues, memory);
        self.take_sends(queues);
        let sent = match received {
            // A fault is reported, and pending responses are sent, also to a peer that sends
            // nothing more itself.
            Ok(Received::Over { graceful: true }) if O::HALF_CLOSES => {
                outbound::make(&mut self.0, shared, memory)
            }
            Ok(Received::Over { .. }) | Err(_) => Ok(false),
            _ => outbound::make(&mut self.0, shared, memory),
        };
        self.complete(queues);
        if let Ok(Received::Ended) = received {
            let graceful = self.0.open.ended();
            return Round::Over { graceful };
        }
        if self.0.source.is_over() && self.0.open.is_empty() {
            self.0.open.finish();
            return Round::Over { graceful: true };
        }
        match (received, sent) {
            (Err(_), _) | (_, Err(_)) => Round::Over { graceful: false },
            // There was no space for everything that is still to be sent to the peer.
            (Ok(Received::Over { graceful: true }), Ok(more)) if self.owes() => match more {
                true => Round::More,
                false => Round::Idle,
            },
            (Ok(Received::Over { graceful }), _) => Round::Over { graceful },
            (Ok(Received::More), _) | (_, Ok(true)) => Round::More,
            _ => Round::Idle,
        }
    }

    /// Says whether a fault is still to be reported, or a Read to be answered, to a peer that may
    /// receive, whether it sends or not.
    fn owes(&self) -> bool {
        let source = &self.0.source;
        O::HALF_CLOSES && (source.owes_answers() || source.fault().is_some() && !source.is_over())
    }

    fn receive(
        &mut self,
        shared: &Shared,
        queues: &Queues,
        memory: &Registered<'_>,
    ) -> Result<Received> {
        let parts = &mut self.0;
        parts.open.receive(&mut Receiver {
            shared,
            queues,
            memory,
            sink: &mut parts.sink,
            source: &mut parts.source,
            receives: &mut parts.receives,
            terminated: &mut parts.terminated,
        })
    }

    /// Returns the error of the peer's Terminate, if it sent one.
    pub(crate) fn terminated(&self) -> Option<Code> {
        self.0.terminated
    }

    /// Reports to a peer that exceeded a time limit, if it may still receive, that the stream ends
    /// (RFC 5040, section 6.2.1). Says whether it did.
    pub(crate) fn tell_late(&mut self, shared: &Shared, memory: &Registered<'_>) -> bool {
        if !O::HALF_CLOSES {
            return false;
        }
        self.0.source.fail(Fault::lower(Lower::Lost));
        outbound::make(&mut self.0, shared, memory).is_ok() && self.0.source.is_over()
    }

    /// Says whether the peer exceeded a time limit.
    pub(crate) fn is_late(&self) -> bool {
        self.0.open.is_late()
    }

    /// Returns the time in milliseconds after which to poll, even without an event.
    pub(crate) fn look_again(&self) -> Option<u32> {
        self.0.open.look_again()
    }

    /// Ends the stream: all its requests are completed. Returns the connection.
    pub(crate) fn end(mut self, queues: &Queues) -> O {
        if let Some(closed) = self.0.sink.close() {
            self.0.source.close(closed);
        }
        self.complete(queues);
        while let Some(number) = self.0.sink.flush() {
            if let Some(request) = self.0.receives.take(number) {
                queues.complete_receive(request, Status::Flushed, 0, false, None);
            }
        }
        // The consumer gets back all requests, also those that the engine did not return.
        while let Some(request) = self.0.sends.pop() {
            queues.complete_send(request, Status::Flushed);
        }
        while let Some(request) = self.0.receives.pop() {
            queues.complete_receive(request, Status::Flushed, 0, false, None);
        }
        self.0.open
    }

    /// Passes posted requests to the engine.
    fn take_sends(&mut self, queues: &Queues) {
        while let Some(request) = queues.take_send() {
            let fence = request.fence;
            let mut post = |operation| self.0.source.post(source::Request { operation, fence });
            // A Read with an ORD of zero fails in its turn, as a local operation that cannot be
            // carried out.
            let posted = post(operation(&request)).or_else(|_| post(source::Operation::Local));
            match posted {
                Ok(number) => {
                    if let Some(request) = self.0.sends.put(number, request) {
                        queues.complete_send(request, Status::Failed);
                    }
                }
                // There is a slot for each request of the queue.
                Err(_) => {
                    queues.complete_send(request, Status::Failed);
                    self.0.source.fail(Fault::LOCAL);
                }
            }
        }
    }

    /// Completes the requests that are done.
    fn complete(&mut self, queues: &Queues) {
        while let Some(done) = self.0.source.complete() {
            let status = match done.status {
                source::Status::Success => Status::Success,
                source::Status::Failed => Status::Failed,
                source::Status::Flushed => Status::Flushed,
            };
            if let Some(request) = self.0.sends.take(done.number) {
                queues.complete_send(request, status);
            }
        }
    }
}

/// Converts a request for the engine.
fn operation(request: &SendRequest) -> source::Operation {
    let length = request.memory.len();
    match &request.operation {
        Operation::Send { invalidate } => source::Operation::Send {
            length,
            solicited: request.solicited,
            invalidate: invalidate.map(Stag),
        },
        Operation::Write { stag, offset } => source::Operation::Write(Range {
            stag: Stag(*stag),
            offset: *offset,
            length,
        }),
        Operation::Read {
            stag,
            offset,
            sink_stag,
            sink_offset,
            length,
            ..
        } => source::Operation::Read(ReadRequest {
            sink_stag: Stag(*sink_stag),
            sink_offset: *sink_offset,
            length: *length,
            source_stag: Stag(*stag),
            source_offset: *offset,
        }),
        Operation::Register { .. } | Operation::Invalidate(_) => source::Operation::Local,
    }
}
