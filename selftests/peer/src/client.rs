// SPDX-License-Identifier: GPL-2.0

//! The crafted client: a connection to the server under test, and what every case does with it.

use crate::case::expect_eq;
use crate::case::Outcome;
use crate::hostile::Case;
use crate::message::expect_err_chunk;
use crate::message::expect_message;
use crate::message::expect_null_reply;
use crate::message::head;
use crate::message::hex_words;
use crate::message::message;
use crate::message::parse_inline;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_ERROR;
use crate::message::RDMA_MSG;
use crate::message::RDMA_NOMSG;
use crate::nfs4;
use crate::nfs4::Operation;
use crate::timeout::scaled;
use crate::verbs::Access;
use crate::verbs::Connection;
use crate::verbs::Message;
use crate::verbs::Options;
use crate::verbs::Region;
use crate::wire;
use std::cell::Cell;
use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::net::SocketAddrV4;
use std::time::Duration;

/// How long a reply may take. Emulated machines are slow.
pub fn reply_timeout() -> Duration {
    scaled(Duration::from_secs(10))
}

/// How long to wait for a message that must not come.
fn quiet_period() -> Duration {
    scaled(Duration::from_millis(150))
}

/// Credits that each call asks for.
const CREDITS: u32 = 32;

/// The CM private data of a client with 4 KiB both ways. It does not agree to remote invalidation:
/// devices allow that for memory windows only, when the memory is a process's.
pub const PRIVATE_DATA: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3];

/// Options of a connection with [`PRIVATE_DATA`].
pub fn options() -> Options {
    Options {
        private: PRIVATE_DATA.to_vec(),
        ..Options::default()
    }
}

/// The first XID, less one. No other client is likely to use one near it.
fn random_xid() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

/// A client with one connection.
pub struct Client {
    /// The connection.
    pub connection: Connection,
    xid: Cell<u32>,
}

impl Client {
    /// Connects with `options`.
    pub fn with(server: SocketAddrV4, options: &Options) -> Result<Self, String> {
        let connection = Connection::connect(server, options);
        let connection = connection.map_err(|error| format!("cannot connect: {error}"))?;
        let client = Self {
            connection,
            xid: Cell::new(random_xid()),
        };
        Ok(client)
    }

    /// Connects with `options`, and makes a NULL call.
    pub fn ready_with(server: SocketAddrV4, options: &Options) -> Result<Self, String> {
        let client = Self::with(server, options)?;
        client.null_call_succeeds()?;
        Ok(client)
    }

    /// Connects with [`options`], and makes a NULL call.
    pub fn new(server: SocketAddrV4) -> Result<Self, String> {
        Self::ready_with(server, &options())
    }

    /// A new XID.
    pub fn xid(&self) -> u32 {
        self.xid.set(self.xid.get().wrapping_add(1));
        self.xid.get()
    }

    /// Memory of `length` bytes that the server may use as `access` says.
    pub fn region(&self, length: usize, access: Access) -> Result<Region, String> {
        let region = self.connection.region(length, access);
        region.map_err(|error| error.to_string())
    }

    /// Memory with these bytes that the server may use as `access` says.
    pub fn region_with(&self, bytes: &[u8], access: Access) -> Result<Region, String> {
        let region = self.region(bytes.len(), access)?;
        region.put(0, bytes);
        Ok(region)
    }

    /// A NULL call that asks for this many credits, and its XID.
    pub fn null_call_asking(&self, credits: u32) -> (u32, Vec<u8>) {
        let xid = self.xid();
        let lists = ChunkLists::default();
        let call = message(xid, credits, RDMA_MSG, &lists, &wire::null_call(xid));
        (xid, call)
    }

    /// From now on, when all that was sent has arrived, the device ignores all that the server sends. An error if the server has
    /// refused something by then, and so does not wait for this client.
    pub fn falls_silent(&self) -> Outcome {
        let silent = self.connection.flush();
        let silent = silent.and_then(|()| self.connection.fall_silent());
        silent.map_err(|error| error.to_string())?;
        while let Some(reply) = self.connection.receive(Duration::ZERO) {
            if let Some([_, _, _, RDMA_ERROR]) = head(&reply.bytes) {
                return Err(format!("refused: {}", hex_words(&reply.bytes)));
            }
        }
        Ok(())
    }

