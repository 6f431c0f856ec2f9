// SPDX-License-Identifier: GPL-2.0

//! The crafted server, which the kernel's client mounts.
//!
//! A thread mounts, carries out one workload and unmounts; the main thread is the server. A case lets
//! the server reply correctly up to the call of interest.

use crate::case::expect_eq;
use crate::case::Outcome;
use crate::kernel_client::client_timeout;
use crate::kernel_client::with_mount;
use crate::kernel_client::MountPoint;
use crate::kernel_client::Workload;
use crate::message::hex_words;
use crate::message::message;
use crate::message::with_written_lengths;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_MSG;
use crate::message::RDMA_NOMSG;
use crate::nfs3;
use crate::timeout::scaled;
use crate::verbs::Access;
use crate::verbs::Connection;
use crate::verbs::Listener;
use crate::verbs::Options;
use crate::verbs::Region;
use crate::verbs::Verb;
use crate::verbs::SUCCESS;
use crate::wire;
use std::cell::Cell;
use std::env;
use std::io;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

/// Where MOUNT is served over TCP.
const MOUNT_PORT: u16 = 20051;

/// The first server.
const FIRST_MOUNT: MountPoint = MountPoint {
    port: 20050,
    mount_port: MOUNT_PORT,
    directory: "/mnt/peer",
};

/// The second server: with another port, the client uses another transport.
const SECOND_MOUNT: MountPoint = MountPoint {
    port: 20052,
    mount_port: MOUNT_PORT,
    directory: "/mnt/peer2",
};

/// How long to wait for a call that must not come.
fn quiet_period() -> Duration {
    scaled(Duration::from_millis(400))
}

/// The inline threshold in either direction without private data.
const INLINE_THRESHOLD: usize = 1024;

/// The credits that the server grants, if a case does not choose.
const GRANT: u32 = 32;

/// A call of the client.
pub struct Call {
    /// The XID.
    pub xid: u32,
    /// The credits that it asks for.
    pub credits: u32,
    /// The procedure of NFSv3.
    pub procedure: u32,
    /// The chunks that it offers.
    pub lists: ChunkLists,
    arguments: Vec<u8>,
}

impl Call {
    fn parse(message: &[u8]) -> Option<Self> {
        let mut rest = message;
        let mut word = || {
            let (word, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u32::from_be_bytes(*word))
        };
        let (xid, 1, credits, RDMA_MSG) = (word()?, word()?, word()?, word()?) else {
            return None;
        };
        let mut lists = ChunkLists::default();
        while word()? == 1 {
            lists.read.push((word()?, Segment::parse(&mut word)?));
        }
        while word()? == 1 {
            let segments = (0..word()?).map(|_| Segment::parse(&mut word));
            lists.write.push(segments.collect::<Option<_>>()?);
        }
        if word()? == 1 {
            let segments = (0..word()?).map(|_| Segment::parse(&mut word));
            lists.reply = Some(segments.collect::<Option<_>>()?);
        }
        let rpc = [word()?, word()?, word()?, word()?, word()?];
        if rpc != [xid, 0, 2, 100_003, 3] {
            return None;
        }
        let procedure = word()?;
        for _credential_and_verifier in 0..2 {
            word()?;
            for _ in 0..word()?.div_ceil(4) {
                word()?;
            }
        }
        Some(Self {
            xid,
            credits,
            procedure,
            lists,
            arguments: rest.to_vec(),
        })
    }

    /// The offered chunks as a reply returns them that uses none: with lengths of zero.
    pub fn unused_lists(&self) -> ChunkLists {
        let unused = |chunk: &Vec<Segment>| with_written_lengths(chunk, 0);
        ChunkLists {
            read: Vec::new(),
            write: self.lists.write.iter().map(unused).collect(),
            reply: self.lists.reply.as_ref().map(unused),
        }
    }

