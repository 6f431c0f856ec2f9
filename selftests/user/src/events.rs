// SPDX-License-Identifier: GPL-2.0

//! Events of objects: who is told of an error, and that nobody else is.

use std::sync::Arc;
use std::time::Duration;

use crate::case::cases;
use crate::case::expect;
use crate::case::Outcome;
use crate::connection::pair;
use crate::connection::Device;
use crate::connection::End;
use crate::entry;
use crate::kernel::page_size;
use crate::kernel::Uverbs;
use crate::verbs::open;
use crate::verbs::LOCAL_WRITE;
use crate::verbs::PATIENCE;
use crate::verbs::REMOTE_READ;
use crate::verbs::REMOTE_WRITE;

cases![
    peer_that_may_not_is_told_to_either_end,
    message_that_does_not_fit_is_told_to_either_end,
    full_queue_is_told_once,
    connection_that_is_closed_is_told_to_nobody,
];

/// Kinds of events.
const CQ_ERR: u32 = 0;
const QP_FATAL: u32 = 1;
const QP_REQ_ERR: u32 = 2;
const QP_ACCESS_ERR: u32 = 3;
const DEVICE_FATAL: u32 = 8;

/// Returns the events of a context: waits for so many, and then until none comes for a while. All are
/// of its queue pair or its completion queue, which have the same tag.
fn events(end: &End, expected: usize) -> Result<Vec<u32>, String> {
    let tag = u64::from(end.qp.cq.raw.handle);
    let mut kinds = Vec::new();
    let uverbs = &end.qp.context.uverbs;
    let next = |limit| uverbs.async_event(limit);
    loop {
        let limit = if kinds.len() < expected {
            PATIENCE
        } else {
            Duration::from_millis(300)
        };
        let event = next(limit).map_err(|errno| format!("events: errno {errno}"))?;
        let Some(event) = event else {
            break;
        };
        // A completion queue has no tag of its own.
        if event.kind != CQ_ERR {
            expect(&format!("{event:?} is of {tag}"), event.tag == tag)?;
        }
        kinds.push(event.kind);
    }
    kinds.sort_unstable();
    Ok(kinds)
}

fn are_told(client: &End, server: &End, expected: [&[u32]; 2]) -> Outcome {
    for (name, end, expected) in [
        ("client", client, expected[0]),
        ("server", server, expected[1]),
    ] {
        let told = events(end, expected.len())?;
        expect(
            &format!("the {name} has the events {expected:?}, and not {told:?}"),
            told == expected,
        )?;
    }
    Ok(())
}

/// A Write or Read of memory that the peer may not access.
fn peer_that_may_not_is_told_to_either_end(device: &Device) -> Outcome {
    for (opcode, access) in [(entry::WRITE, REMOTE_READ), (entry::READ, REMOTE_WRITE)] {
        let (mut client, server) = pair(device, 4)?;
        let there = server
            .qp
            .context
            .buffer(page_size(), LOCAL_WRITE | access)?;
        let here = client.qp.context.buffer(page_size(), LOCAL_WRITE)?;
        client.qp.post(entry::rdma(
            1,
            opcode,
            &[here.sge(0, 8)],
            there.mr.rkey,
            there.memory.address(),
        ))?;
        are_told(&client, &server, [&[QP_FATAL], &[QP_ACCESS_ERR]])?;
    }
    Ok(())
}

fn message_that_does_not_fit_is_told_to_either_end(device: &Device) -> Outcome {
    let (mut client, mut server) = pair(device, 4)?;
    let room = Arc::new(server.qp.context.buffer(page_size(), LOCAL_WRITE)?);
    server.qp.receive_into(1, &room, 0, 4);
    client.qp.post(entry::inline(2, b"too long"))?;
    are_told(&client, &server, [&[QP_FATAL], &[QP_REQ_ERR]])
}

/// Completions that nobody takes overrun the queue: that is told once, whatever is lost.
// Shows T14.
fn full_queue_is_told_once(device: &Device) -> Outcome {
    let (mut client, server) = pair(device, 4)?;
    let there = server
        .qp
        .context
        .buffer(page_size(), LOCAL_WRITE | REMOTE_WRITE)?;
    // The queue has room for eight.
    for id in 0..40 {
        let write = entry::rdma(id, entry::WRITE, &[], there.mr.rkey, there.memory.address());
        client.qp.post(write).ok();
        std::thread::sleep(Duration::from_millis(2));
    }
    let told = events(&client, 2)?;
    expect(
        &format!("{told:?} are CQ_ERR and QP_FATAL"),
        told == [CQ_ERR, QP_FATAL],
    )
}

fn connection_that_is_closed_is_told_to_nobody(device: &Device) -> Outcome {
    let (client, server) = pair(device, 4)?;
    client
        .cm
        .disconnect(client.id)
        .map_err(|errno| format!("DISCONNECT: errno {errno}"))?;
    server.ended()?;
    are_told(&client, &server, [&[], &[]])
}

/// Waits until the device goes, and expects that this context is told so, and that it can do
/// nothing any more.
pub fn device_goes(device: &Device) -> Outcome {
    let uverbs: Uverbs = open(&device.name)?;
    let pd = uverbs.alloc_pd();
    let pd = pd.map_err(|errno| format!("ALLOC_PD: errno {errno}"))?;
    println!("runs");
    // The script that runs this limits its time.
    let event = uverbs.async_event(Duration::from_secs(600));
    let event = event.map_err(|errno| format!("events: errno {errno}"))?;
    let event = event.ok_or("no event")?;
    expect(
        &format!("{event:?} says that the device has gone"),
        event.kind == DEVICE_FATAL,
    )?;
    // The event comes first.
    std::thread::sleep(Duration::from_secs(2));
    let gone = uverbs.alloc_pd();
    expect(&format!("{gone:?} is EIO"), gone == Err(5))?;
    let gone = uverbs.reg_mr(pd, 0, page_size() as u64, LOCAL_WRITE);
    expect("nor is memory registered", gone.is_err())
}