    /// Asks the server to write all of `region` at `offset` of the file, which it reads by RDMA.
    pub fn send_long_write(&self, offset: u32, region: &Region) -> Outcome {
        let xid = self.xid();
        let length = u32::try_from(region.len()).map_err(|error| error.to_string())?;
        let call = nfs4::compound(xid, &[nfs4::write_reduced(offset, length)]);
        let lists = ChunkLists::with_read_segment(call.positions[0], Segment::all_of(region));
        self.send(&self.inline_call(xid, &lists, &call.bytes))
    }

    /// A Call with its RPC message inline.
    pub fn inline_call(&self, xid: u32, lists: &ChunkLists, payload: &[u8]) -> Vec<u8> {
        message(xid, CREDITS, RDMA_MSG, lists, payload)
    }

    /// A Call whose RPC message is in a Position Zero Read chunk of `lists`.
    pub fn long_call(&self, xid: u32, lists: &ChunkLists) -> Vec<u8> {
        message(xid, CREDITS, RDMA_NOMSG, lists, &[])
    }

    /// A NULL call, and its XID.
    pub fn null_call(&self) -> (u32, Vec<u8>) {
        let xid = self.xid();
        let call = wire::null_call(xid);
        (xid, self.inline_call(xid, &ChunkLists::default(), &call))
    }

    /// Sends a message.
    pub fn send(&self, message: &[u8]) -> Outcome {
        let sent = self.connection.send(message);
        sent.map_err(|error| format!("cannot send: {error}"))
    }

    /// The next message.
    pub fn receive(&self) -> Result<Message, String> {
        self.receive_within(reply_timeout())
    }

    /// As [`Self::receive`], with a timeout.
    pub fn receive_within(&self, timeout: Duration) -> Result<Message, String> {
        match self.connection.receive(timeout) {
            Some(message) => Ok(message),
            None => Err(match self.connection.lost() {
                Some(reason) => format!("the connection is lost: {reason}"),
                None => "no reply".into(),
            }),
        }
    }

    /// Sends a message and returns the next one that arrives.
    pub fn call(&self, message: &[u8]) -> Result<Message, String> {
        self.send(message)?;
        self.receive()
    }

    /// Expects a reply to a NULL call, and no other message before.
    pub fn null_call_succeeds(&self) -> Outcome {
        let (xid, call) = self.null_call();
        expect_null_reply(&self.call(&call)?, xid)
    }

    /// Expects that no message arrives.
    fn nothing_arrives(&self) -> Outcome {
        match self.connection.receive(quiet_period()) {
            Some(message) => Err(format!("unsolicited: {}", hex_words(&message.bytes))),
            None => Ok(()),
        }
    }

    /// Expects for each message the reply that its row has, and that the connection is still in use.
    pub fn gets_replies<'a>(&self, cases: impl Iterator<Item = &'a Case>) -> Outcome {
        for case in cases {
            let run = || {
                self.send(&case.message)?;
                if let Some(answer) = &case.answer {
                    expect_message(&self.receive()?, answer)?;
                }
                self.null_call_succeeds()
            };
            run().map_err(|error| format!("{}: {error}", hex_words(&case.message)))?;
        }
        self.nothing_arrives()
    }

    /// Expects ERR_CHUNK for `message`, and that the connection is still in use.
    pub fn gets_err_chunk(&self, message: &[u8]) -> Outcome {
        let [xid] = head(message).expect("a header");
        expect_err_chunk(&self.call(message)?, xid)?;
        self.null_call_succeeds()
    }

    /// Expects that the server ends the connection.
    pub fn loses_connection(&self) -> Outcome {
        if self.connection.is_lost_within(reply_timeout()) {
            return Ok(());
        }
        Err("the connection is not lost".into())
    }

    /// Sends a compound in an inline Call with `lists`, and returns what arrives next.
    pub fn compound(
        &self,
        lists: &ChunkLists,
        operations: &[Operation<'_>],
    ) -> Result<Message, String> {
        let xid = self.xid();
        let call = nfs4::compound(xid, operations);
        self.call(&self.inline_call(xid, lists, &call.bytes))
    }

    /// Reads from the file without chunks.
    pub fn read(&self, offset: u32, count: u32) -> Result<Vec<u8>, String> {
        let lists = ChunkLists::default();
        let reply = self.compound(&lists, &[nfs4::read(offset, count)])?;
        let (_, payload) = parse_inline(&reply.bytes)?;
        nfs4::Results::new(payload)?.read().map(<[u8]>::to_vec)
    }

    /// Expects `data` at `offset` in the file.
    pub fn file_has(&self, offset: u32, data: &[u8]) -> Outcome {
        let count = u32::try_from(data.len()).expect("short data");
        expect_eq("the file", self.read(offset, count)?, data.to_vec())
    }
}