    /// An inline reply with these chunk lists and this Payload stream.
    pub fn inline_reply(&self, lists: &ChunkLists, payload: &[u8]) -> Vec<u8> {
        self.message(RDMA_MSG, lists, payload)
    }

    /// A message with the XID of this call.
    pub fn message(&self, procedure: u32, lists: &ChunkLists, payload: &[u8]) -> Vec<u8> {
        message(self.xid, GRANT, procedure, lists, payload)
    }

    /// The correct reply: the Payload stream without its DDP-eligible data, and these data.
    pub fn reduced_reply(&self) -> (Vec<u8>, Vec<u8>) {
        let results = nfs3::call(self.procedure, &self.arguments);
        let mut payload = wire::reply(self.xid, &[]);
        payload.extend(results.inline);
        (payload, results.data.unwrap_or_default())
    }

    /// A reply to a READ with NFS3ERR_IO in place of data.
    pub fn failed_reply(&self) -> Vec<u8> {
        let payload = wire::reply(self.xid, &[5, 0]);
        self.inline_reply(&self.unused_lists(), &payload)
    }

    /// The first segment of the first Write chunk.
    pub fn write_segment(&self) -> Result<Segment, String> {
        let segment = self.lists.write.first().and_then(|chunk| chunk.first());
        segment.copied().ok_or_else(|| "no Write chunk".into())
    }

    /// The Reply chunk.
    pub fn reply_chunk(&self) -> Result<&[Segment], String> {
        match self.lists.reply.as_deref() {
            None | Some([]) => Err("no Reply chunk".into()),
            Some(chunk) => Ok(chunk),
        }
    }
}

/// The crafted server, and the thread with the kernel's client.
pub struct Server {
    listener: Listener,
    options: Options,
    /// The connection; there is one from the first call on.
    connection: Option<Connection>,
    /// How many connections the client has made.
    pub connections: usize,
    /// The credits that correct replies grant.
    pub grant: u32,
    outcome: mpsc::Receiver<io::Result<Vec<u8>>>,
}

impl Server {
    /// Has the client mount and carry out `workload`.
    pub fn new(workload: Workload) -> Result<Self, String> {
        Self::with_private_data(workload, &[])
    }

    /// As [`Self::new`], with the server's CM private data.
    pub fn with_private_data(workload: Workload, private: &[u8]) -> Result<Self, String> {
        Self::at(FIRST_MOUNT, workload, private)
    }

    /// As [`Self::new`], for a second server at the same time.
    pub fn second(workload: Workload) -> Result<Self, String> {
        Self::at(SECOND_MOUNT, workload, &[])
    }

    fn at(mount: MountPoint, workload: Workload, private: &[u8]) -> Result<Self, String> {
        let address = env::var("CLIENT_ADDR").map_err(|_| "CLIENT_ADDR is not set")?;
        let listener = Listener::new(mount.port).map_err(|error| error.to_string())?;
        nfs3::serve_mount(MOUNT_PORT).map_err(|error| error.to_string())?;
        let (sender, outcome) = mpsc::channel();
        std::thread::spawn(move || sender.send(with_mount(&address, mount, workload)));
        let options = Options {
            private: private.to_vec(),
            receives: 256,
            ..Options::default()
        };
        Ok(Self {
            listener,
            options,
            connection: None,
            connections: 0,
            grant: GRANT,
            outcome,
        })
    }

    /// The connection, unless it is lost and the client has made no other.
    pub fn connection(&self) -> Result<&Connection, String> {
        let connection = self.connection.as_ref();
        connection.ok_or_else(|| "there is no connection".into())
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// The next call, over this connection or the next one, if one comes in time. A message that is
    /// no call is an error.
    pub fn next_call(&mut self, timeout: Duration) -> Result<Option<Call>, String> {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            if self.is_lost() {
                self.connection = None;
                let accepted = self
                    .listener
                    .accept(&self.options, Duration::from_millis(100));
                self.connection = accepted.map_err(|error| error.to_string())?;
                self.connections += usize::from(self.connection.is_some());
            } else if let Some(message) = self.connection()?.receive(Duration::from_millis(20)) {
                let call = Call::parse(&message.bytes);
                return match call {
                    Some(call) => Ok(Some(call)),
                    None => Err(format!("no NFSv3 call: {}", hex_words(&message.bytes))),
                };
            }
        }
        Ok(None)
    }

