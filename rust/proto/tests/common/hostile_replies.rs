// SPDX-License-Identifier: GPL-2.0

//! Messages to the Requester that it drops, whatever it waits for: the transaction [`XID`], a Call
//! without chunks.
//!
//! The host tests pass them to the crate; the crafted peer (selftests/peer) sends them to a client.
//! A comment `Shows ...` is about the peer's case; the host tests have comments of their own.

use super::golden;
use super::wire::*;

/// Returns a message with this procedure, whose Reply chunk has these segments.
pub fn in_reply_chunk(procedure: u32, segments: &[[u32; 4]], payload: &[u8]) -> Vec<u8> {
    let mut lists = vec![0, 0, 1, u32::try_from(segments.len()).unwrap()];
    lists.extend(segments.iter().flatten());
    message(procedure, &lists, payload)
}

/// Returns a reply without chunks and without results.
pub fn plain() -> Vec<u8> {
    message(0, &[0, 0, 0], &reply(XID, &[]))
}

/// Returns `message` with another word at this index.
fn with(mut message: Vec<u8>, index: usize, word: u32) -> Vec<u8> {
    message[4 * index..4 * index + 4].copy_from_slice(&word.to_be_bytes());
    message
}

/// Returns `message`, cut off.
fn cut(mut message: Vec<u8>, length: usize) -> Vec<u8> {
    message.truncate(length);
    message
}

/// Returns the messages of case `number`.
pub fn replies(number: u32) -> Vec<Vec<u8>> {
    match number {
        // Shows S4.5-04, ADV-53.
        53 => {
            let mut lists = vec![1, 96];
            lists.extend(hloo(1, 100));
            lists.extend([0, 0, 0]);
            vec![message(0, &lists, &reply(XID, &[]))]
        }
        // Shows ADV-59.
        59 => vec![
            in_reply_chunk(0, &[hloo(1, 100)], &reply(XID, &[])),
            in_reply_chunk(1, &[hloo(1, 100)], &[]),
        ],
        // Shows S4.2.4-02, ADV-60.
        60 => {
            let cut = |length| message(0, &[0, 0, 0], &reply(XID, &[])[..length]);
            [0, 4, 16, 19].map(cut).to_vec()
        }
        // Shows SEC-30, ADV-61.
        61 => vec![with(with(plain(), 0, XID ^ 1), 7, XID ^ 1)],
        // Shows S4.5-04, ADV-63.
        63 => [0, 2].map(|version| with(plain(), 1, version)).to_vec(),
        // Shows S4.2.4-08, S4.5-04, S4.6.1-03, S4.6.2-02, ADV-64.
        64 => {
            let retired = |procedure| message(procedure, &[0, 0, 0], &reply(XID, &[]));
            [2, 3, 5].map(retired).to_vec()
        }
        // Shows S4.5-10, ADV-65.
        65 => [0, 3, u32::MAX]
            .map(|code| message(4, &[code, 1, 1], &[]))
            .to_vec(),
        // Shows S4.5-10, ADV-66.
        66 => vec![
            message(4, &[1], &[]),
            message(4, &[1, 1], &[]),
            hex(golden::GV09),
        ],
        // Shows S4.5-10, ADV-68.
        68 => [16, 19]
            .map(|length| cut(hex(golden::GV10), length))
            .to_vec(),
        // Shows S4.5-05, ADV-69.
        69 => vec![with(hex(golden::GV10), 0, XID ^ 1)],
        // Shows S4.5-06, ADV-70.
        70 => vec![with(hex(golden::GV10), 1, 9)],
        // Shows S4.2.1-02, ADV-73.
        73 => vec![message(0, &[0, 0, 0], &reply(7, &[]))],
        // Shows S4.5-02, ADV-80.
        80 => {
            let header = |procedure| message(procedure, &[0, 0, 0], &[]);
            let runts = |procedure| (16..28).map(move |length| cut(header(procedure), length));
            runts(0).chain(runts(1)).collect()
        }
        // Shows ADV-81.
        81 => [u32::MAX, 0x1000_0000, 0x1000_0001]
            .into_iter()
            .flat_map(|count| {
                [
                    message(0, &[0, 1, count, 0, 0], &reply(XID, &[])),
                    message(0, &[0, 0, 1, count], &reply(XID, &[])),
                ]
            })
            .collect(),
        _ => vec![],
    }
}
