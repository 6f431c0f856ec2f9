// SPDX-License-Identifier: GPL-2.0

//! An upper layer: one argument and one result that are DDP-eligible, and others that are not.
//!
//! Call: RPC header, length of the result wanted, length of the rest wanted, argument, four octets.
//! Reply: RPC header, presence word and perhaps the result, rest.

use proto::plan::Argument;
use proto::rpc::CallHeader;
use proto::xdr::roundup;

use super::choices::Choices;

const RPCSEC_GSS: u32 = 6;
const GSS_INTEGRITY: u32 = 2;

/// A request of the upper layer.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub xid: u32,
    /// Set if RPCSEC_GSS protects it.
    pub protected: bool,
    pub argument: usize,
    /// Longest result.
    pub result: usize,
    /// Set if the server answers with an error, that is without a result.
    pub fails: bool,
    /// Bytes of the reply that are not DDP-eligible.
    pub rest: usize,
}

impl Request {
    pub fn new(choices: &mut impl Choices, xid: u32) -> Self {
        Self {
            xid,
            protected: choices.one_in(5),
            argument: length(choices),
            result: length(choices),
            fails: choices.one_in(6),
            rest: roundup(length(choices) / 4),
        }
    }

    /// Returns the whole Call.
    pub fn call(&self) -> Vec<u8> {
        let mut call = Vec::with_capacity(128 + self.argument);
        put_words(&mut call, &[self.xid, 0, 2, 100_003, 3, 1]);
        if self.protected {
            put_words(&mut call, &[RPCSEC_GSS, 16, 1, 0, 1, GSS_INTEGRITY]);
        } else {
            put_words(&mut call, &[0, 0]);
        }
        put_words(&mut call, &[0, 0, word(self.result), u32::from(self.fails)]);
        put_words(&mut call, &[word(self.rest), word(self.argument)]);
        call.extend_from_slice(bytes(self.xid, self.argument));
        call.resize(roundup(call.len()), 0);
        call.extend_from_slice(&[0xEE; 4]);
        call
    }

    /// Returns the range of the argument in the whole Call: behind the header, three words and its
    /// own count word.
    pub fn argument(&self) -> Argument {
        let header = if self.protected { 56 } else { 40 };
        Argument {
            position: header + 16,
            length: self.argument,
        }
    }

    /// Parses a whole Call.
    pub fn parse(call: &[u8]) -> (Self, Argument) {
        let header = CallHeader::parse(call).unwrap();
        let at = |index: usize| {
            let at = header.length + 4 * index;
            u32::from_be_bytes(call[at..at + 4].try_into().unwrap())
        };
        let request = Self {
            xid: u32::from_be_bytes(call[..4].try_into().unwrap()),
            protected: !header.reduction,
            result: usize::try_from(at(0)).unwrap(),
            fails: at(1) == 1,
            rest: usize::try_from(at(2)).unwrap(),
            argument: usize::try_from(at(3)).unwrap(),
        };
        (request, request.argument())
    }

    /// Returns the length of the longest reply.
    pub fn max_reply(&self) -> usize {
        24 + 4 + 4 + roundup(self.result) + self.rest
    }

    /// Returns the part of the reply before the result, the result, and the part behind it.
    pub fn reply(&self) -> (Vec<u8>, Option<&'static [u8]>, &'static [u8]) {
        let mut head = Vec::with_capacity(64 + self.result + self.rest);
        put_words(
            &mut head,
            &[self.xid, 1, 0, 0, 0, 0, u32::from(!self.fails)],
        );
        let rest = bytes(self.xid ^ 0x55, self.rest);
        if self.fails {
            return (head, None, rest);
        }
        put_words(&mut head, &[word(self.result)]);
        (head, Some(bytes(!self.xid, self.result)), rest)
    }
}

/// Returns a length: mostly short, sometimes long, with any remainder.
fn length(choices: &mut impl Choices) -> usize {
    match choices.below(4) {
        0 => 0,
        1 => choices.below(16),
        2 => choices.below(1024),
        _ => choices.below(6000),
    }
}

/// Returns bytes that differ from their neighbours and from those of another seed.
fn bytes(seed: u32, length: usize) -> &'static [u8] {
    // A table, because a fuzzer follows every loop.
    const NOISE: [u8; 8192] = {
        let mut noise = [0; 8192];
        let mut state: u32 = 1;
        let mut at = 0;
        while at < noise.len() {
            state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            noise[at] = state.to_be_bytes()[0];
            at += 1;
        }
        noise
    };
    static TABLE: [u8; 8192] = NOISE;
    let start = usize::try_from(seed % 2003).unwrap();
    &TABLE[start..start + length]
}

pub fn put_words(into: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        into.extend_from_slice(&word.to_be_bytes());
    }
}

fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}