    fn is_lost(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_none_or(|connection| connection.lost().is_some())
    }

    /// The next call, if one comes soon; if the connection is lost, the next call over another one.
    pub fn call_again(&mut self) -> Result<Option<Call>, String> {
        match self.next_call(quiet_period())? {
            None if self.is_lost() => self.next_call(client_timeout()),
            call => Ok(call),
        }
    }

    /// Replies to calls until one to `procedure` comes, and returns that.
    pub fn serve_until(&mut self, procedure: u32) -> Result<Call, String> {
        loop {
            match self.next_call(client_timeout())? {
                Some(call) if call.procedure == procedure => return Ok(call),
                Some(call) => self.reply(&call)?,
                None => {
                    let outcome = self.outcome.try_recv();
                    return Err(format!("procedure {procedure} is not called: {outcome:x?}"));
                }
            }
        }
    }

    /// Sends a message.
    pub fn send(&self, message: &[u8]) -> Outcome {
        self.send_as(Verb::Send, message)
    }

    /// As [`Self::send`], with another verb.
    pub fn send_as(&self, verb: Verb, message: &[u8]) -> Outcome {
        let sent = self.connection()?.send_as(verb, message);
        sent.map_err(|error| format!("cannot send: {error}"))
    }

    /// Memory of the server with these bytes.
    pub fn local_region(&self, bytes: &[u8]) -> Result<Region, String> {
        let region = self.connection()?.region(bytes.len(), Access::Local);
        let region = region.map_err(|error| error.to_string())?;
        region.put(0, bytes);
        Ok(region)
    }

    /// Writes `bytes` to `chunk`. Returns the chunk with the lengths that were written.
    pub fn write_chunk(&self, chunk: &[Segment], bytes: &[u8]) -> Result<Vec<Segment>, String> {
        let written = with_written_lengths(chunk, bytes.len());
        let mut rest = bytes;
        for segment in written.iter().filter(|segment| segment.length > 0) {
            let (part, behind) = rest.split_at(segment.length as usize);
            rest = behind;
            self.can_access(Verb::Write, *segment, &self.local_region(part)?)?;
        }
        expect_eq("bytes that do not fit", rest.len(), 0)?;
        Ok(written)
    }

    /// Carries out `verb` between `local` and the start of a segment. Returns the status.
    pub fn transfer(&self, verb: Verb, remote: Segment, local: &Region) -> Result<u32, String> {
        let status = self
            .connection()?
            .transfer(verb, remote.handle, remote.offset, local);
        status.map_err(|error| error.to_string())
    }

    /// As [`Self::transfer`], and expects that it succeeds.
    pub fn can_access(&self, verb: Verb, remote: Segment, local: &Region) -> Outcome {
        let status = self.transfer(verb, remote, local)?;
        expect_eq("status of access to the client's memory", status, SUCCESS)
    }

    /// The correct reply to `call`, after writing to its chunks.
    pub fn correct_reply(&self, call: &Call) -> Result<Vec<u8>, String> {
        let (mut payload, data) = call.reduced_reply();
        let mut lists = call.unused_lists();
        match call.lists.write.first() {
            Some(chunk) if !data.is_empty() => lists.write[0] = self.write_chunk(chunk, &data)?,
            _ => payload.extend(&data),
        }
        payload.resize(payload.len().next_multiple_of(4), 0);
        let reply = call.inline_reply(&lists, &payload);
        match &call.lists.reply {
            Some(chunk) if reply.len() > INLINE_THRESHOLD => {
                lists.reply = Some(self.write_chunk(chunk, &payload)?);
                Ok(call.message(RDMA_NOMSG, &lists, &[]))
            }
            _ => Ok(reply),
        }
    }

