// SPDX-License-Identifier: GPL-2.0

//! Messages that the Responder refuses or drops before it accesses any memory, each with the exact
//! answer.
//!
//! The host tests pass them to the crate; the crafted peer (selftests/peer) sends them to a server.
//! A comment `Shows ...` is about the peer's case; the host tests have comments of their own.

use super::golden;
use super::wire::*;

/// A message and its answer.
pub struct Case {
    /// The number of its row in the conformance table, ADV-01 and so on.
    pub number: u32,
    /// The bytes of the Send.
    pub message: Vec<u8>,
    /// The answer, with [`GRANT`] as its credits; none if the message is dropped.
    pub answer: Option<Vec<u8>>,
}

/// Returns an RDMA_MSG with these words for the chunk fields, followed by a NULL Call.
pub fn msg(lists: &[u32]) -> Vec<u8> {
    message(0, lists, &null_call(XID))
}

/// Returns an RDMA_MSG with these read segments, followed by a WRITE Call.
pub fn write(read: &[(u32, u32, u32)], count: u32) -> Vec<u8> {
    message(0, &read_list(read), &write_call(XID, count))
}

/// Returns an RDMA_NOMSG with these read segments.
pub fn nomsg(read: &[(u32, u32, u32)]) -> Vec<u8> {
    message(1, &read_list(read), &[])
}

/// Returns the words of three chunk fields with a Read list only.
pub fn read_list(read: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut words = Vec::new();
    for (position, handle, length) in read {
        words.extend([1, *position]);
        words.extend(hloo(*handle, *length));
    }
    words.extend([0, 0, 0]);
    words
}

/// Returns the words of three chunk fields with a Write list and perhaps a Reply chunk.
pub fn write_list(chunks: &[&[(u32, u32)]], reply: Option<&[(u32, u32)]>) -> Vec<u32> {
    let mut words = vec![0];
    for chunk in chunks {
        words.push(1);
        words.extend(counted(chunk));
    }
    words.push(0);
    match reply {
        Some(chunk) => {
            words.push(1);
            words.extend(counted(chunk));
        }
        None => words.push(0),
    }
    words
}

fn counted(chunk: &[(u32, u32)]) -> Vec<u32> {
    let mut words = vec![u32::try_from(chunk.len()).unwrap()];
    for (handle, length) in chunk {
        words.extend(hloo(*handle, *length));
    }
    words
}

/// Returns `message` with another version.
fn versed(mut message: Vec<u8>, version: u32) -> Vec<u8> {
    message[4..8].copy_from_slice(&version.to_be_bytes());
    message
}

/// Returns `message`, cut off or filled with zeros.
fn sized(mut message: Vec<u8>, length: usize) -> Vec<u8> {
    message.resize(length, 0);
    message
}

/// Returns a segment of `length` bytes, 16 bytes before the end of all addresses: in the Read list,
/// in the Write list, as Reply chunk.
pub fn near_the_end(length: u32) -> [Vec<u8>; 3] {
    let (h, l, o, p) = (7, length, u32::MAX, 0xFFFF_FFF0);
    [
        message(0, &[1, 96, h, l, o, p, 0, 0, 0], &write_call(XID, l)),
        message(0, &[0, 1, 1, h, l, o, p, 0, 0], &null_call(XID)),
        message(0, &[0, 0, 1, 1, h, l, o, p], &null_call(XID)),
    ]
}

/// Returns chunks of four bytes, one right behind the other from Position 96 on.
pub fn neighbours(count: u32) -> Vec<(u32, u32, u32)> {
    (0..count).map(|at| (96 + at * 4, at, 4)).collect()
}

struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, number: u32, message: Vec<u8>, answer: Option<Vec<u8>>) {
        self.0.push(Case {
            number,
            message,
            answer,
        });
    }

    fn dropped(&mut self, number: u32, messages: impl IntoIterator<Item = Vec<u8>>) {
        for message in messages {
            self.add(number, message, None);
        }
    }

    fn refused(&mut self, number: u32, messages: impl IntoIterator<Item = Vec<u8>>) {
        for message in messages {
            self.add(number, message, Some(words([XID, 1, GRANT, 4, 2])));
        }
    }

    fn unknown_version(&mut self, number: u32, message: Vec<u8>) {
        let version = u32::from_be_bytes(message[4..8].try_into().unwrap());
        self.add(
            number,
            message,
            Some(words([XID, version, GRANT, 4, 1, 1, 1])),
        );
    }
}

