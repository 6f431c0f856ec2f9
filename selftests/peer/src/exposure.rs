// SPDX-License-Identifier: GPL-2.0

//! The cases to a client that are about its memory: what a server reaches, and until when.

use super::bench::same;
use super::bench::Segment;
use super::bench::Verdict;
use super::files;
use super::files::procedure;
use super::pace::here;
use super::replies::cases;
use super::replies::first_read;
use super::replies::listing;
use super::replies::names_of_all;
use super::replies::reading;
use super::stage;
use super::stage::Call;
use super::stage::Stage;
use super::verbs::Access;
use super::verbs::Verb;
use super::verbs::DENIED;
use super::verbs::SUCCESS;
use std::time::Duration;

cases![
    adv103_write_after_the_reply,
    adv105_rdma_write_with_immediate,
    sec02_write_chunk_cannot_be_read,
    sec02_read_chunk_cannot_be_written,
    sec02_no_atomics,
    sec03_handle_of_another_connection,
    sec04_no_access_beyond_a_segment,
    sec05_handle_of_an_earlier_rpc,
    sec08_no_read_after_the_reply,
    sec10_no_segment_outlives_the_reply,
    sec12_invalidation_of_another_connection_s_handle,
    sec16_memory_of_a_killed_call_is_invalidated,
    sec17_killed_calls_keep_the_connection,
];

/// What must not work on the memory of a pending READ or WRITE: it ends the connection, and the
/// call comes again.
fn denied(stage: &mut Stage, verb: Verb, segment: Segment, length: usize) -> Verdict {
    let local = stage.connection()?.region(length, Access::Local);
    let local = local.map_err(|error| error.to_string())?;
    local.put(0, &vec![0x5A; length]);
    let status = stage.transfer(verb, segment, &local)?;
    same("access is denied", DENIED.contains(&status), true)?;
    match verb {
        Verb::Read | Verb::FetchAndAdd => same("bytes", local.bytes(0, length), vec![0x5A; length]),
        _ => Ok(()),
    }
}

/// The first WRITE, and the memory that its data are in.
fn writing(stage: &mut Stage) -> Result<(Call, Segment), String> {
    let call = stage.until(procedure::WRITE)?;
    let read = call.lists.read.first();
    let (_, segment) = *read.ok_or("the WRITE has no Read chunk")?;
    Ok((call, segment))
}

fn sec02_write_chunk_cannot_be_read() -> Verdict {
    let (mut stage, call) = reading()?;
    denied(&mut stage, Verb::Read, call.lists.write[0][0], 64)?;
    stage.succeeds(&files::content())
}

fn sec02_no_atomics() -> Verdict {
    let (mut stage, call) = reading()?;
    denied(&mut stage, Verb::FetchAndAdd, call.lists.write[0][0], 8)?;
    stage.succeeds(&files::content())
}

fn sec02_read_chunk_cannot_be_written() -> Verdict {
    let mut stage = Stage::new(stage::write)?;
    let (_, segment) = writing(&mut stage)?;
    // What may be done with it, to see that the key is right.
    let local = stage.memory(&[0; 1024])?;
    same(
        "access",
        stage.transfer(Verb::Read, segment, &local)?,
        SUCCESS,
    )?;
    same(
        "data",
        local.bytes(0, 1024),
        files::content()[..1024].to_vec(),
    )?;
    denied(&mut stage, Verb::Write, segment, 64)?;
    stage.succeeds(&[])
}

fn sec04_no_access_beyond_a_segment() -> Verdict {
    for before in [true, false] {
        let (mut stage, call) = reading()?;
        let segment = call.lists.write[0][0];
        let address = match before {
            true => segment.address - 1,
            false => segment.address + u64::from(segment.length),
        };
        denied(&mut stage, Verb::Write, Segment { address, ..segment }, 1)?;
        stage.succeeds(&files::content())?;
    }
    Ok(())
}

/// When the reply is there, the memory is the client's again.
fn after_the_reply(stage: &mut Stage, call: &Call, verb: Verb, segment: Segment) -> Verdict {
    let connections = stage.connections;
    stage.answer(call)?;
    // The client's next call shows that it took the reply.
    let next = stage.next(here(Duration::from_secs(10)))?;
    same("connections", stage.connections, connections)?;
    denied(stage, verb, segment, 64)?;
    if let Some(next) = next {
        let _ = stage.answer(&next);
    }
    Ok(())
}

fn adv103_write_after_the_reply() -> Verdict {
    let (mut stage, call) = reading()?;
    let segment = call.lists.write[0][0];
    after_the_reply(&mut stage, &call, Verb::Write, segment)?;
    stage.succeeds(&files::content())
}

