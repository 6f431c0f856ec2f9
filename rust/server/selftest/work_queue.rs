// SPDX-License-Identifier: GPL-2.0

//! Tests of the queues of a connection, with messages in Receive buffers. `proto` has the tests of
//! their order.

use super::{
    super::{
        call::CallLayout,
        rdma_read::ReadPermit,
        work_queue::{
            ChunkedCall,
            Outgoing,
            OutgoingBytes,
            Waiter,
            WaitingReads,
            Work,
            WorkQueue, //
        }, //
    },
    connection::PORT, //
};
use crate::prelude::*;
use endpoint::selftest::connection::wait;
use proto::{
    call::Call,
    waiting::Attempt, //
};
use rdma::{
    cm::Id,
    selftest::{
        address,
        net, //
    },
    ProtectionDomain, //
};
use sunrpc::selftest::empty_weak;

/// A connection whose elements can be made. The number of an element is the length of its message,
/// and stands in its state.
struct Elements {
    connection: Arc<ServerConn>,
    pd: Arc<ProtectionDomain<ServerConn>>,
}

impl Elements {
    fn new() -> Result<Self> {
        let connection = ServerConn::new(empty_weak()?, &[], 1)?;
        let id = Id::new(&net(), connection.clone())?;
        id.resolve_address(&address(PORT)?, 10_000)?;
        // There is no event: the server resolves no addresses.
        wait(|| id.limits().ok())?;
        let pd = ProtectionDomain::new(id)?;
        Ok(Self { connection, pd })
    }

    fn message(&self, number: usize) -> Result<Message<ServerConn>> {
        Message::of_len(&self.pd, number)
    }

    fn reads(&self, number: usize) -> Result<WithMessage<WaitingReads>> {
        Ok(WithMessage {
            message: self.message(number)?,
            state: WaitingReads {
                layout: CallLayout::PayloadStream { len: number },
                outline: Call::without_chunks(0).outline(),
                requests: number,
                registrations: 0,
                credits: None,
                waited_for_pages: false,
            },
        })
    }

    fn read(&self, number: usize) -> Result<WithMessage<ChunkedCall>> {
        Ok(WithMessage {
            message: self.message(number)?,
            state: ChunkedCall {
                layout: CallLayout::PayloadStream { len: number },
                outline: Call::without_chunks(0).outline(),
                pages: KVec::new(),
                permit: ReadPermit::new(&self.connection, 1).ok_or(EBUSY)?,
                reads_posted: None,
            },
        })
    }

    fn send(&self, number: usize) -> Result<WithMessage<Outgoing>> {
        Ok(WithMessage {
            message: self.message(number)?,
            state: Outgoing {
                bytes: OutgoingBytes::memory(number)?,
                len: number,
                attached: Attached::Nothing,
                memory: None,
                kind: SendKind::Plain,
                xid: u32::try_from(number)?,
            },
        })
    }
}

/// Returns whether `found`, an element of this message and the number in its state, is that
/// `number`.
fn is(found: (&Message<ServerConn>, usize), number: usize) -> bool {
    found.0.bytes().len() == number && found.1 == number
}

/// Returns whether the work is a message with this `number`.
fn is_received(work: Option<Work>, number: usize) -> bool {
    matches!(work, Some(Work::Received(message)) if message.bytes().len() == number)
}

/// Returns whether the work is a call with this `number` that was read.
fn is_read(work: Option<Work>, number: usize) -> bool {
    let Some(Work::ReadDone(WithMessage { message, state })) = work else {
        return false;
    };
    matches!(state.layout, CallLayout::PayloadStream { len } if is((&message, len), number))
}

/// Returns whether the work is Reads with this `number`.
fn is_reads(work: Option<Work>, number: usize) -> bool {
    let Some(Work::Reads(WithMessage { message, state })) = work else {
        return false;
    };
    is((&message, state.requests), number)
}

/// Returns whether the waiter is a Send with this `number`.
fn is_send(waiter: Option<Waiter>, number: usize) -> bool {
    let Some(Waiter::Send(WithMessage { message, state })) = waiter else {
        return false;
    };
    is((&message, state.len), number)
}

pub(super) fn each_element_keeps_its_message_and_state() -> Result<bool> {
    let elements = Elements::new()?;
    let mut queue = WorkQueue::EMPTY;
    for number in [1, 2] {
        queue.push_received(elements.message(number)?);
        queue.push_read_done(elements.read(10 + number)?);
        queue.push_ready(elements.reads(20 + number)?);
        queue.end_reads();
        queue.wait_for_pages(elements.reads(30 + number)?, Attempt::NotTried);
        queue.wait_for_credits(Waiter::Send(elements.send(40 + number)?), Attempt::NotTried);
    }
    queue.wait_for_buffer(elements.send(51)?, Attempt::NotTried);
    let work = is_read(queue.pop(), 11)
        && is_read(queue.pop(), 12)
        && is_reads(queue.pop(), 21)
        && is_reads(queue.pop(), 22)
        && is_reads(queue.pop(), 31)
        && is_reads(queue.pop(), 32)
        && is_received(queue.pop(), 1)
        && is_received(queue.pop(), 2)
        && queue.pop().is_none();
    let waiters = is_send(queue.pop_waiter(), 41)
        && is_send(queue.pop_waiter(), 42)
        && is_send(queue.pop_waiter(), 51)
        && queue.pop_waiter().is_none();
    Ok(work && waiters)
}

pub(super) fn element_that_is_tried_again_is_the_first() -> Result<bool> {
    let elements = Elements::new()?;
    let mut queue = WorkQueue::EMPTY;
    for number in [1, 2] {
        let reads = elements.reads(number)?;
        queue.wait_for_credits(Waiter::Reads(reads), Attempt::NotTried);
    }
    let Some(Waiter::Reads(reads)) = queue.pop_waiter() else {
        return Ok(false);
    };
    queue.wait_for_credits(Waiter::Reads(reads), Attempt::Requeued(true));
    queue.end_reads();
    let mut next = |number| {
        let Some(Waiter::Reads(WithMessage { message, state })) = queue.pop_waiter() else {
            return false;
        };
        queue.end_reads();
        is((&message, state.requests), number)
    };
    Ok(next(1) && next(2) && queue.pop_waiter().is_none())
}