/// Returns all of them.
pub fn cases() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    fixed_words(&mut cases);
    lists(&mut cases);
    payloads(&mut cases);
    cases.0
}

fn fixed_words(cases: &mut Cases) {
    let null = || hex(golden::GV11);
    // Shows S4.5-02, ADV-01.
    cases.dropped(1, [vec![]]);
    // Shows S4.5-02, SEC-22, ADV-02.
    cases.dropped(2, [1, 3, 4, 7, 15].map(|length| sized(null(), length)));
    // Shows S4.5-02, ADV-03.
    cases.dropped(3, [words([XID, 1, 32, 0])]);
    // Shows S4.5-02, ADV-04.
    cases.dropped(4, [words([XID, 1, 32, 0, 0]), words([XID, 1, 32, 0, 0, 0])]);
    // Shows S4.5-02, ADV-05.
    cases.dropped(5, [sized(hex(golden::GV01), 27)]);
    // Shows S4.2.4-02, S4.5-05, ADV-06.
    cases.refused(6, [hex(golden::GV01)]);
    for version in [0, 2, 255, u32::MAX] {
        // Shows S4.5-06, S4.5.1-01, ADV-07.
        cases.unknown_version(7, versed(null(), version));
    }
    // Shows S4.5.1-01, ADV-08.
    cases.unknown_version(8, versed(null(), 1_u32.swap_bytes()));
    // Shows S4.5.1-02, ADV-09.
    cases.unknown_version(9, words([XID, 2, 0, 9, 0xdead_beef, 7, 8, 9]));
    for procedure in [5, 0x8000_0000, u32::MAX] {
        // Shows S4.5-03, S4.5.2-02, ADV-10.
        cases.refused(10, [message(procedure, &[0, 0, 0], &null_call(XID))]);
    }
    // Shows S4.6.1-02, ADV-11.
    cases.refused(11, [message(2, &[4, 1024, 0, 0, 0], &null_call(XID))]);
    let done = words([XID, 1, 32, 3]);
    // Shows S4.1.2-09, S4.6.2-02, ADV-12.
    cases.dropped(12, [16, 28, 64].map(|length| sized(done.clone(), length)));
    for code in [1, 2, 99] {
        let error = words([XID, 1, 32, 4, code]);
        // Shows S3.3.1-19, S4.2.4-09, ADV-13.
        cases.dropped(13, (20..=64).map(|length| sized(error.clone(), length)));
    }
    // Shows S4.2.4-10, ADV-14.
    cases.dropped(14, [words([XID, 2, 32, 4, 2, 0, 0])]);
}

