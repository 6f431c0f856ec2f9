// SPDX-License-Identifier: GPL-2.0

//! A session of NFSv4.1, in which the client says how long a reply may be.

use super::bench::head;
use super::bench::inline;
use super::bench::same;
use super::bench::Bench;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::calls::cases;
use super::nfs;
use super::nfs::Operation;
use super::verbs::Access;
use super::wire::words;
use std::cell::Cell;
use std::net::SocketAddrV4;

cases![pages_of_a_file_are_not_written_to];

const PUTROOTFH: u32 = 24;
const LOOKUP: u32 = 15;
const READ: u32 = 25;
const EXCHANGE_ID: u32 = 42;
const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;

const REP_TOO_BIG: u32 = 10066;

/// A session with one slot.
struct Session<'a> {
    bench: &'a Bench,
    id: [u32; 4],
    sequence: Cell<u32>,
}

impl<'a> Session<'a> {
    /// One whose replies have at most `longest` bytes.
    fn new(bench: &'a Bench, longest: u32) -> Result<Self, String> {
        let owner = bench.xid();
        // Verifier, name, flags, no protection of state, nothing about the implementation.
        let exchange = words([EXCHANGE_ID, owner, owner, 4, owner, 0, 0, 0]);
        let reply = ask(bench, 1, &exchange)?;
        let [high, low, sequence] = of_single(&reply, EXCHANGE_ID)?;
        let mut create = words([CREATE_SESSION, high, low, sequence, 0]);
        // Of either channel: padding, longest call and reply, longest reply to keep, operations, calls,
        // nothing about RDMA.
        create.extend(words([0, 4096, longest, 1024, 16, 1, 0]));
        create.extend(words([0, 4096, 4096, 0, 2, 1, 0]));
        // A program to call, without credentials.
        create.extend(words([0x4000_0000, 1, 0]));
        let reply = ask(bench, 1, &create)?;
        Ok(Self {
            bench,
            id: of_single(&reply, CREATE_SESSION)?,
            sequence: Cell::new(0),
        })
    }

    /// Reads `count` bytes of the file, and does something more. How that went in all.
    fn read_and_more(&self, count: u32) -> Result<u32, String> {
        self.sequence.set(self.sequence.get() + 1);
        let mut operations = words([SEQUENCE]);
        operations.extend(words(self.id));
        operations.extend(words([self.sequence.get(), 0, 0, 0, PUTROOTFH, LOOKUP]));
        nfs::opaque(&mut operations, nfs::FILE.as_bytes(), 0);
        operations.extend(words([READ, 0, 0, 0, 0, 0, 0, count, PUTROOTFH]));
        let [status] = head(&ask(self.bench, 5, &operations)?).ok_or("a short reply")?;
        Ok(status)
    }
}

/// Sends a compound of so many operations. Its results.
fn ask(bench: &Bench, count: u32, operations: &[u8]) -> Result<Vec<u8>, String> {
    let xid = bench.xid();
    // AUTH_SYS of root on a machine without a name; no tag, NFSv4.1.
    let mut call = words([
        xid, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, count,
    ]);
    call.extend(operations);
    let reply = bench.ask(&bench.message(xid, 0, &Lists::default(), &call))?;
    let (_, payload) = inline(&reply.bytes)?;
    same("header", head(payload), Some([xid, 1, 0, 0, 0, 0]))?;
    Ok(payload[24..].to_vec())
}

/// The first words of the result of the only operation, which went well.
fn of_single<const N: usize>(results: &[u8], operation: u32) -> Result<[u32; N], String> {
    same("results", head(results), Some([0, 0, 1, operation, 0]))?;
    head(&results[20..]).ok_or_else(|| "a short result".into())
}

/// A READ that leaves no room for what follows it is taken back, and with it nfsd forgets that it has put
/// pages of the file where replies are written.
fn pages_of_a_file_are_not_written_to(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let before = bench.read(0, 3000)?;
    let session = Session::new(&bench, 40_000)?;
    let read = |offset, count| Operation::Read { offset, count };
    // So often that each thread had its turn.
    for _ in 0..32 {
        same("status", session.read_and_more(65_536)?, REP_TOO_BIG)?;
        // Not spliced, as there are two, so this is written to the thread's pages.
        let chunk = bench.connection.region(65_536, Access::Write);
        let chunk = chunk.map_err(|error| error.to_string())?;
        let lists = Lists {
            reply: Some(vec![Segment::of(&chunk, 0, chunk.len())]),
            ..Lists::default()
        };
        bench.compound(&lists, &[read(45_056, 20_000), read(0, 4)])?;
        bench.holds(0, &before)?;
    }
    Ok(())
}
