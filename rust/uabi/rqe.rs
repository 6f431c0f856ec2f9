// SPDX-License-Identifier: GPL-2.0

//! Entries of a Receive Queue, shared or not.
//!
//! ```text
//! octets  0-7      work request id
//!         8-9      flags; the last that the process writes
//!         10       number of entries of the list
//!         16-111   list: 6 times address (8), length (4), local key (4)
//! ```

use crate::sg_list::{Refusal, SgList};

/// A request of a Receive Queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rqe {
    /// The id, which the completion returns.
    pub id: u64,
    /// The memory for a message.
    pub list: Result<SgList, Refusal>,
}

impl Rqe {
    /// The number of 64-bit words.
    pub const WORDS: usize = 14;

    /// Decodes a copy of an entry.
    pub fn decode(words: &[u64; Self::WORDS]) -> Self {
        let [id, head, list @ ..] = words;
        let [_, _, count, ..] = head.to_ne_bytes();
        Self {
            id: *id,
            list: SgList::decode(list, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_of_entries_is_read() {
        let mut words = [0; Rqe::WORDS];
        words[0] = 5;
        words[1] = 0x9999_9999_9902_9999;
        words[3] = 10;
        words[5] = 20;
        words[7] = 40;
        let rqe = Rqe::decode(&words);
        assert_eq!(rqe.id, 5);
        assert_eq!(rqe.list.map(|list| list.len()), Ok(30));
        words[1] = 0xff << 16;
        assert_eq!(Rqe::decode(&words).list, Err(Refusal::TooManySges));
    }

    #[test]
    fn a_receive_may_have_no_memory() {
        let rqe = Rqe::decode(&[0; Rqe::WORDS]);
        assert!(rqe.list.is_ok_and(|list| list.is_empty()));
    }
}
