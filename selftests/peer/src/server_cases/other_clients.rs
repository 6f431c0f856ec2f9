// SPDX-License-Identifier: GPL-2.0

//! Clients of others: what they send that this project's client does not, and what they take. By reading of libevpl (chimera), of
//! illumos, and of Linux 4.4.

use super::target::target;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::options;
use crate::client::reply_timeout;
use crate::client::Client;
use crate::message::expect_err_chunk;
use crate::message::head;
use crate::message::message;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_MSG;
use crate::message::RDMA_NOMSG;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::Operation;
use crate::verbs::rnr_naks;
use crate::verbs::Access;
use crate::verbs::Options;
use crate::wire::null_call;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

cases![ServerCase:
    illumos_sends_a_burst_before_its_first_reply,
    libevpl_asks_for_one_credit_and_keeps_sixteen_in_flight,
    libevpl_has_messages_of_1024_bytes,
    linux_4_4_takes_the_header_of_each_reply,
];

/// A client that sends no private data, as libevpl does, and has Receives for so many replies.
fn without_private_data(server: SocketAddrV4, receives: usize) -> Result<Client, String> {
    let options = Options {
        private: Vec::new(),
        ..options().with_receives(receives)
    };
    Client::with(server, &options)
}

/// NULL calls that go on until `end`, and their replies.
struct Calls<'a> {
    client: &'a Client,
    /// How many credits each asks for.
    credits: u32,
    in_flight: usize,
    answered: usize,
}

impl<'a> Calls<'a> {
    fn new(client: &'a Client, credits: u32) -> Self {
        Self {
            client,
            credits,
            in_flight: 0,
            answered: 0,
        }
    }

    /// Sends calls until so many are in flight.
    fn fill(&mut self, most: usize) -> Outcome {
        while self.in_flight < most {
            self.client
                .send(&self.client.null_call_asking(self.credits).1)?;
            self.in_flight += 1;
        }
        Ok(())
    }

    /// The next reply, and what it grants.
    fn reply(&mut self) -> Result<usize, String> {
        let reply = self.client.receive()?;
        let [_, _, grant, procedure] = head(&reply.bytes).ok_or("a short reply")?;
        expect_eq("procedure", procedure, RDMA_MSG)?;
        self.in_flight -= 1;
        self.answered += 1;
        Ok(grant as usize)
    }

    /// Keeps so many in flight until `is_over`, of the time from now and of what was granted last, which it returns.
    fn go_on(
        &mut self,
        most: usize,
        is_over: impl Fn(Duration, usize) -> bool,
    ) -> Result<usize, String> {
        let start = Instant::now();
        loop {
            self.fill(most)?;
            let granted = self.reply()?;
            if is_over(start.elapsed(), granted) {
                return Ok(granted);
            }
        }
    }
}

/// It asks for one credit in each call, whatever it was granted, and has as many calls on the way as it likes. After its first second,
/// or later if the server has not had calls enough by then to raise the grant to what it uses, it finds a Receive for each.
// Shows S3.3.1-12, ADV-95.
fn libevpl_asks_for_one_credit_and_keeps_sixteen_in_flight(server: SocketAddrV4) -> Outcome {
    const AT_ONCE: usize = 16;
    let client = without_private_data(server, 64)?;
    let mut calls = Calls::new(&client, 1);
    let before = rnr_naks()?;
    let start = Instant::now();
    calls.go_on(AT_ONCE, |time, granted| {
        let enough = time >= Duration::from_secs(1) && granted >= AT_ONCE;
        enough || time >= Duration::from_secs(30)
    })?;
    let (first, answered, time) = (rnr_naks()?, calls.answered, start.elapsed());
    let granted = calls.go_on(AT_ONCE, |time, _| time >= Duration::from_secs(3))?;
    let later = rnr_naks()?;
    println!(
        "RNR NAKs: {} for {answered} calls in the first {time:?}, then {} for {}; granted {granted}",
        first - before,
        later - first,
        calls.answered - answered,
    );
    expect_eq("RNR NAKs after that", later - first, 0)?;
    expect_eq("as many credits as it uses", granted >= AT_ONCE, true)
}

/// It posts Receives of more, but does not say so: RFC 8166 allows 1,024 bytes then. It never offers a Reply chunk, so a longer result
/// is an error, and a READ needs a Write chunk.
// Shows S3.3.3-09, P-02.
fn libevpl_has_messages_of_1024_bytes(server: SocketAddrV4) -> Outcome {
    let client = without_private_data(server, 8)?;
    let data = client.read(0, 512)?;
    expect_eq("length", data.len(), 512)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[read(0, 2000)]);
    let call = client.inline_call(xid, &ChunkLists::default(), &call.bytes);
    expect_err_chunk(&client.call(&call)?, xid)?;
    let region = target(&client, 2000)?;
    let lists = ChunkLists::with_write(&[&[Segment::all_of(&region)]]);
    client.compound(&lists, &[read(0, 2000)])?;
    expect_eq("data in the chunk", region.bytes(0, 512), data)?;
    client.null_call_succeeds()
}

