// SPDX-License-Identifier: GPL-2.0

//! The cases to a client, by name: what it must not believe of a server.

use super::bench::same;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::exposure;
use super::files;
use super::files::procedure;
use super::hostile_replies;
use super::stage;
use super::stage::filled;
use super::stage::Call;
use super::stage::Stage;
use super::stage::FIRST;
use super::verbs::Verb;
use super::wire;
use super::wire::words;

/// Runs against the client of this machine.
pub type Case = fn() -> Verdict;

/// A table of functions with their names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file, by name.
        pub const CASES: &[(&str, $crate::replies::Case)] = &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use cases;

cases![
    adv48_write_chunk_longer_than_offered,
    adv49_write_chunk_with_another_segment_count,
    adv50_write_chunk_with_another_handle_or_offset,
    adv51_write_chunk_that_was_not_offered,
    adv52_write_list_missing,
    adv55_inline_reply_that_used_the_reply_chunk,
    adv56_long_reply_with_an_empty_reply_chunk,
    adv57_long_reply_without_padding,
    adv58_long_reply_longer_than_offered,
    adv61_grant_of_a_dropped_reply_is_ignored,
    adv62_duplicate_reply,
    adv67_err_chunk_ends_the_rpc,
    adv71_err_vers_ends_the_rpc,
    adv72_zero_and_maximum_grants,
    adv75_inline_result_despite_a_write_chunk,
    adv76_result_length_differs_from_its_write_chunk,
    adv77_failed_read_after_an_rdma_write,
    adv78_reverse_direction_call,
    adv79_reverse_direction_call_with_a_pending_xid,
    adv82_invalidation_of_an_unknown_handle,
    adv82_invalidation_of_another_rpc_s_handle,
    adv83_invalidation_by_a_malformed_reply,
    adv84_invalidation_without_agreement,
    amb02_too_many_malformed_messages,
    adv104_no_reply,
    sec25_no_data_beyond_what_was_written,
    padding_in_a_write_chunk_is_ignored,
    b10_reverse_direction_call_with_chunks,
    b15_more_reverse_direction_calls_than_credits,
    long_reply_by_the_reply_chunk,
    one_call_before_the_first_grant,
    killed_calls_keep_their_credits,
    sec17_late_reply_invalidates_memory_of_a_killed_call,
    killed_calls_with_all_credits_end_the_connection,
    grant_below_the_calls_in_flight,
    p01_client_sends_private_data,
    p10_remote_invalidation_with_agreement,
];

fn named() -> impl Iterator<Item = &'static (&'static str, Case)> {
    CASES.iter().chain(exposure::CASES)
}

/// The names of all.
pub fn names() -> Vec<String> {
    let numbered = (0..100).filter(|number| !hostile_replies::replies(*number).is_empty());
    let numbered = numbered.map(|number| format!("adv{number:02}"));
    numbered
        .chain(named().map(|(name, _)| name.to_string()))
        .collect()
}

/// Runs the case of this name, if there is one.
pub fn run(name: &str) -> Option<Verdict> {
    if let Some((_, case)) = named().find(|(known, _)| *known == name) {
        return Some(case());
    }
    let number = name.strip_prefix("adv")?.parse().ok()?;
    let messages = hostile_replies::replies(number);
    (!messages.is_empty()).then(|| dropped(messages))
}

/// How many malformed messages a connection survives.
const SURVIVED: usize = 2;

/// The first call is not answered by any of these messages, but is by the right one.
fn dropped(messages: Vec<Vec<u8>>) -> Verdict {
    for messages in messages.chunks(SURVIVED) {
        let mut stage = Stage::new(stage::rest)?;
        let call = stage.until(FIRST)?;
        for message in messages {
            stage.send(&addressed(message, &call))?;
        }
        stage.is_pending()?;
        stage.answer(&call)?;
        stage.succeeds(&[])?;
        same("connections", stage.connections, 1)?;
    }
    Ok(())
}

