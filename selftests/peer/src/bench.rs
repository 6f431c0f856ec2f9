// SPDX-License-Identifier: GPL-2.0

//! A connection to the server under test, and what every case does with it.

use super::hostile::Case;
use super::nfs;
use super::nfs::Operation;
use super::pace::here;
use super::verbs::Connection;
use super::verbs::Message;
use super::verbs::Options;
use super::verbs::Region;
use super::verbs::Window;
use super::wire;
use super::wire::words;
use std::cell::Cell;
use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Nothing wrong, or what is.
pub type Verdict = Result<(), String>;

/// How long an answer may take. Emulated machines are slow.
pub fn patience() -> Duration {
    here(Duration::from_secs(10))
}

/// How long nothing must come to be taken for silence.
fn silence() -> Duration {
    here(Duration::from_millis(150))
}

/// The private data of a client with 4 KiB both ways. Its memory may not be invalidated: devices
/// allow that for memory windows only, when the memory is a process's.
pub const PRIVATE: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3];

/// Memory named in a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Its key.
    pub key: u32,
    /// Its length.
    pub length: u32,
    /// Its address.
    pub address: u64,
}

impl Segment {
    /// All of a window.
    pub fn through(window: &Window) -> Self {
        Self {
            key: window.key,
            ..Self::of(window.region(), 0, window.region().len())
        }
    }

    /// `length` bytes of `region` from `offset` on. They need not be inside.
    pub fn of(region: &Region, offset: usize, length: usize) -> Self {
        Self {
            key: region.key(),
            length: u32::try_from(length).expect("a segment below 4 GiB"),
            address: region.address() + offset as u64,
        }
    }

    /// Made of the next four words.
    pub fn parse(word: &mut impl FnMut() -> Option<u32>) -> Option<Self> {
        let (key, length) = (word()?, word()?);
        let address = (u64::from(word()?) << 32) | u64::from(word()?);
        Some(Self {
            key,
            length,
            address,
        })
    }

    fn words(self) -> [u32; 4] {
        [
            self.key,
            self.length,
            (self.address >> 32) as u32,
            self.address as u32,
        ]
    }
}

/// The three chunk fields of a header.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Position and segment.
    pub read: Vec<(u32, Segment)>,
    /// Chunks of segments.
    pub write: Vec<Vec<Segment>>,
    /// The Reply chunk.
    pub reply: Option<Vec<Segment>>,
}

impl Lists {
    /// As words.
    pub fn words(&self) -> Vec<u32> {
        let mut words = Vec::new();
        for (position, segment) in &self.read {
            words.extend([1, *position]);
            words.extend(segment.words());
        }
        words.push(0);
        for chunk in &self.write {
            words.push(1);
            counted(&mut words, chunk);
        }
        words.push(0);
        words.push(self.reply.is_some().into());
        if let Some(chunk) = &self.reply {
            counted(&mut words, chunk);
        }
        words
    }
}

fn counted(words: &mut Vec<u32>, chunk: &[Segment]) {
    words.push(u32::try_from(chunk.len()).expect("few segments"));
    words.extend(chunk.iter().flat_map(|segment| segment.words()));
}

