// SPDX-License-Identifier: GPL-2.0

//! Any bytes to a Requester: whatever passes its check is no more than was offered.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use proto::chunk::Segment;
use proto::reply::{parse, Incoming, Offer};

fuzz_target!(|message: &[u8]| {
    let parsed = parse(message);
    assert_eq!(parsed, parse(message));
    let reply = match parsed {
        Ok(Incoming::Reply(reply)) => reply,
        Ok(Incoming::ReverseCall(call)) => {
            assert!(message.ends_with(call.payload));
            return;
        }
        _ => return,
    };
    assert!(message.ends_with(reply.payload));

    // An offer that the reply may just keep to: what it names, filled up.
    let chunk =
        |segments: proto::chunk::Segments<'_>| -> Vec<Segment> { segments.iter().collect() };
    let write: Vec<Vec<Segment>> = reply.write.iter().map(chunk).collect();
    let mut write: Vec<&[Segment]> = write.iter().map(|chunk| &chunk[..]).collect();
    let reply_chunk = reply.reply.map(chunk);
    let offer = Offer {
        write: &write,
        reply: reply_chunk.as_deref(),
    };
    if let Ok(outcome) = reply.check(&offer) {
        let room = |chunks: &[&[Segment]]| -> u64 {
            let segments = chunks.iter().copied().flatten();
            segments.map(|segment| u64::from(segment.length)).sum()
        };
        assert_eq!(u64::try_from(outcome.written_len), Ok(room(offer.write)));
        let chunk: Vec<&[Segment]> = offer.reply.into_iter().collect();
        assert_eq!(u64::try_from(outcome.reply_chunk_len), Ok(room(&chunk)));
        assert_eq!(outcome.inline, reply.payload);
    }
    // With one segment more offered in each chunk, those were not used.
    let unused = Segment {
        handle: 7,
        length: 7,
        offset: 7,
    };
    let longer = |chunk: &[Segment]| [chunk, &[unused]].concat();
    let longer_write: Vec<_> = write.iter().map(|chunk| longer(chunk)).collect();
    let longer_write: Vec<&[Segment]> = longer_write.iter().map(|chunk| &chunk[..]).collect();
    let longer_reply = reply_chunk.as_deref().map(longer);
    let longer_offer = Offer {
        write: &longer_write,
        reply: longer_reply.as_deref(),
    };
    assert_eq!(reply.check(&longer_offer), reply.check(&offer));
    // One chunk less, and it cannot be right.
    if write.pop().is_some() {
        let fewer = Offer {
            write: &write,
            reply: reply_chunk.as_deref(),
        };
        assert!(reply.check(&fewer).is_err());
    }
});