fn lists(cases: &mut Cases) {
    let mut presence = vec![2, 0];
    presence.extend(hloo(1, 4096));
    presence.extend([0, 0, 0]);
    // Shows S4.1.2-02, S4.5-03, S4.5.2-01, ADV-17.
    cases.refused(17, [msg(&presence)]);
    // Shows S4.1.2-02, ADV-18.
    cases.refused(18, [msg(&[0, u32::MAX, 0, 0, 0])]);
    // Shows S4.1.2-02, ADV-19.
    cases.refused(19, [msg(&[0, 0, 2, 0])]);
    // The first segment ends at byte 40, the lists at byte 52.
    let whole = write(&[(96, 1, 4096)], 4096);
    // Shows S3.3.1-19, S4.5.2-01, ADV-20.
    cases.dropped(20, (0..28).map(|length| sized(whole.clone(), length)));
    cases.refused(20, (28..40).map(|length| sized(whole.clone(), length)));
    // Shows S4.5.2-01, ADV-21.
    cases.refused(21, (40..52).map(|length| sized(whole.clone(), length)));
    let mut lists = write_list(&[&[(1, 100), (2, 100)]], None);
    lists[2] = 3;
    // Shows S4.5-03, S4.5.2-01, ADV-22.
    cases.refused(22, [message(0, &lists, &[])]);
    let mut lists = write_list(&[], Some(&[(1, 100)]));
    lists[3] = 2;
    cases.refused(22, [message(0, &lists, &[])]);
    for count in [0x1000_0000, 0x1000_0001, 0x0800_0000, u32::MAX] {
        // Shows S4.5.2-01, SEC-21, ADV-23.
        cases.refused(23, [msg(&[0, 1, count, 0, 0]), msg(&[0, 0, 1, count])]);
    }
    let positions = [1, 2, 3, 97, u32::MAX];
    // Shows S3.4.5-04, ADV-28.
    cases.refused(28, positions.map(|at| write(&[(at, 1, 4096)], 4096)));
    let positions = [100, 96 + 4096 + 4, 0x7FFF_FFFC];
    // Shows ADV-29.
    cases.refused(29, positions.map(|at| write(&[(at, 1, 4096)], 4096)));
    // Shows ADV-30.
    cases.refused(30, [write(&[(96, 1, 4096), (100, 2, 4096)], 4096)]);
    // Shows S6.1-06, S6.1-07, S8.2.2-01, ADV-31.
    cases.refused(31, [4, 20, 36].map(|at| write(&[(at, 1, 64)], 4096)));
    let (gib, half) = (1 << 30, 1 << 31);
    // Shows S3.4.4-03, S8.1.4-01, SEC-21, ADV-41.
    cases.refused(41, [write(&[(96, 1, gib)], gib)]);
    cases.refused(41, [write(&[(96, 1, half), (96, 2, half)], 0)]);
    cases.refused(41, [write(&[(96, 1, u32::MAX); 41], 0)]);
    // Shows SEC-21, ADV-42.
    cases.refused(42, near_the_end(0x20));
    // Shows ADV-111.
    cases.refused(111, [write(&neighbours(17), 4)]);
    let mut empty_at_the_end = neighbours(16);
    empty_at_the_end.push((96 + 16 * 4, 17, 0));
    cases.refused(111, [write(&empty_at_the_end, 4)]);
    let mut long = neighbours(16);
    long.insert(8, (0, 17, 96));
    cases.refused(111, [nomsg(&long)]);
}

fn payloads(cases: &mut Cases) {
    // Shows S4.2.1-02, S4.5.2-02, ADV-24.
    cases.refused(24, [message(0, &[0, 0, 0], &null_call(7))]);
    // Shows S4.2.4-05, S4.5.2-02, ADV-25.
    cases.refused(25, [nomsg(&[])]);
    // Shows S4.2.4-06, ADV-26.
    cases.refused(26, [message(1, &write_list(&[], Some(&[(1, 4096)])), &[])]);
    cases.refused(26, [message(1, &write_list(&[&[(1, 4096)]], None), &[])]);
    cases.refused(26, [nomsg(&[(96, 1, 4096)])]);
    let mut trailing = nomsg(&[(0, 1, 4096)]);
    trailing.extend([0; 40]);
    // Shows ADV-27.
    cases.refused(27, [trailing]);
    // Shows ADV-36.
    cases.refused(36, [write(&[(0, 1, 4096)], 4096)]);
    // Shows ADV-37.
    cases.refused(
        37,
        [
            nomsg(&[(0, 1, 0)]),
            nomsg(&[(0, 1, 0), (0, 2, 0), (0, 3, 0)]),
        ],
    );
    // Shows ADV-38.
    cases.refused(38, [4, 8, 20].map(|length| nomsg(&[(0, 1, length)])));
    // Shows S3.5.3-09, ADV-39.
    cases.refused(39, [nomsg(&[(0, 1, 41)])]);
    // Shows ADV-106.
    cases.dropped(106, [message(0, &[0, 0, 0], &reply(XID, &[]))]);
    for direction in [2, u32::MAX] {
        let mut call = null_call(XID);
        call[4..8].copy_from_slice(&direction.to_be_bytes());
        // Shows ADV-107.
        cases.refused(107, [message(0, &[0, 0, 0], &call)]);
    }
}