/// The first `N` words of a message.
pub fn head<const N: usize>(message: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(message.get(..4 * N)?.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Bytes as words, for messages to people.
pub fn shown(bytes: &[u8]) -> String {
    let words = bytes.chunks(4).map(|chunk| {
        let digits = chunk.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Wants `got` to be `expected`.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Verdict {
    if got == expected {
        return Ok(());
    }
    let cut = |text: String| text.chars().take(300).collect::<String>();
    let (got, expected) = (cut(format!("{got:x?}")), cut(format!("{expected:x?}")));
    Err(format!("{what}: {got}, not {expected}"))
}

/// Where a client begins to number its calls. No other is likely to be near.
fn anywhere() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

/// A connection as client.
pub struct Bench {
    /// The connection.
    pub connection: Connection,
    xid: Cell<u32>,
}

impl Bench {
    /// Connects with `options`, and makes the first call.
    pub fn with(server: SocketAddrV4, options: &Options) -> Result<Self, String> {
        let connection = Connection::connect(server, options);
        let connection = connection.map_err(|error| format!("cannot connect: {error}"))?;
        let bench = Self {
            connection,
            xid: Cell::new(anywhere()),
        };
        Ok(bench)
    }

    /// A connection of the usual kind, over which one call went well.
    pub fn new(server: SocketAddrV4) -> Result<Self, String> {
        let options = Options {
            private: PRIVATE.to_vec(),
            ..Options::default()
        };
        let bench = Self::with(server, &options)?;
        bench.survives()?;
        Ok(bench)
    }

    /// A number for a transaction.
    pub fn xid(&self) -> u32 {
        self.xid.set(self.xid.get().wrapping_add(1));
        self.xid.get()
    }

    /// A message of `procedure` with these chunks.
    pub fn message(&self, xid: u32, procedure: u32, lists: &Lists, payload: &[u8]) -> Vec<u8> {
        let mut message = words([xid, 1, 32, procedure]);
        message.extend(words(lists.words()));
        message.extend(payload);
        message
    }

    /// Sends a message.
    pub fn send(&self, message: &[u8]) -> Verdict {
        let sent = self.connection.send(message);
        sent.map(|_| ())
            .map_err(|error| format!("cannot send: {error}"))
    }

    /// The next message.
    pub fn hear(&self) -> Result<Message, String> {
        self.hear_within(patience())
    }

    /// As [`Self::hear`], for one that may take so long.
    pub fn hear_within(&self, timeout: Duration) -> Result<Message, String> {
        match self.connection.receive(timeout) {
            Some(message) => Ok(message),
            None => Err(match self.connection.lost() {
                Some(reason) => format!("the connection is lost: {reason}"),
                None => "no answer".into(),
            }),
        }
    }

    /// Sends a message and gives the next one that comes.
    pub fn ask(&self, message: &[u8]) -> Result<Message, String> {
        self.send(message)?;
        self.hear()
    }

    /// A NULL call is answered, and nothing else comes before.
    pub fn survives(&self) -> Verdict {
        let xid = self.xid();
        let call = self.message(xid, 0, &Lists::default(), &wire::null_call(xid));
        is_null_reply(&self.ask(&call)?, xid)
    }

    /// Nothing comes any more.
    pub fn is_silent(&self) -> Verdict {
        match self.connection.receive(silence()) {
            Some(message) => Err(format!("came unasked: {}", shown(&message.bytes))),
            None => Ok(()),
        }
    }

    /// Each message gets the answer that stands beside it, and the connection survives.
    pub fn answers<'a>(&self, cases: impl Iterator<Item = &'a Case>) -> Verdict {
        for case in cases {
            let judge = || {
                self.send(&case.message)?;
                if let Some(answer) = &case.answer {
                    is_answer(&self.hear()?, answer)?;
                }
                self.survives()
            };
            judge().map_err(|error| format!("{}: {error}", shown(&case.message)))?;
        }
        self.is_silent()
    }

    /// `message` is refused with ERR_CHUNK, and the connection survives.
    pub fn refuses(&self, message: &[u8]) -> Verdict {
        let [xid] = head(message).expect("a header");
        is_err_chunk(&self.ask(message)?, xid)?;
        self.survives()
    }

    /// The connection is lost.
    pub fn loses(&self) -> Verdict {
        if self.connection.is_lost_within(patience()) {
            return Ok(());
        }
        Err("the connection lasts".into())
    }

    /// Sends a compound in an inline message with `lists`, and gives what comes back.
    pub fn compound(&self, lists: &Lists, operations: &[Operation<'_>]) -> Result<Message, String> {
        let xid = self.xid();
        let call = nfs::compound(xid, operations);
        self.ask(&self.message(xid, 0, lists, &call.bytes))
    }

    /// Reads from the file without any chunk.
    pub fn read(&self, offset: u32, count: u32) -> Result<Vec<u8>, String> {
        let reply = self.compound(&Lists::default(), &[Operation::Read { offset, count }])?;
        let (_, payload) = inline(&reply.bytes)?;
        nfs::Results::new(payload)?.read().map(<[u8]>::to_vec)
    }

    /// The file holds `data` at `offset`.
    pub fn holds(&self, offset: u32, data: &[u8]) -> Verdict {
        let count = u32::try_from(data.len()).expect("short data");
        same("the file", self.read(offset, count)?, data.to_vec())
    }
}

/// Wants a reply to NULL.
pub fn is_null_reply(message: &Message, xid: u32) -> Verdict {
    let mut expected = words([xid, 1, wire::GRANT, 0, 0, 0, 0]);
    expected.extend(wire::reply(xid, &[]));
    is_answer(message, &expected)
}

/// Wants this answer, whatever its credits are, as long as there are some.
pub fn is_answer(message: &Message, expected: &[u8]) -> Verdict {
    let mut got = message.bytes.clone();
    let Some(credits) = got.get_mut(8..12) else {
        return Err(format!("too short: {}", shown(&got)));
    };
    if credits == [0; 4] {
        return Err("a grant of nothing".into());
    }
    credits.copy_from_slice(&wire::GRANT.to_be_bytes());
    same("answer", shown(&got), shown(expected))?;
    same("invalidation", message.invalidates, None)
}

/// Wants an ERR_CHUNK for this transaction.
pub fn is_err_chunk(message: &Message, xid: u32) -> Verdict {
    is_answer(message, &words([xid, 1, wire::GRANT, 4, 2]))
}

/// The chunk fields, as words, and the payload of an inline message.
pub fn inline(message: &[u8]) -> Result<(Vec<u32>, &[u8]), String> {
    let (procedure, lists, payload) = split(message)?;
    same("procedure", procedure, 0)?;
    Ok((lists, payload))
}

/// Procedure, chunk fields and payload of a reply.
pub fn split(message: &[u8]) -> Result<(u32, Vec<u32>, &[u8]), String> {
    let broken = || format!("no reply: {}", shown(message));
    let [_, 1, 1..=u32::MAX, procedure @ (0 | 1)] = head(message).ok_or_else(broken)? else {
        return Err(broken());
    };
    let word = |index: usize| {
        let bytes = message.get(4 * index..4 * index + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let end = || {
        // Behind the Read list, which is empty.
        let mut at = 5;
        if word(4)? != 0 {
            return None;
        }
        while word(at)? == 1 {
            at += 2 + 4 * word(at + 1)? as usize;
        }
        at += 1;
        Some(match word(at)? {
            0 => at + 1,
            _ => at + 2 + 4 * word(at + 1)? as usize,
        })
    };
    let end = end().ok_or_else(broken)?;
    let lists = (4..end).map_while(word).collect();
    Ok((procedure, lists, message.get(4 * end..).ok_or_else(broken)?))
}
