// SPDX-License-Identifier: GPL-2.0

//! The operations to be measured, each as one function that is not inlined.

use proto::call::{self, Policy};
use proto::chunk::{Limits, ReadSegment, Segment};
use proto::header::{Body, Call};
use proto::reply::{self, Offer};
use proto::reply_builder::ReplyBuilder;

const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 32,
        write_chunks: 1,
        segments: 16,
    },
    max_read_bytes: 1 << 20,
    reverse: false,
};

const SEGMENT: Segment = Segment {
    handle: 0x1101,
    length: 4096,
    offset: 0x1_0000_0000,
};

const PLAIN: Call<'_> = Call {
    xid: 0xa1b2_c3d4,
    credits: 32,
    body: Body::Msg,
    read: &[],
    write: &[],
    reply: None,
};

/// A Call that offers one Write chunk of one segment: NFS READ.
pub const ONE_CHUNK: Call<'_> = Call {
    write: &[&[SEGMENT]],
    ..PLAIN
};

/// A Call with a Read list of two segments: NFS WRITE.
pub const TWO_READS: Call<'_> = Call {
    read: &[
        ReadSegment {
            position: 96,
            segment: SEGMENT,
        },
        ReadSegment {
            position: 96,
            segment: SEGMENT,
        },
    ],
    ..PLAIN
};

/// The offer that the Requester compares the reply to [`ONE_CHUNK`] with.
pub const OFFER: Offer<'_> = Offer {
    write: ONE_CHUNK.write,
    reply: None,
};

/// The whole Send of a Call whose RPC message is an NFSv3 header and filler.
pub fn send(call: &Call<'_>) -> Vec<u8> {
    let mut message = vec![0; call.wire_len()];
    call.emit(&mut message).unwrap();
    let words: [u32; 24] = [
        0xa1b2_c3d4,
        0,
        2,
        100_003,
        3,
        7,
        0,
        0,
        0,
        0,
        32,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        0,
        0,
        4096,
        2,
        4096,
    ];
    message.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    message
}

/// The whole Send of the reply to a Call like [`ONE_CHUNK`].
pub fn reply_to(message: &[u8]) -> Vec<u8> {
    let Ok(call::Incoming::Call(call)) = call::parse(message, &POLICY) else {
        panic!("not a Call");
    };
    let answer = ReplyBuilder::new(&call, &[4096], 128, 4096).unwrap();
    let mut reply = vec![0; answer.wire_len()];
    answer.emit(32, &mut reply).unwrap();
    reply.extend(0xa1b2_c3d4_u32.to_be_bytes());
    reply.extend(1_u32.to_be_bytes());
    reply.extend([0; 120]);
    reply
}

#[inline(never)]
pub fn encode_call(call: &Call<'_>, out: &mut [u8]) -> usize {
    call.emit(out).unwrap_or(0)
}

/// Parses the chunk fields alone, without a decision on them.
#[inline(never)]
pub fn decode_lists(message: &[u8]) -> usize {
    let mut reader = proto::xdr::Reader::new(message);
    let prefix = proto::header::Prefix::parse(&mut reader);
    let lists = proto::chunk::Lists::parse(&mut reader, &POLICY.limits);
    match (prefix, lists) {
        (Ok(_), Ok(lists)) => lists.write.len(),
        _ => usize::MAX,
    }
}

/// Takes all decisions of a Responder on the bytes of a Call.
#[inline(never)]
pub fn decode_call(message: &[u8]) -> bool {
    call::parse(message, &POLICY).is_ok()
}

/// Takes all decisions of a Requester on the bytes of a reply and its offer.
#[inline(never)]
pub fn decode_reply(message: &[u8], offer: &Offer<'_>) -> usize {
    match reply::parse(message) {
        Ok(reply::Incoming::Reply(reply)) => {
            reply.check(offer).map_or(0, |outcome| outcome.written_len)
        }
        _ => 0,
    }
}

/// Writes the header of the reply to a Call that was decoded.
#[inline(never)]
pub fn encode_reply(call: &call::Call<'_>, written: &[u64], out: &mut [u8]) -> usize {
    ReplyBuilder::new(call, written, 128, 4096)
        .map_or(0, |answer| answer.emit(32, out).unwrap_or(0))
}

/// Returns the Call in a Send.
pub fn parsed(message: &[u8]) -> call::Call<'_> {
    match call::parse(message, &POLICY) {
        Ok(call::Incoming::Call(call)) => call,
        other => panic!("{other:?}"),
    }
}
