// SPDX-License-Identifier: GPL-2.0

//! Credits (RFC 8166, section 3.3.1): how many calls the client has in flight.

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::kernel_client;
use crate::message::ChunkLists;
use crate::nfs3;
use crate::nfs3::procedure;
use crate::server::Call;
use crate::server::Server;
use crate::server::FIRST_PROCEDURE;
use crate::verbs::Verb;
use crate::wire;
use crate::wire::words;

cases![ClientCase:
    adv61_grant_of_a_dropped_reply_is_ignored,
    adv72_zero_and_maximum_grants,
    one_call_before_the_first_grant,
    calls_without_a_reply_leave_the_other_credits,
    calls_that_lack_memory_regions_get_more_without_a_reply,
    grant_below_the_calls_in_flight,
    killed_calls_keep_their_credits,
    malformed_replies_to_killed_calls_free_their_credits,
    sec17_late_reply_invalidates_memory_of_a_killed_call,
    killed_calls_with_all_credits_end_the_connection,
];

// Shows S3.3.3-05, ADV-61.
fn adv61_grant_of_a_dropped_reply_is_ignored() -> Outcome {
    let mut server = Server::new(kernel_client::look_up_names)?;
    server.grant = 1;
    // The client has more LOOKUPs to send when it has more credits.
    let call = server.serve_until(procedure::LOOKUP)?;
    let xid = call.xid ^ 0x8000_0000;
    let mut unknown = words([xid, 1, 32, 0, 0, 0, 0]);
    unknown.extend(wire::reply(xid, &[]));
    let malformed = call.message(9, &ChunkLists::default(), &[]);
    for message in [unknown, malformed] {
        server.send(&message)?;
        server.client_waits()?;
    }
    server.reply(&call)?;
    server.client_succeeds(&[])?;
    server.has_connected(1)
}

/// The client has resources for fewer calls at first, and gets more though no reply comes.
// Shows S3.3.1-06.
fn calls_without_a_reply_leave_the_other_credits() -> Outcome {
    use kernel_client::PART;
    use kernel_client::PARTS;
    let mut server = Server::new(kernel_client::read_in_parts)?;
    let calls = calls_without_a_reply(&mut server, procedure::READ, PARTS)?;
    for call in &calls {
        server.reply(call)?;
    }
    server.client_succeeds(&nfs3::content()[..PART * PARTS])?;
    server.has_connected(1)
}

/// Each of them offers a Reply chunk for head, pages and tail, so the memory regions that the client
/// has at first are enough for a few. All replies to other calls come before.
// Shows S3.3.1-06.
fn calls_that_lack_memory_regions_get_more_without_a_reply() -> Outcome {
    use kernel_client::LINKS;
    let mut server = Server::new(kernel_client::read_links)?;
    server.grant = 128;
    let calls = calls_without_a_reply(&mut server, procedure::READLINK, LINKS)?;
    for call in &calls {
        let several = call.reply_chunk()?.len() > 1;
        expect_eq("several segments", several, true)?;
        server.reply(call)?;
    }
    server.client_succeeds(nfs3::TARGET.repeat(LINKS).as_bytes())?;
    server.has_connected(1)
}

/// So many calls of `procedure`, all of which come over one connection before there is a reply to any.
fn calls_without_a_reply(
    server: &mut Server,
    procedure: u32,
    count: usize,
) -> Result<Vec<Call>, String> {
    let mut calls = vec![server.serve_until(procedure)?];
    while calls.len() < count {
        match server.next_call(kernel_client::client_timeout())? {
            Some(call) if call.procedure == procedure => calls.push(call),
            Some(call) => server.reply(&call)?,
            None => return Err(format!("no more than {} calls come", calls.len())),
        }
    }
    server.has_connected(1)?;
    Ok(calls)
}

// Shows S3.3.1-05, S3.3.1-06, S4.3.3-03, ADV-72.
fn adv72_zero_and_maximum_grants() -> Outcome {
    for grant in [0, u32::MAX] {
        let mut server = Server::new(kernel_client::read)?;
        let call = server.serve_until(FIRST_PROCEDURE)?;
        let mut reply = server.correct_reply(&call)?;
        reply[8..12].copy_from_slice(&u32::to_be_bytes(grant));
        server.send(&reply)?;
        let next = server.serve_until(procedure::READ)?;
        expect_eq("requested credits", next.credits, call.credits)?;
        server.reply(&next)?;
        server.client_succeeds(&nfs3::content())?;
        server.has_connected(1)?;
    }
    Ok(())
}