/// `message` with the transaction of `call`.
fn addressed(message: &[u8], call: &Call) -> Vec<u8> {
    let mut message = message.to_vec();
    let words = message.chunks_exact_mut(4);
    for word in words.filter(|word| *word == wire::XID.to_be_bytes()) {
        word.copy_from_slice(&call.xid.to_be_bytes());
    }
    message
}

fn amb02_too_many_malformed_messages() -> Verdict {
    let (mut stage, call) = reading()?;
    for message in hostile_replies::replies(80).iter().take(SURVIVED + 1) {
        stage.send(&addressed(message, &call))?;
    }
    // The connection is gone, and the READ comes again over the next.
    stage.succeeds(&files::content())?;
    same("connections", stage.connections, 2)
}

/// A client that reads, and its first READ, which offers a Write chunk.
pub fn reading() -> Result<(Stage, Call), String> {
    reading_from(&[])
}

fn reading_from(private: &[u8]) -> Result<(Stage, Call), String> {
    first_read(Stage::with(stage::read, private)?)
}

/// The first READ that comes to `stage`, which offers a Write chunk.
pub fn first_read(mut stage: Stage) -> Result<(Stage, Call), String> {
    let call = stage.until(procedure::READ)?;
    match call.lists.write.first().map(|chunk| chunk.len()) {
        None | Some(0) => Err("the READ has no Write chunk".into()),
        Some(_) => Ok((stage, call)),
    }
}

/// The reply to a READ whose data are said to be in `chunk`, in a Write list with `behind`.
fn said_to_be_in(call: &Call, chunk: Vec<Segment>, behind: &[Vec<Segment>]) -> Vec<u8> {
    let lists = Lists {
        write: [&[chunk], behind].concat(),
        ..call.unused()
    };
    call.reply(0, &lists, &call.outcome().0)
}

/// What the READ's chunk looks like when all is right.
fn right_chunk(call: &Call) -> Vec<Segment> {
    filled(&call.lists.write[0], call.outcome().1.len())
}

/// `change` of the right chunk makes the reply one to drop.
fn changed_chunk(change: fn(&mut Vec<Segment>)) -> Verdict {
    let (mut stage, call) = reading()?;
    let mut chunk = right_chunk(&call);
    change(&mut chunk);
    stage.drops(&call, &said_to_be_in(&call, chunk, &[]))?;
    stage.succeeds(&files::content())?;
    same("connections", stage.connections, 1)
}

fn adv48_write_chunk_longer_than_offered() -> Verdict {
    let (mut stage, call) = reading()?;
    let mut chunk = call.lists.write[0].clone();
    if let Some(last) = chunk.last_mut() {
        last.length += 4;
    }
    stage.drops(&call, &said_to_be_in(&call, chunk, &[]))?;
    stage.succeeds(&files::content())
}

fn adv49_write_chunk_with_another_segment_count() -> Verdict {
    changed_chunk(|chunk| {
        chunk.push(Segment {
            length: 0,
            ..chunk[0]
        })
    })?;
    changed_chunk(|chunk| chunk.truncate(chunk.len() - 1))
}

fn adv50_write_chunk_with_another_handle_or_offset() -> Verdict {
    changed_chunk(|chunk| chunk[0].key ^= 0x100)?;
    changed_chunk(|chunk| chunk[0].address += 4)
}

fn adv51_write_chunk_that_was_not_offered() -> Verdict {
    let (mut stage, call) = reading()?;
    let more = vec![Segment {
        length: 0,
        ..call.lists.write[0][0]
    }];
    stage.drops(&call, &said_to_be_in(&call, right_chunk(&call), &[more]))?;
    stage.succeeds(&files::content())
}

fn adv52_write_list_missing() -> Verdict {
    let (mut stage, call) = reading()?;
    let (mut payload, _) = call.outcome();
    payload.extend([0x5A; 256]);
    // The count says that there is more, but that is not what is looked at first.
    stage.drops(&call, &call.reply(0, &Lists::default(), &payload))?;
    stage.succeeds(&files::content())
}

