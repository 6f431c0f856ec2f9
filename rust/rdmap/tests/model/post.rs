// SPDX-License-Identifier: GPL-2.0

//! Posting of requests: right and wrong ones.

use rdmap::atomic::Atomic;
use rdmap::header::ReadRequest;
use rdmap::stag::{Range, Region, Stag};
use rdmap::tx::{Operation, Request};

use super::end::{
    End, Work, BASE, CAPACITY, COUNTED, COUNTERS, COUNTERS_BASE, FOREIGN, READ, READABLE,
    READABLE_LENGTH, SINK, WRITABLE, WRITE,
};
use super::planted::Bug;
use super::terms::{Choices, Llp, Wrong};

impl<L: Llp> End<L> {
    fn message(choices: &mut impl Choices, limit: u32) -> Vec<u8> {
        let limit = usize::try_from(limit).unwrap();
        let length = match choices.below(5) {
            0 => 0,
            1 => limit,
            _ => choices.below(limit),
        };
        let first = choices.below(256);
        (first..first + length)
            .map(|at| u8::try_from(at % 253).unwrap())
            .collect()
    }

    fn add(&mut self, operation: Operation, fence: bool, octets: Vec<u8>, expected: Vec<u8>) {
        let request = Request {
            operation,
            fence: fence && self.bug != Some(Bug::FenceIgnored),
        };
        if self.tx.post(request).is_ok() {
            self.work.push(Work {
                operation,
                fence,
                octets,
                expected,
                segment: 0,
                done: false,
            });
        }
    }

    /// Posts any right request.
    pub fn post(&mut self, choices: &mut impl Choices, peer: &Self) {
        if self.work.len() >= self.completed + 60 {
            return;
        }
        let fence = choices.one_in(4);
        match choices.below(12) {
            0..=2 if self.sends_posted < peer.receives_posted => {
                let octets = Self::message(choices, CAPACITY);
                let invalidate = choices.one_in(3).then(|| peer.advertise(self));
                let operation = Operation::Send {
                    length: u32::try_from(octets.len()).unwrap(),
                    solicited: choices.one_in(2),
                    invalidate,
                };
                self.sends_posted += 1;
                self.add(operation, fence, octets, Vec::new());
            }
            3 | 4 => {
                let octets = Self::message(choices, WRITE);
                let length = u32::try_from(octets.len()).unwrap();
                let range = Range {
                    stag: WRITABLE,
                    offset: BASE + u64::from(self.written),
                    length,
                };
                self.written += length;
                self.add(Operation::Write(range), fence, octets, Vec::new());
            }
            5 | 6 => self.post_read(choices, peer, fence),
            7 => self.add(Operation::Local, fence, Vec::new(), Vec::new()),
            8 if self.sends_posted < peer.receives_posted => {
                let octets = Self::message(choices, WRITE);
                let length = u32::try_from(octets.len()).unwrap();
                let operation = Operation::WriteImmediate {
                    range: Range {
                        stag: WRITABLE,
                        offset: BASE + u64::from(self.written),
                        length,
                    },
                    data: u64::try_from(choices.below(1000)).unwrap().to_be_bytes(),
                    solicited: choices.one_in(2),
                };
                self.written += length;
                self.sends_posted += 1;
                self.add(operation, fence, octets, Vec::new());
            }
            9 | 10 => self.post_atomic(choices, fence),
            11 => self.post_read_of_counters(fence),
            _ => {}
        }
    }

    /// Posts an atomic operation, which finds what those before it leave.
    fn post_atomic(&mut self, choices: &mut impl Choices, fence: bool) {
        let counter = choices.below(COUNTERS);
        let original = self.counters[counter];
        let number = u64::try_from(choices.below(200)).unwrap();
        let operation = match choices.below(3) {
            0 => Atomic::FetchAdd {
                add: number + 1,
                mask: 0,
            },
            1 => Atomic::FetchAdd {
                add: number * 0x0101_0101_0101 + 1,
                mask: 0x8080_8080_8080_8080,
            },
            _ => Atomic::CmpSwap {
                swap: original.wrapping_mul(3) + number + 1,
                swap_mask: 0x00ff_ffff_ffff_00ff,
                compare: original ^ u64::from(choices.one_in(3)),
                compare_mask: 0xff,
            },
        };
        let posted = Operation::Atomic {
            stag: COUNTED,
            offset: COUNTERS_BASE + 8 * u64::try_from(counter).unwrap(),
            operation,
        };
        self.counters[counter] = operation.apply(original);
        let expected = original.to_ne_bytes().to_vec();
        self.add(posted, fence, Vec::new(), expected);
    }

