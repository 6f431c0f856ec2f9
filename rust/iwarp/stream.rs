// SPDX-License-Identifier: GPL-2.0

//! An open stream.
//!
//! One context at a time has it. It takes what was posted, receives, sends, and completes, in rounds, until there is nothing to do.

mod inbound;
mod outbound;
mod parts;
mod requests;

use crate::memory::Registered;
use crate::outbox::Outbox;
use crate::shared::Shared;
use crate::stream::parts::Parts;
pub(crate) use crate::stream::parts::Round;
use crate::stream::requests::Requests;
use crate::waker::Waker;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use provider::queue::Queues;
use provider::wr::Operation;
use provider::wr::SendRequest;
use provider::wr::Status;
use rdmap::fault::Fault;
use rdmap::header::ReadRequest;
use rdmap::mpa::startup;
use rdmap::order::Arrival;
use rdmap::order::Order;
use rdmap::sink;
use rdmap::sink::Key;
use rdmap::sink::Sink;
use rdmap::source;
use rdmap::source::Source;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use socket::Connection;

/// An open stream.
pub(crate) struct Stream(Parts);

impl Stream {
    /// A stream over a connection, on which both ends agreed. `reply` is what the passive side has to send first. Sleeps.
    pub(crate) fn new(
        connection: Connection<Waker>,
        queues: &Queues,
        agreed: &startup::Stream,
        reply: Option<&[u8]>,
    ) -> Result<Self> {
        let capacities = queues.capacities();
        let (ird, ord) = (usize::from(agreed.reads.ird), usize::from(agreed.reads.ord));
        let mut outbox = Outbox::new(agreed.send_markers, agreed.crc)?;
        if let Some(reply) = reply {
            outbox.plain(reply)?;
        }
        Ok(Self(Parts {
            connection,
            sink: Sink::new(
                Arrival::new(),
                Key(provider::random(), provider::random()),
                KVVec::from_elem(sink::Receive::default(), capacities.receives, GFP_KERNEL)?,
                KVVec::from_elem(sink::Inbound::default(), ird, GFP_KERNEL)?,
                KVVec::from_elem(sink::Outstanding::default(), ord, GFP_KERNEL)?,
            ),
            source: Source::new(
                KVVec::from_elem(source::Posted::EMPTY, capacities.sends, GFP_KERNEL)?,
                KVVec::from_elem(sink::Answer::default(), ird, GFP_KERNEL)?,
                agreed.reads.ord,
                <Arrival as Order>::IN_ORDER,
            ),
            outbox,
            sends: Requests::new(capacities.sends)?,
            receives: Requests::new(capacities.receives)?,
            crc: agreed.crc,
            send_markers: agreed.send_markers,
            gated: reply.is_some(),
            ended: false,
        }))
    }

    /// Does what there is to do, for a while.
    pub(crate) fn round(
        &mut self,
        shared: &Shared,
        queues: &Queues,
        memory: &Registered<'_>,
    ) -> Round {
        self.take_sends(queues);
        let received = inbound::take(&mut self.0, shared, queues, memory);
        self.take_sends(queues);
        let sent = outbound::make(&mut self.0, shared, memory);
        self.complete(queues);
        if self.0.ended {
            return Round::Over { graceful: false };
        }
        if self.0.source.is_over() && self.0.outbox.is_empty() {
            self.0.connection.shutdown();
            return Round::Over { graceful: true };
        }
        match (received, sent) {
            (Err(_), _) | (_, Err(_)) => Round::Over { graceful: false },
            (Ok(Round::Over { graceful }), _) => Round::Over { graceful },
            (Ok(Round::More), _) | (_, Ok(true)) => Round::More,
            _ => Round::Idle,
        }
    }

    /// Hands over what was made, and nothing more: the consumer closes.
    pub(crate) fn last_words(&mut self) {
        // What there is no room for is lost, as is what a consumer has not waited for.
        let _ = self.0.outbox.flush(&mut self.0.connection);
        self.0.connection.shutdown();
    }

    /// Whether part of an FPDU has been there for longer than that many milliseconds.
    pub(crate) fn is_late(&self, milliseconds: i64) -> bool {
        let since = self.0.connection.waiting_since();
        since.is_some_and(|since| since.elapsed().as_millis() > milliseconds)
    }

    /// Whether part of an FPDU is there.
    pub(crate) fn has_part(&self) -> bool {
        self.0.connection.waiting_since().is_some()
    }

    /// Ends the stream: all requests that it has are completed. Returns the connection.
    pub(crate) fn end(mut self, queues: &Queues) -> Connection<Waker> {
        if let Some(closed) = self.0.sink.close() {
            self.0.source.close(closed);
        }
        self.complete(queues);
        while let Some(number) = self.0.sink.flush() {
            if let Some(request) = self.0.receives.take(number) {
                queues.complete_receive(request, Status::Flushed, 0, false, None);
            }
        }
        // Whatever the engine did not give back: the consumer gets it back all the same.
        while let Some(request) = self.0.sends.pop() {
            queues.complete_send(request, Status::Flushed);
        }
        while let Some(request) = self.0.receives.pop() {
            queues.complete_receive(request, Status::Flushed, 0, false, None);
        }
        self.0.connection
    }

    /// Gives what was posted to the engine.
    fn take_sends(&mut self, queues: &Queues) {
        while let Some(request) = queues.take_send() {
            let posted = self.0.source.post(source::Request {
                operation: operation(&request),
                fence: request.fence,
            });
            match posted {
                Ok(number) => {
                    if let Some(request) = self.0.sends.put(number, request) {
                        queues.complete_send(request, Status::Failed);
                    }
                }
                // A Read where none may be. The consumer has asked for what was not agreed on, and the stream ends.
                Err(_) => {
                    queues.complete_send(request, Status::Failed);
                    self.0.source.fail(Fault::LOCAL);
                }
            }
        }
    }

    /// Completes what is done.
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

/// A request, as the engine knows it.
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