/// A client that lists the directory, and its READDIR, which offers a Reply chunk.
pub fn listing() -> Result<(Stage, Call, Vec<Segment>), String> {
    let mut stage = Stage::new(stage::list)?;
    let call = stage.until(procedure::READDIR)?;
    match call.lists.reply.clone() {
        None => Err("the READDIR has no Reply chunk".into()),
        Some(chunk) => Ok((stage, call, chunk)),
    }
}

/// What [`stage::list`] gets.
pub fn names_of_all() -> Vec<u8> {
    let names = (1..=60).map(|number| format!("{number:08}"));
    names.collect::<String>().into_bytes()
}

/// A reply to a READDIR with this procedure, chunk and payload is one to drop.
fn drops_long(
    procedure: u32,
    change: impl FnOnce(&Call, &[Segment]) -> Option<Vec<Segment>>,
    inline: bool,
) -> Verdict {
    let (mut stage, call, chunk) = listing()?;
    let lists = Lists {
        reply: change(&call, &chunk),
        ..call.unused()
    };
    let payload = if inline {
        wire::reply(call.xid, &[0; 4])
    } else {
        vec![]
    };
    stage.drops(&call, &call.reply(procedure, &lists, &payload))?;
    stage.succeeds(&names_of_all())?;
    same("connections", stage.connections, 1)
}

fn adv55_inline_reply_that_used_the_reply_chunk() -> Verdict {
    drops_long(0, |_, chunk| Some(filled(chunk, 24)), true)
}

fn adv56_long_reply_with_an_empty_reply_chunk() -> Verdict {
    drops_long(1, |_, chunk| Some(filled(chunk, 0)), false)?;
    drops_long(1, |_, _| None, false)
}

fn adv57_long_reply_without_padding() -> Verdict {
    drops_long(1, |_, chunk| Some(filled(chunk, 101)), false)
}

fn adv58_long_reply_longer_than_offered() -> Verdict {
    let longer = |_: &Call, chunk: &[Segment]| {
        let mut chunk = chunk.to_vec();
        chunk.last_mut()?.length += 4;
        Some(chunk)
    };
    drops_long(1, longer, false)
}

fn long_reply_by_the_reply_chunk() -> Verdict {
    let (mut stage, call, _) = listing()?;
    stage.answer(&call)?;
    stage.succeeds(&names_of_all())
}

fn adv62_duplicate_reply() -> Verdict {
    let (mut stage, call) = reading()?;
    let reply = stage.right_reply(&call)?;
    stage.send(&reply)?;
    stage.send(&reply)?;
    stage.succeeds(&files::content())?;
    same("connections", stage.connections, 1)
}

/// An RDMA_ERROR with these words.
fn error(call: &Call, rest: &[u32]) -> Vec<u8> {
    let mut message = words([call.xid, 1, 32, 4]);
    message.extend(words(rest));
    message
}

fn adv67_err_chunk_ends_the_rpc() -> Verdict {
    let (mut stage, call) = reading()?;
    stage.send(&error(&call, &[2]))?;
    // Whether the client makes a new RPC of it is its own matter; the old one does not come again.
    stage.gives_up(procedure::READ, |_, next| {
        same("the same transaction", next.xid == call.xid, false)?;
        Ok(error(next, &[2]))
    })?;
    same("connections", stage.connections, 1)
}

fn adv71_err_vers_ends_the_rpc() -> Verdict {
    for versions in [[1, 1], [5, 2]] {
        let mut stage = Stage::new(stage::rest)?;
        stage.fails(FIRST, |_, call| {
            Ok(error(call, &[1, versions[0], versions[1]]))
        })?;
    }
    Ok(())
}

fn adv61_grant_of_a_dropped_reply_is_ignored() -> Verdict {
    let mut stage = Stage::new(stage::look_around)?;
    stage.grant = 1;
    // Several at once, if there were credits.
    let call = stage.until(procedure::LOOKUP)?;
    let nobody = call.xid ^ 0x8000_0000;
    let mut unknown = words([nobody, 1, 32, 0, 0, 0, 0]);
    unknown.extend(wire::reply(nobody, &[]));
    let malformed = call.reply(9, &Lists::default(), &[]);
    for message in [unknown, malformed] {
        stage.send(&message)?;
        stage.is_pending()?;
    }
    stage.answer(&call)?;
    stage.succeeds(&[])?;
    same("connections", stage.connections, 1)
}

