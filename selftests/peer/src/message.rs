// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA messages: chunk lists, and what is in a reply (RFC 8166, section 4).

use crate::case::expect_eq;
use crate::case::Outcome;
use crate::verbs::Message;
use crate::verbs::Region;
use crate::verbs::Window;
use crate::wire;
use crate::wire::words;

/// The RPC message follows the header inline (RFC 8166, section 4.2.4).
pub const RDMA_MSG: u32 = 0;

/// The RPC message is in a Position Zero Read chunk or in the Reply chunk.
pub const RDMA_NOMSG: u32 = 1;

/// The header reports an error.
pub const RDMA_ERROR: u32 = 4;

/// An RDMA segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The handle: an rkey.
    pub handle: u32,
    /// The length in bytes.
    pub length: u32,
    /// The offset: an address.
    pub offset: u64,
}

impl Segment {
    /// All of a memory window.
    pub fn of_window(window: &Window) -> Self {
        Self {
            handle: window.rkey,
            ..Self::all_of(window.region())
        }
    }

    /// All of `region`.
    pub fn all_of(region: &Region) -> Self {
        Self::of(region, 0, region.len())
    }

    /// `length` bytes of `region` from byte `start` on. They need not be inside.
    pub fn of(region: &Region, start: usize, length: usize) -> Self {
        Self {
            handle: region.rkey(),
            length: u32::try_from(length).expect("a segment below 4 GiB"),
            offset: region.address() + start as u64,
        }
    }

    /// The same memory with another length.
    pub fn with_length(self, length: u32) -> Self {
        Self { length, ..self }
    }

    /// Takes the next four words.
    pub fn parse(word: &mut impl FnMut() -> Option<u32>) -> Option<Self> {
        let (handle, length) = (word()?, word()?);
        let offset = (u64::from(word()?) << 32) | u64::from(word()?);
        Some(Self {
            handle,
            length,
            offset,
        })
    }

    fn words(self) -> [u32; 4] {
        [
            self.handle,
            self.length,
            (self.offset >> 32) as u32,
            self.offset as u32,
        ]
    }
}

/// `chunk` as a Responder returns it after it wrote `length` bytes there, or as many as fit.
pub fn with_written_lengths(chunk: &[Segment], mut length: usize) -> Vec<Segment> {
    let written = |segment: &Segment| {
        let taken = length.min(segment.length as usize);
        length -= taken;
        segment.with_length(taken as u32)
    };
    chunk.iter().map(written).collect()
}

/// The chunk lists of a header.
#[derive(Clone, Debug, Default)]
pub struct ChunkLists {
    /// The Read list: Position and segment.
    pub read: Vec<(u32, Segment)>,
    /// The Write list: chunks of segments.
    pub write: Vec<Vec<Segment>>,
    /// The Reply chunk.
    pub reply: Option<Vec<Segment>>,
}

impl ChunkLists {
    /// A Read list.
    pub fn with_read(read: Vec<(u32, Segment)>) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// A Read list of one chunk of one segment.
    pub fn with_read_segment(position: u32, segment: Segment) -> Self {
        Self::with_read(vec![(position, segment)])
    }

    /// A Write list.
    pub fn with_write(chunks: &[&[Segment]]) -> Self {
        Self {
            write: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
            ..Self::default()
        }
    }

    /// A Reply chunk, or none.
    pub fn with_reply(reply: Option<Vec<Segment>>) -> Self {
        Self {
            reply,
            ..Self::default()
        }
    }

    /// The words of the header.
    pub fn words(&self) -> Vec<u32> {
        let mut words = Vec::new();
        for (position, segment) in &self.read {
            words.extend([1, *position]);
            words.extend(segment.words());
        }
        words.push(0);
        for chunk in &self.write {
            words.push(1);
            push_chunk(&mut words, chunk);
        }
        words.push(0);
        words.push(self.reply.is_some().into());
        if let Some(chunk) = &self.reply {
            push_chunk(&mut words, chunk);
        }
        words
    }
}

fn push_chunk(words: &mut Vec<u32>, chunk: &[Segment]) {
    words.push(u32::try_from(chunk.len()).expect("few segments"));
    words.extend(chunk.iter().flat_map(|segment| segment.words()));
}

/// A message of `procedure` with these credits, chunk lists and this inline payload.
pub fn message(
    xid: u32,
    credits: u32,
    procedure: u32,
    lists: &ChunkLists,
    payload: &[u8],
) -> Vec<u8> {
    let mut message = words([xid, 1, credits, procedure]);
    message.extend(words(lists.words()));
    message.extend(payload);
    message
}

/// The first `N` words of a message.
pub fn head<const N: usize>(message: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(message.get(..4 * N)?.chunks_exact(4)) {
        *word = u32::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// Bytes as words in hexadecimal digits, for error messages.
pub fn hex_words(bytes: &[u8]) -> String {
    let words = bytes.chunks(4).map(|chunk| {
        let digits = chunk.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Expects a reply to NULL.
pub fn expect_null_reply(message: &Message, xid: u32) -> Outcome {
    let mut expected = words([xid, 1, wire::GRANT, 0, 0, 0, 0]);
    expected.extend(wire::reply(xid, &[]));
    expect_message(message, &expected)
}

/// Expects this message, with any grant that is not zero, and without remote invalidation.
pub fn expect_message(message: &Message, expected: &[u8]) -> Outcome {
    let mut got = message.bytes.clone();
    let Some(credits) = got.get_mut(8..12) else {
        return Err(format!("too short: {}", hex_words(&got)));
    };
    if credits == [0; 4] {
        return Err("a grant of zero".into());
    }
    credits.copy_from_slice(&wire::GRANT.to_be_bytes());
    expect_eq("reply", hex_words(&got), hex_words(expected))?;
    expect_eq("invalidated handle", message.invalidates, None)
}

/// Expects an RDMA_ERROR with ERR_CHUNK.
pub fn expect_err_chunk(message: &Message, xid: u32) -> Outcome {
    expect_message(message, &words([xid, 1, wire::GRANT, RDMA_ERROR, 2]))
}

/// The chunk lists, as words, and the Payload stream of an RDMA_MSG.
pub fn parse_inline(message: &[u8]) -> Result<(Vec<u32>, &[u8]), String> {
    let (procedure, lists, payload) = parse_reply(message)?;
    expect_eq("procedure", procedure, RDMA_MSG)?;
    Ok((lists, payload))
}

/// Procedure, chunk lists and what follows the header, of a reply.
pub fn parse_reply(message: &[u8]) -> Result<(u32, Vec<u32>, &[u8]), String> {
    let broken = || format!("no reply: {}", hex_words(message));
    let [_, 1, 1..=u32::MAX, procedure @ (RDMA_MSG | RDMA_NOMSG)] =
        head(message).ok_or_else(broken)?
    else {
        return Err(broken());
    };
    let word = |index: usize| {
        let bytes = message.get(4 * index..4 * index + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let end = || {
        // After the Read list, which is empty.
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
