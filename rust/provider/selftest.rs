// SPDX-License-Identifier: GPL-2.0

//! Tests of the queues between a consumer and the driver, without a device.

use crate::cq::CompletionQueue;
use crate::queue;
use crate::queue::Capacities;
use crate::queue::Queues;
use crate::wr::Status;
use core::ptr::null_mut;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// True if it passed.
pub type Test = fn() -> Result<bool>;

/// Each with its name, which is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "requests are carried out in the order in which they were posted",
        requests_are_taken_in_order,
    ),
    (
        "a request without a completion of its own completes if it is posted in the error state",
        request_in_error_state_completes,
    ),
    (
        "a queue has room for a drain when it is as full as its consumer may make it",
        drain_has_room,
    ),
];

/// Any number but 0.
const QP: usize = 1;

/// Queues for a few requests, and where these complete. Nobody waits for that.
fn queues() -> Result<(Arc<Queues>, Arc<CompletionQueue>)> {
    let cq = CompletionQueue::new(NonNull::dangling(), 8)?;
    let capacities = Capacities {
        sends: 4,
        receives: 4,
        send_entries: 1,
        receive_entries: 1,
    };
    let queues = Queues::new(QP, capacities, cq.clone(), cq.clone(), false)?;
    Ok((queues, cq))
}

/// Posts an RDMA Write of no octets, as the core does to drain.
fn post(queues: &Queues, id: u64) -> Result {
    let mut write = iwraw::ib_rdma_wr::default();
    write.wr.opcode = iwraw::ib_wr_opcode_IB_WR_RDMA_WRITE;
    write.wr.__bindgen_anon_1.wr_id = id;
    // SAFETY: It is a chain of one request, which is whole and has no memory.
    unsafe { queues.post_send((&raw const write).cast(), null_mut()) }
}

fn requests_are_taken_in_order() -> Result<bool> {
    let (queues, cq) = queues()?;
    for id in 1..=3 {
        post(&queues, id)?;
    }
    for id in 1..=3 {
        let request = queues.take_send().ok_or(EINVAL)?;
        let expected = request.id == id;
        queues.complete_send(request, Status::Success);
        if !expected {
            return Ok(false);
        }
    }
    Ok(queues.take_send().is_none() && cq.pop().is_none())
}

fn request_in_error_state_completes() -> Result<bool> {
    let (queues, cq) = queues()?;
    post(&queues, 1)?;
    let earlier = queues.take_send().ok_or(EINVAL)?;
    queues.close_sends();
    post(&queues, 2)?;
    // The driver does not know of the state yet.
    let none = queues.take_send().is_none();
    queues.complete_send(earlier, Status::Success);
    let untold = cq.pop().is_none();
    while let Some(request) = queues.take_send_to_flush() {
        queues.complete_send(request, Status::Flushed);
    }
    let entry = cq.pop().ok_or(EINVAL)?;
    let flushed = entry.id == 2 && entry.status == Status::Flushed.code();
    Ok(none && untold && flushed && cq.pop().is_none())
}

fn drain_has_room() -> Result<bool> {
    for wanted in 1..70 {
        let room = queue::capacity(wanted, 1 << 10)?;
        let told = queue::told(room)?;
        if told < wanted || room < usize::try_from(told)? + 2 {
            return Ok(false);
        }
    }
    Ok(queue::capacity(11, 10).is_err())
}
