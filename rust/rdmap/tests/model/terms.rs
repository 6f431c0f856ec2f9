// SPDX-License-Identifier: GPL-2.0

//! The terms of the model and of its users.

use rdmap::fault::Code;
use rdmap::order::{InOrder, Order};
use rdmap::sctp::window::{Bits, RxWindow, WORDS};

/// A source of decisions about the next event.
pub trait Choices {
    /// Returns a number below `limit`, which is not zero.
    fn below(&mut self, limit: usize) -> usize;

    /// Returns true one time in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }
}

/// A summary of a run, with which a test checks that it covered something.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Sends that were delivered.
    pub sends: usize,
    /// Writes that a later Send made visible.
    pub writes: usize,
    /// Reads that were done.
    pub reads: usize,
    /// Atomic operations that were done.
    pub atomics: usize,
    /// Immediate Data that was delivered.
    pub immediates: usize,
    /// Segments that overtook another one.
    pub overtaken: usize,
    /// Requests that were flushed.
    pub flushed: usize,
    /// The codes of the Terminates.
    pub codes: Vec<Code>,
}

/// An LLP.
pub trait Llp: Order {
    /// Creates the order of a new stream.
    fn new() -> Self;

    /// Returns the sequence information of the `count`th segment.
    fn key(count: u64) -> Self::Key;
}

impl Llp for InOrder {
    fn new() -> Self {
        InOrder::new()
    }

    fn key(_: u64) {}
}

impl Llp for RxWindow<Box<Bits>> {
    fn new() -> Self {
        RxWindow::new(Box::new([0; WORDS]))
    }

    fn key(count: u64) -> u16 {
        u16::try_from(count % 65_536).unwrap()
    }
}

/// A segment on its way.
#[derive(Clone)]
pub struct Flying {
    /// The number of segments that were sent before it.
    pub count: u64,
    /// The octets of the segment.
    pub octets: Vec<u8>,
}

/// A rule that one end breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It writes to an STag that nothing has.
    WriteNowhere,
    /// It writes behind the end of a region.
    WriteBeyond,
    /// It writes what it may only read.
    WriteReadOnly,
    /// It reads what nothing has.
    ReadNowhere,
    /// It reads behind the end of a region.
    ReadBeyond,
    /// It reads beyond the last offset of all.
    ReadWrapping,
    /// It reads another stream's memory.
    ReadForeign,
    /// It sends more than a Receive holds.
    SendTooLong,
    /// It invalidates what it may not.
    InvalidateShared,
    /// It invalidates what is not there.
    InvalidateNothing,
    /// It adds to what nothing has.
    AtomicNowhere,
    /// It adds to what is behind the end of a region.
    AtomicBeyond,
    /// It adds to what is beyond the last offset of all.
    AtomicWrapping,
    /// It adds to what it may only read and write.
    AtomicWithoutRight,
    /// It adds to another stream's memory.
    AtomicForeign,
    /// It adds to octets that are no word of the machine.
    AtomicMisaligned,
}

/// All wrong requests, with their codes on the wire.
pub const WRONGS: [(Wrong, (u8, u8, u8)); 16] = [
    (Wrong::WriteNowhere, (1, 1, 0)),
    (Wrong::WriteBeyond, (1, 1, 1)),
    (Wrong::WriteReadOnly, (1, 1, 0)),
    (Wrong::ReadNowhere, (0, 1, 0)),
    (Wrong::ReadBeyond, (0, 1, 1)),
    (Wrong::ReadWrapping, (0, 1, 4)),
    (Wrong::ReadForeign, (0, 1, 3)),
    (Wrong::SendTooLong, (1, 2, 5)),
    (Wrong::InvalidateShared, (0, 1, 9)),
    (Wrong::InvalidateNothing, (0, 2, 9)),
    (Wrong::AtomicNowhere, (0, 1, 0)),
    (Wrong::AtomicBeyond, (0, 1, 1)),
    (Wrong::AtomicWrapping, (0, 1, 4)),
    (Wrong::AtomicWithoutRight, (0, 1, 2)),
    (Wrong::AtomicForeign, (0, 1, 3)),
    (Wrong::AtomicMisaligned, (0, 2, 7)),
];