fn adv72_zero_and_maximum_grants() -> Verdict {
    for grant in [0, u32::MAX] {
        let mut stage = Stage::new(stage::read)?;
        let call = stage.until(FIRST)?;
        let mut reply = stage.right_reply(&call)?;
        reply[8..12].copy_from_slice(&u32::to_be_bytes(grant));
        stage.send(&reply)?;
        let next = stage.until(procedure::READ)?;
        same("credits asked for", next.credits, call.credits)?;
        stage.answer(&next)?;
        stage.succeeds(&files::content())?;
        same("connections", stage.connections, 1)?;
    }
    Ok(())
}

/// Each READ gets a reply that is an error for its caller, over one connection.
fn read_fails(answer: impl Fn(&Stage, &Call) -> Result<Vec<u8>, String>) -> Verdict {
    let mut stage = Stage::new(stage::read)?;
    stage.fails(procedure::READ, answer)?;
    same("connections", stage.connections, 1)
}

/// The payload of a reply to a READ that says it got `count` bytes.
fn says(call: &Call, count: u32) -> Vec<u8> {
    let (mut payload, _) = call.outcome();
    payload.truncate(payload.len() - 12);
    payload.extend(words([count, 0, count]));
    payload
}

fn adv75_inline_result_despite_a_write_chunk() -> Verdict {
    read_fails(|stage, call| {
        if call.lists.write.is_empty() {
            return stage.right_reply(call);
        }
        let payload = [says(call, 512), vec![0x5A; 512]].concat();
        Ok(call.reply(0, &call.unused(), &payload))
    })
}

/// The reply to a READ whose data are all in its chunk, and which says that there are `count`.
fn counts(stage: &Stage, call: &Call, data: &[u8], count: usize) -> Result<Vec<u8>, String> {
    let Some(chunk) = call.lists.write.first() else {
        // What is left of a READ that was cut short.
        return stage.right_reply(call);
    };
    let lists = Lists {
        write: vec![stage.fill(chunk, data)?],
        ..call.unused()
    };
    Ok(call.reply(0, &lists, &says(call, count as u32)))
}

fn adv76_result_length_differs_from_its_write_chunk() -> Verdict {
    for difference in [-4, 4] {
        read_fails(|stage, call| {
            let (_, data) = call.outcome();
            let count = data.len().saturating_add_signed(difference);
            counts(stage, call, &data, count)
        })?;
    }
    Ok(())
}

fn sec25_no_data_beyond_what_was_written() -> Verdict {
    read_fails(|stage, call| {
        let (_, data) = call.outcome();
        // Half of the data are there, and all are said to be.
        counts(stage, call, &data[..data.len() / 2], data.len())
    })
}

fn padding_in_a_write_chunk_is_ignored() -> Verdict {
    let (mut stage, call) = reading()?;
    let (_, mut data) = call.outcome();
    let length = data.len();
    // The server has less to give than it was asked for, and writes whole units.
    data[length - 3..].fill(0xFF);
    let reply = counts(&stage, &call, &data, length - 3)?;
    stage.send(&reply)?;
    stage.succeeds(&files::content())?;
    same("connections", stage.connections, 1)
}

/// NFS3ERR_IO in place of the data of a READ.
fn failed_read(call: &Call) -> Vec<u8> {
    call.reply(0, &call.unused(), &wire::reply(call.xid, &[5, 0]))
}

fn adv77_failed_read_after_an_rdma_write() -> Verdict {
    read_fails(|stage, call| {
        stage.fill(&call.lists.write[0], &[0x5A; 4096])?;
        Ok(failed_read(call))
    })
}

