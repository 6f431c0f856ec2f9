// SPDX-License-Identifier: GPL-2.0

//! Entries of Send Queues and Receive Queues, as a process writes them: from the C header, not from
//! the crate `uabi`.

/// Lengths in octets.
pub const SQE_LEN: usize = 120;
pub const RQE_LEN: usize = 112;

/// Flags.
pub const VALID: u16 = 1;
pub const INLINE: u16 = 2;
pub const SIGNALLED: u16 = 4;

/// Opcodes.
pub const WRITE: u8 = 0;
pub const READ: u8 = 1;
pub const SEND: u8 = 3;
pub const RECEIVE: u8 = 8;

/// An entry of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sge {
    pub address: u64,
    pub length: u32,
    pub lkey: u32,
}

impl Sge {
    fn words(self) -> [u64; 2] {
        [
            self.address,
            u64::from(self.length) | u64::from(self.lkey) << 32,
        ]
    }
}

fn head(flags: u16, count: u8, opcode: u8, stag: u32) -> u64 {
    u64::from(flags) | u64::from(count) << 16 | u64::from(opcode) << 24 | u64::from(stag) << 32
}

fn list(words: &mut [u64], sges: &[Sge]) {
    for (to, sge) in words.chunks_mut(2).zip(sges) {
        to.copy_from_slice(&sge.words());
    }
}

/// Any request with a list, signalled.
pub fn request(id: u64, opcode: u8, sges: &[Sge]) -> [u64; 15] {
    let mut words = [0; 15];
    words[0] = id;
    words[1] = head(VALID | SIGNALLED, sges.len() as u8, opcode, 0);
    list(&mut words[3..], sges);
    words
}

/// An RDMA Write or Read, of memory of the peer.
pub fn rdma(id: u64, opcode: u8, sges: &[Sge], stag: u32, offset: u64) -> [u64; 15] {
    let mut words = request(id, opcode, sges);
    words[1] = head(VALID | SIGNALLED, sges.len() as u8, opcode, stag);
    words[2] = offset;
    words
}

/// A Send of octets in the entry itself, signalled.
pub fn inline(id: u64, octets: &[u8]) -> [u64; 15] {
    let mut words = [0; 15];
    words[0] = id;
    words[1] = head(VALID | SIGNALLED | INLINE, 1, SEND, 0);
    words[4] = octets.len() as u64;
    for (word, octets) in words[5..].iter_mut().zip(octets.chunks(8)) {
        let mut padded = [0; 8];
        padded[..octets.len()].copy_from_slice(octets);
        *word = u64::from_ne_bytes(padded);
    }
    words
}

/// A Receive.
pub fn receive(id: u64, sges: &[Sge]) -> [u64; 14] {
    let mut words = [0; 14];
    words[0] = id;
    words[1] = u64::from(VALID) | (sges.len() as u64) << 16;
    list(&mut words[2..], sges);
    words
}