    /// Posts a Read of all counters, which finds what atomic operations before it leave, and those
    /// behind it do not change.
    fn post_read_of_counters(&mut self, fence: bool) {
        let expected: Vec<_> = self
            .counters
            .iter()
            .flat_map(|at| at.to_ne_bytes())
            .collect();
        let length = u32::try_from(expected.len()).unwrap();
        let request = ReadRequest {
            sink_stag: SINK,
            sink_offset: BASE + u64::from(self.read_to),
            length,
            source_stag: COUNTED,
            source_offset: COUNTERS_BASE,
        };
        self.read_to += length;
        self.add(Operation::Read(request), fence, Vec::new(), expected);
    }

    /// Posts a Read of memory that never changes, or that an earlier Write of this end wrote.
    fn post_read(&mut self, choices: &mut impl Choices, peer: &Self, fence: bool) {
        let writes = |work: &&Work| matches!(work.operation, Operation::Write(_));
        let earlier = self.work.iter().filter(writes).next_back();
        let (source, expected) = match earlier {
            Some(Work {
                operation: Operation::Write(range),
                octets,
                ..
            }) if choices.one_in(2) => (*range, octets.clone()),
            _ => {
                let length = Self::message(choices, READ).len();
                let range = Range {
                    stag: READABLE,
                    offset: BASE + u64::try_from(choices.below(1000)).unwrap(),
                    length: u32::try_from(length).unwrap(),
                };
                (range, peer.memory.read(range))
            }
        };
        // The destination of an earlier response as well, or a new one.
        let behind = match choices.one_in(4) {
            true => u64::from(self.read_to.saturating_sub(source.length / 2)),
            false => u64::from(self.read_to),
        };
        // Reads of no octets may name anything.
        let nonsense = source.length == 0;
        let request = ReadRequest {
            sink_stag: if nonsense { Stag(9) } else { SINK },
            sink_offset: BASE + behind,
            length: source.length,
            source_stag: if nonsense { Stag(8) } else { source.stag },
            source_offset: source.offset,
        };
        self.read_to += source.length;
        self.add(Operation::Read(request), fence, Vec::new(), expected);
    }

    /// Registers memory for the peer to invalidate.
    fn advertise(&self, user: &mut Self) -> Stag {
        let stag = Stag(user.next_stag);
        user.next_stag += 1;
        let region = Region {
            base: 0,
            length: 16,
            valid: true,
            of_this_stream: true,
            remote_read: true,
            remote_write: true,
            remote_atomic: false,
            remote_invalidate: true,
        };
        self.memory.register(stag, region, vec![0; 16]);
        stag
    }

    /// Posts a wrong request.
    pub fn post_wrong(&mut self, wrong: Wrong, peer: &Self) {
        let range = |stag, offset, length| Range {
            stag,
            offset,
            length,
        };
        let write = |range| Operation::Write(range);
        let read = |source: Range| {
            Operation::Read(ReadRequest {
                sink_stag: SINK,
                sink_offset: BASE,
                length: source.length,
                source_stag: source.stag,
                source_offset: source.offset,
            })
        };
        let send = |length, invalidate| Operation::Send {
            length,
            solicited: false,
            invalidate,
        };
        let atomic = |stag, offset| Operation::Atomic {
            stag,
            offset,
            operation: Atomic::FetchAdd { add: 1, mask: 0 },
        };
        let operation = match wrong {
            Wrong::AtomicNowhere => atomic(Stag(7), COUNTERS_BASE),
            Wrong::AtomicBeyond => atomic(COUNTED, COUNTERS_BASE + self.memory.length(COUNTED)),
            Wrong::AtomicWrapping => atomic(COUNTED, u64::MAX - 6),
            Wrong::AtomicWithoutRight => atomic(WRITABLE, BASE + 7),
            Wrong::AtomicForeign => atomic(FOREIGN, BASE + 7),
            Wrong::AtomicMisaligned => atomic(COUNTED, COUNTERS_BASE + 4),
            Wrong::WriteNowhere => write(range(Stag(7), BASE, 1)),
            Wrong::WriteBeyond => write(range(
                WRITABLE,
                BASE + self.memory.length(WRITABLE) - 10,
                11,
            )),
            Wrong::WriteReadOnly => write(range(READABLE, BASE, 1)),
            Wrong::ReadNowhere => read(range(Stag(7), BASE, 1)),
            Wrong::ReadBeyond => read(range(READABLE, BASE + u64::from(READABLE_LENGTH) - 10, 11)),
            Wrong::ReadWrapping => read(range(READABLE, u64::MAX - 5, 7)),
            Wrong::ReadForeign => read(range(FOREIGN, BASE, 1)),
            Wrong::SendTooLong => send(CAPACITY + 1, None),
            Wrong::InvalidateShared => send(3, Some(WRITABLE)),
            Wrong::InvalidateNothing => send(3, Some(Stag(7))),
        };
        let length = match operation {
            Operation::Send { length, .. } => {
                assert!(self.sends_posted <= peer.receives_posted);
                self.sends_posted += 1;
                length
            }
            Operation::Write(range) => range.length,
            _ => 0,
        };
        let octets = vec![0x77; usize::try_from(length).unwrap()];
        self.add(operation, false, octets, Vec::new());
    }
}
