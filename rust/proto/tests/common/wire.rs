// SPDX-License-Identifier: GPL-2.0

//! Bytes as they are on the wire, made without the crate under test.
//!
//! The crafted peer (selftests/peer) makes its messages with the same functions.

/// The transaction of most messages.
pub const XID: u32 = 0xa1b2_c3d4;

/// The credits that the Responder of these tests grants.
pub const GRANT: u32 = 16;

/// Returns the bytes of big-endian words.
pub fn words(words: impl AsRef<[u32]>) -> Vec<u8> {
    let words = words.as_ref().iter();
    words.flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the bytes written as hexadecimal digits.
pub fn hex(digits: &str) -> Vec<u8> {
    let words = digits.split_whitespace();
    words
        .flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes())
        .collect()
}

/// Returns the four words of a segment at an offset that is derived from its handle.
pub fn hloo(handle: u32, length: u32) -> [u32; 4] {
    [handle, length, handle, 0]
}

/// Returns an NFSv3 NULL Call, 40 bytes.
pub fn null_call(xid: u32) -> Vec<u8> {
    words([xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])
}

/// Returns an NFSv3 WRITE Call without its data: 96 bytes, AUTH_NONE, a file handle of 32 bytes.
pub fn write_call(xid: u32, count: u32) -> Vec<u8> {
    let mut call = words([xid, 0, 2, 100_003, 3, 7, 0, 0, 0, 0]);
    call.extend(words([32]));
    call.extend([0xF4; 32]);
    call.extend(words([0, 0, count, 2, count]));
    call
}

/// Returns an accepted reply with `words` as its result.
pub fn reply(xid: u32, result: &[u32]) -> Vec<u8> {
    let mut reply = words([xid, 1, 0, 0, 0, 0]);
    reply.extend(words(result));
    reply
}

/// Returns a version-1 header with these words behind the fixed ones, followed by `payload`.
pub fn message(procedure: u32, rest: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut message = words([XID, 1, 32, procedure]);
    message.extend(words(rest));
    message.extend(payload);
    message
}