fn sec08_no_read_after_the_reply() -> Verdict {
    let mut stage = Stage::new(stage::write)?;
    let (call, segment) = writing(&mut stage)?;
    after_the_reply(&mut stage, &call, Verb::Read, segment)?;
    stage.succeeds(&[])
}

fn sec10_no_segment_outlives_the_reply() -> Verdict {
    let mut index = 0;
    loop {
        let (mut stage, call, chunk) = listing()?;
        let Some(segment) = chunk.get(index) else {
            stage.answer(&call)?;
            stage.succeeds(&names_of_all())?;
            // One that the client must invalidate itself, and others in the same chain.
            return same("several segments", index > 1, true);
        };
        let segment = Segment {
            length: 1,
            ..*segment
        };
        after_the_reply(&mut stage, &call, Verb::Write, segment)?;
        stage.succeeds(&names_of_all())?;
        index += 1;
    }
}

/// Two transports of the client, and the memory of a READ over the first.
fn two_transports() -> Result<[(Stage, Call); 2], String> {
    let one = reading()?;
    let two = first_read(Stage::beside(stage::read)?)?;
    Ok([one, two])
}

fn sec03_handle_of_another_connection() -> Verdict {
    let [(mut one, call), (mut two, _)] = two_transports()?;
    denied(&mut two, Verb::Write, call.lists.write[0][0], 64)?;
    two.succeeds(&files::content())?;
    one.answer(&call)?;
    one.succeeds(&files::content())?;
    same("connections", one.connections, 1)
}

fn sec12_invalidation_of_another_connection_s_handle() -> Verdict {
    let [(mut one, call), (mut two, other)] = two_transports()?;
    let key = call.lists.write[0][0].key;
    let reply = two.right_reply(&other)?;
    two.send_as(Verb::SendWithInvalidate(key), &reply)?;
    two.succeeds(&files::content())?;
    same("connections are more than one", two.connections > 1, true)?;
    // Soft RoCE did it. What becomes of the READ is an error of its connection, no more.
    let _ = one.answer(&call);
    one.succeeds(&files::content())
}

/// A client whose first process lists the directory, and the memory for that.
fn listing_in_a_process() -> Result<(Stage, Segment), String> {
    let mut stage = Stage::new(stage::list_again_and_again)?;
    let call = stage.until(procedure::READDIR)?;
    let chunk = call.lists.reply.ok_or("the READDIR has no Reply chunk")?;
    Ok((stage, *chunk.first().ok_or("no segment")?))
}

fn sec16_memory_of_a_killed_call_is_invalidated() -> Verdict {
    let (mut stage, segment) = listing_in_a_process()?;
    let local = stage.memory(&[0; 64])?;
    same(
        "access",
        stage.transfer(Verb::Write, segment, &local)?,
        SUCCESS,
    )?;
    stage::kill_lister()?;
    denied(&mut stage, Verb::Write, segment, 64)?;
    stage.succeeds(&names_of_all())
}

fn sec17_killed_calls_keep_the_connection() -> Verdict {
    let (mut stage, _) = listing_in_a_process()?;
    stage::kill_lister()?;
    for _ in 1..stage::LISTERS {
        stage.until(procedure::READDIR)?;
        stage::kill_lister()?;
    }
    stage.succeeds(&names_of_all())?;
    same("connections", stage.connections, 1)
}

fn sec05_handle_of_an_earlier_rpc() -> Verdict {
    let mut stage = Stage::new(stage::read_and_list)?;
    let read = stage.until(procedure::READ)?;
    let segment = *read
        .lists
        .write
        .first()
        .and_then(|chunk| chunk.first())
        .ok_or("no chunk")?;
    stage.answer(&read)?;
    let list = stage.until(procedure::READDIR)?;
    // Their last byte is what changes.
    let again = |next: &&Segment| next.key >> 8 == segment.key >> 8;
    let mut offered = list.lists.reply.iter().flatten();
    let next = offered.find(again).ok_or("no region is used again")?;
    same("the same handle", next.key == segment.key, false)?;
    let address = next.address;
    denied(&mut stage, Verb::Write, Segment { address, ..segment }, 64)?;
    stage.succeeds(&names_of_all())
}

fn adv105_rdma_write_with_immediate() -> Verdict {
    let (mut stage, call) = reading()?;
    let local = stage.memory(&[0x5A; 64])?;
    let segment = call.lists.write[0][0];
    // It takes up a Receive of the client, in which it leaves nothing.
    let status = stage.transfer(Verb::WriteWithImmediate(7), segment, &local)?;
    same("status", status, SUCCESS)?;
    match stage.soon()? {
        Some(again) => stage.answer(&again)?,
        None => stage.answer(&call)?,
    }
    stage.succeeds(&files::content())
}