/// Messages that are no replies leave `call` as it is. Its connection may be given up for them.
fn untouched(mut stage: Stage, call: &Call, messages: &[Vec<u8>]) -> Verdict {
    for message in messages {
        stage.send(message)?;
    }
    match stage.soon()? {
        None => stage.answer(call)?,
        Some(again) => {
            same("transaction", again.xid, call.xid)?;
            same("connections", stage.connections, 2)?;
            stage.answer(&again)?;
        }
    }
    stage.succeeds(&files::content())
}

fn adv78_reverse_direction_call() -> Verdict {
    let (stage, call) = reading()?;
    let other = call.xid ^ 0x8000_0000;
    let mut message = words([other, 1, 32, 0, 0, 0, 0]);
    message.extend(wire::null_call(other));
    untouched(stage, &call, &[message])
}

fn b10_reverse_direction_call_with_chunks() -> Verdict {
    let (mut stage, call) = reading()?;
    let reply = Some(call.lists.write[0].clone());
    let lists = Lists {
        reply,
        ..Lists::default()
    };
    let payload = wire::null_call(call.xid);
    stage.drops(&call, &call.reply(0, &lists, &payload))?;
    stage.succeeds(&files::content())?;
    same("connections", stage.connections, 1)
}

fn adv79_reverse_direction_call_with_a_pending_xid() -> Verdict {
    let (stage, call) = reading()?;
    let message = call.reply(0, &Lists::default(), &wire::null_call(call.xid));
    untouched(stage, &call, &[message])
}

fn b15_more_reverse_direction_calls_than_credits() -> Verdict {
    let (mut stage, call) = reading()?;
    let flood = call.reply(0, &Lists::default(), &wire::null_call(call.xid));
    for _ in 0..300 {
        stage.send(&flood)?;
    }
    // Answered over whatever connection is left.
    let _ = stage.answer(&call);
    stage.succeeds(&files::content())
}

fn adv82_invalidation_of_an_unknown_handle() -> Verdict {
    let (mut stage, call) = reading()?;
    let key = call.lists.write[0][0].key ^ 0x0100_0000;
    let reply = stage.right_reply(&call)?;
    stage.send_as(Verb::SendWithInvalidate(key), &reply)?;
    // The connection is lost, and the READ comes again over the next.
    stage.succeeds(&files::content())?;
    same("connections are more than one", stage.connections > 1, true)
}

fn adv82_invalidation_of_another_rpc_s_handle() -> Verdict {
    let mut stage = Stage::new(stage::read_twice)?;
    let answered = stage.until(procedure::READ)?;
    let other = stage.until(procedure::READ)?;
    let key = other.lists.write.first().ok_or("no Write chunk")?[0].key;
    let reply = stage.right_reply(&answered)?;
    stage.send_as(Verb::SendWithInvalidate(key), &reply)?;
    // The connection is lost, and both come again over the next.
    stage.succeeds(&files::content().repeat(2))?;
    same("connections", stage.connections, 2)
}

fn adv83_invalidation_by_a_malformed_reply() -> Verdict {
    let (mut stage, call) = reading()?;
    let key = call.lists.write[0][0].key;
    let mut malformed = said_to_be_in(&call, right_chunk(&call), &[]);
    malformed[15] = 9;
    stage.send_as(Verb::SendWithInvalidate(key), &malformed)?;
    // The connection may be given up for it. If not, the call can still be answered.
    if let Some(again) = stage.soon()? {
        same("transaction", again.xid, call.xid)?;
        stage.answer(&again)?;
        return stage.succeeds(&files::content());
    }
    stage.send(&failed_read(&call))?;
    let more = stage.gives_up(procedure::READ, |_, call| Ok(failed_read(call)));
    more.map(|_| ())
}

/// The reply to the first READ invalidates its memory.
fn invalidates(private: &[u8]) -> Result<Stage, String> {
    let (mut stage, call) = reading_from(private)?;
    let key = call.lists.write[0][0].key;
    let reply = stage.right_reply(&call)?;
    stage.send_as(Verb::SendWithInvalidate(key), &reply)?;
    stage.succeeds(&files::content())?;
    Ok(stage)
}

fn adv84_invalidation_without_agreement() -> Verdict {
    invalidates(&[]).map(|_| ())
}