    /// Sends the correct reply to `call`.
    pub fn reply(&self, call: &Call) -> Outcome {
        let mut reply = self.correct_reply(call)?;
        reply[8..12].copy_from_slice(&self.grant.to_be_bytes());
        self.send(&reply)
    }

    /// Expects that the client waits, over the same connection: it makes no call and has not ended.
    pub fn client_waits(&mut self) -> Outcome {
        let before = self.connections;
        if let Some(call) = self.next_call(quiet_period())? {
            return Err(format!("procedure {} is called meanwhile", call.procedure));
        }
        self.has_connected(before)?;
        if self.connection.is_none() {
            return Err("the connection is lost".into());
        }
        match self.outcome.try_recv() {
            Err(mpsc::TryRecvError::Empty) => Ok(()),
            other => Err(format!("the client has ended: {other:x?}")),
        }
    }

    /// Expects that the client has made so many connections.
    pub fn has_connected(&self, times: usize) -> Outcome {
        expect_eq("connections", self.connections, times)
    }

    /// Handles calls with `reply` until the client ends. Returns its outcome.
    fn serve_to_the_end(
        &mut self,
        reply: impl Fn(&Self, &Call) -> Outcome,
    ) -> Result<io::Result<Vec<u8>>, String> {
        let end = Instant::now() + client_timeout();
        while Instant::now() < end {
            if let Ok(outcome) = self.outcome.try_recv() {
                return Ok(outcome);
            }
            if let Some(call) = self.next_call(Duration::from_millis(50))? {
                reply(self, &call)?;
            }
        }
        Err("the client does not end".into())
    }

    /// Replies correctly until the client ends, and expects that its workload returned `expected`.
    pub fn client_succeeds(&mut self, expected: &[u8]) -> Outcome {
        let outcome = self.serve_to_the_end(Self::reply)?;
        let outcome = outcome.map_err(|error| error.to_string());
        expect_eq("outcome", outcome, Ok(expected.to_vec()))
    }

    /// Sends `reply` to each call of `procedure` until the client ends, and expects that its workload
    /// failed. Returns how many such calls there were.
    pub fn client_gives_up(
        &mut self,
        procedure: u32,
        reply: impl Fn(&Self, &Call) -> Result<Vec<u8>, String>,
    ) -> Result<usize, String> {
        let calls = Cell::new(0);
        let outcome = self.serve_to_the_end(|server, call| match call.procedure == procedure {
            true => {
                calls.set(calls.get() + 1);
                server.send(&reply(server, call)?)
            }
            false => server.reply(call),
        })?;
        match outcome {
            Ok(outcome) => Err(format!("the client gets {} bytes", outcome.len())),
            Err(_) => Ok(calls.get()),
        }
    }

    /// As [`Self::client_gives_up`], and expects that there was a call of `procedure`.
    pub fn client_fails(
        &mut self,
        procedure: u32,
        reply: impl Fn(&Self, &Call) -> Result<Vec<u8>, String>,
    ) -> Outcome {
        match self.client_gives_up(procedure, reply)? {
            0 => Err("the client fails before it calls".into()),
            _ => Ok(()),
        }
    }

    /// Expects that the client drops `message`, which is sent in place of the reply to `call`. Sends the
    /// correct reply then.
    pub fn client_drops(&mut self, call: &Call, message: &[u8]) -> Outcome {
        self.send(message)?;
        let waits = self.client_waits();
        waits.map_err(|error| format!("{}: {error}", hex_words(message)))?;
        self.reply(call)
    }
}

/// The first procedure that a mount calls.
pub const FIRST_PROCEDURE: u32 = nfs3::procedure::NULL;