// Shows S3.3.3-03, S3.3.3-04.
fn one_call_before_the_first_grant() -> Outcome {
    let mut server = Server::new(kernel_client::look_up_names)?;
    // Two of four that the client has to send.
    server.serve_until(procedure::LOOKUP)?;
    server.serve_until(procedure::LOOKUP)?;
    server.disconnect();
    let first = server.call_again()?.ok_or("no call comes again")?;
    server.client_waits()?;
    server.reply(&first)?;
    server.client_succeeds(&[])?;
    server.has_connected(2)
}

// Shows S3.3.1-03, S3.3.1-10.
fn grant_below_the_calls_in_flight() -> Outcome {
    let mut server = Server::new(kernel_client::look_up_names)?;
    server.grant = 3;
    let calls = [
        server.serve_until(procedure::LOOKUP)?,
        server.serve_until(procedure::LOOKUP)?,
        server.serve_until(procedure::LOOKUP)?,
    ];
    server.grant = 1;
    let [first, second, third] = &calls;
    for call in [first, second] {
        server.reply(call)?;
        server.client_waits()?;
    }
    server.reply(third)?;
    server.client_succeeds(&[])?;
    server.has_connected(1)
}

/// A server that grants so many credits, and two READDIRs whose callers were killed before a reply.
fn two_killed_calls(grant: u32) -> Result<(Server, [Call; 2]), String> {
    let mut server = Server::new(kernel_client::list_in_processes_and_look_up)?;
    server.grant = grant;
    let mut killed = || {
        let call = server.serve_until(procedure::READDIR)?;
        kernel_client::kill_list_process()?;
        Ok::<_, String>(call)
    };
    let calls = [killed()?, killed()?];
    Ok((server, calls))
}

/// A reply to a call that nobody waits for.
fn late_reply(call: &Call) -> Vec<u8> {
    call.inline_reply(&call.unused_lists(), &wire::reply(call.xid, &[]))
}

// Shows S3.3.1-03, S3.3.1-16.
fn killed_calls_keep_their_credits() -> Outcome {
    late_replies_free_credits(late_reply)
}

/// As many as a connection survives.
// Shows S3.3.1-16.
fn malformed_replies_to_killed_calls_free_their_credits() -> Outcome {
    late_replies_free_credits(|call| call.message(9, &ChunkLists::default(), &[]))
}

/// Calls that were killed keep their credits until there is the late `reply` to them.
fn late_replies_free_credits(reply: impl Fn(&Call) -> Vec<u8>) -> Outcome {
    let (mut server, killed) = two_killed_calls(3)?;
    // The client has four LOOKUPs to send, and one credit.
    let first = server.serve_until(procedure::LOOKUP)?;
    server.client_waits()?;
    for call in &killed {
        server.send(&reply(call))?;
    }
    let others = [
        server.serve_until(procedure::LOOKUP)?,
        server.serve_until(procedure::LOOKUP)?,
    ];
    server.client_waits()?;
    for call in [first].iter().chain(&others) {
        server.reply(call)?;
    }
    server.client_succeeds(&[])?;
    server.has_connected(1)
}

// Shows S8.1.4-06, SEC-17, SEC-30.
fn sec17_late_reply_invalidates_memory_of_a_killed_call() -> Outcome {
    // The second: the memory of the first has got another handle since.
    let (mut server, [_, killed]) = two_killed_calls(8)?;
    let handle = killed.reply_chunk()?[0].handle;
    let reply = late_reply(&killed);
    server.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    server.client_succeeds(&[])?;
    server.has_connected(1)
}

// Shows S3.3.1-16, N-17.
fn killed_calls_with_all_credits_end_the_connection() -> Outcome {
    let (mut server, _) = two_killed_calls(2)?;
    server.client_succeeds(&[])?;
    server.has_connected(2)
}