/// It sends whatever it has until its first reply, when it has connected, and keeps to its credits after that. Its device sends again
/// what finds no Receive; all is answered, and over that connection.
// Shows ADV-95.
fn illumos_sends_a_burst_before_its_first_reply(server: SocketAddrV4) -> Outcome {
    const BURST: usize = 32;
    let client = without_private_data(server, 64)?;
    let mut calls = Calls::new(&client, BURST as u32);
    let (before, start) = (rnr_naks()?, Instant::now());
    calls.fill(BURST)?;
    let mut granted = 0;
    while calls.in_flight > 0 {
        granted = calls.reply()?;
    }
    let (burst, after) = (start.elapsed(), rnr_naks()?);
    // What this machine takes for the same calls without any back-off.
    let start = Instant::now();
    for _ in 0..BURST {
        calls.fill(1)?;
        granted = calls.reply()?;
    }
    let alone = start.elapsed();
    println!(
        "{BURST} calls before the first reply took {burst:?}, with {} RNR NAKs, and {alone:?} one at a time; granted {granted}",
        after - before,
    );
    expect_eq("slow", burst > reply_timeout() / 4 + 4 * alone, false)?;
    let before = rnr_naks()?;
    for _ in 0..50 {
        calls.fill(granted.min(BURST))?;
        granted = calls.reply()?;
    }
    expect_eq("RNR NAKs within its credits", rnr_naks()? - before, 0)
}

/// Fails unless `rpcrdma_reply_handler` of Linux 4.4 takes `message` for a reply, whose call had these `lists`: after an RDMA_MSG without
/// Write list nothing else is there, one Write chunk of the Write list is all that may be, and an RDMA_NOMSG has a Reply chunk alone.
fn linux_4_4_takes(message: &[u8], lists: &ChunkLists) -> Outcome {
    let words: Vec<u32> = message
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")))
        .collect();
    let [_, version, _, procedure, ref chunks @ ..] = words[..] else {
        return Err("a short reply".into());
    };
    expect_eq("version", version, 1)?;
    let offers_chunks = !lists.write.is_empty() || lists.reply.is_some();
    let taken = match (procedure, chunks) {
        (RDMA_MSG, [0, 0, 0, ..]) => true,
        (RDMA_MSG, [0, 1, count, rest @ ..]) => {
            // The end of the Write list, and no Reply chunk.
            offers_chunks
                && rest
                    .get(4 * *count as usize..)
                    .and_then(|rest| rest.get(..2))
                    == Some(&[0, 0][..])
        }
        (RDMA_NOMSG, [0, 0, 1, ..]) => offers_chunks,
        _ => false,
    };
    expect_eq(&format!("{words:x?} is taken"), taken, true)
}

/// It announces Receives of 4 KiB, or nothing, and offers a Reply chunk or one Write chunk when a result may be long.
// Shows S4.3.3-03.
fn linux_4_4_takes_the_header_of_each_reply(server: SocketAddrV4) -> Outcome {
    for client in [without_private_data(server, 8)?, Client::new(server)?] {
        let region = client.region(8192, Access::Both)?;
        let segment = Segment::all_of(&region);
        let none = ChunkLists::default();
        let write = ChunkLists::with_write(&[&[segment]]);
        let reply = ChunkLists::with_reply(Some(vec![segment]));
        let whole = [read(0, 4096)];
        let part = [read(0, 100)];
        let failing = [Operation::ReadWithBadStateid];
        let compounds: [(&ChunkLists, &[Operation<'_>]); 8] = [
            (&none, &part),
            (&write, &whole),
            (&write, &part),
            (&write, &failing),
            (&reply, &whole),
            (&reply, &part),
            (&reply, &failing),
            (&reply, &[Operation::Readlink]),
        ];
        for (lists, operations) in compounds {
            linux_4_4_takes(&client.compound(lists, operations)?.bytes, lists)?;
        }
        for lists in [&none, &write, &reply] {
            let xid = client.xid();
            let call = message(xid, 32, RDMA_MSG, lists, &null_call(xid));
            linux_4_4_takes(&client.call(&call)?.bytes, lists)?;
        }
    }
    Ok(())
}