fn p01_client_sends_private_data() -> Verdict {
    let mut stage = Stage::new(stage::rest)?;
    let call = stage.until(FIRST)?;
    let private = stage.connection()?.private.get(..5).map(<[u8]>::to_vec);
    same(
        "private data",
        private,
        Some(vec![0xf6, 0xab, 0x0e, 0x18, 1]),
    )?;
    stage.answer(&call)?;
    stage.succeeds(&[])
}

fn one_call_before_the_first_grant() -> Verdict {
    let mut stage = Stage::new(stage::look_around)?;
    // Several at once.
    stage.until(procedure::LOOKUP)?;
    stage.until(procedure::LOOKUP)?;
    stage.disconnect();
    let first = stage.soon()?.ok_or("no call comes again")?;
    stage.is_pending()?;
    stage.answer(&first)?;
    stage.succeeds(&[])?;
    same("connections", stage.connections, 2)
}

/// A server that grants `grant` calls, when two of them were killed before it answered.
fn two_killed(grant: u32) -> Result<(Stage, [Call; 2]), String> {
    let mut stage = Stage::new(stage::list_twice_and_look_around)?;
    stage.grant = grant;
    let mut killed = || {
        let call = stage.until(procedure::READDIR)?;
        stage::kill_lister()?;
        Ok::<_, String>(call)
    };
    let calls = [killed()?, killed()?];
    Ok((stage, calls))
}

fn sec17_late_reply_invalidates_memory_of_a_killed_call() -> Verdict {
    // What the first offered is known by another key since the second.
    let (mut stage, [_, killed]) = two_killed(8)?;
    let chunk = killed.lists.reply.as_ref().ok_or("no Reply chunk")?;
    let reply = late_reply(&killed);
    stage.send_as(Verb::SendWithInvalidate(chunk[0].key), &reply)?;
    stage.succeeds(&[])?;
    same("connections", stage.connections, 1)
}

fn late_reply(call: &Call) -> Vec<u8> {
    call.reply(0, &call.unused(), &wire::reply(call.xid, &[]))
}

fn killed_calls_keep_their_credits() -> Verdict {
    let (mut stage, killed) = two_killed(3)?;
    // Several at once, and one credit is left.
    let first = stage.until(procedure::LOOKUP)?;
    stage.is_pending()?;
    for call in &killed {
        stage.send(&late_reply(call))?;
    }
    let others = [
        stage.until(procedure::LOOKUP)?,
        stage.until(procedure::LOOKUP)?,
    ];
    stage.is_pending()?;
    for call in [first].iter().chain(&others) {
        stage.answer(call)?;
    }
    stage.succeeds(&[])?;
    same("connections", stage.connections, 1)
}

fn grant_below_the_calls_in_flight() -> Verdict {
    let mut stage = Stage::new(stage::look_around)?;
    stage.grant = 3;
    let calls = [
        stage.until(procedure::LOOKUP)?,
        stage.until(procedure::LOOKUP)?,
        stage.until(procedure::LOOKUP)?,
    ];
    stage.grant = 1;
    let [first, second, third] = &calls;
    for call in [first, second] {
        stage.answer(call)?;
        stage.is_pending()?;
    }
    stage.answer(third)?;
    stage.succeeds(&[])?;
    same("connections", stage.connections, 1)
}

fn killed_calls_with_all_credits_end_the_connection() -> Verdict {
    let (mut stage, _) = two_killed(2)?;
    stage.succeeds(&[])?;
    same("connections", stage.connections, 2)
}

fn p10_remote_invalidation_with_agreement() -> Verdict {
    let stage = invalidates(&[0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 0])?;
    same("connections", stage.connections, 1)
}

fn adv104_no_reply() -> Verdict {
    let (mut stage, call) = reading()?;
    // Its time over, the client asks again, but not over this connection.
    let again = stage.until(procedure::READ)?;
    same("transaction", again.xid, call.xid)?;
    same("connections", stage.connections, 2)?;
    stage.answer(&again)?;
    stage.succeeds(&files::content())
}
