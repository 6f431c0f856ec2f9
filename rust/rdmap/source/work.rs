// SPDX-License-Identifier: GPL-2.0

//! What the upper layer posts, and how it ends.

use crate::header::ReadRequest;
use crate::sink::Answer;
use crate::stag::Range;
use crate::stag::Stag;
use core::ops::DerefMut;

/// What the upper layer wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Send octets to a Receive of the peer's.
    Send {
        /// How many.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<Stag>,
    },
    /// Write octets to memory of the peer's.
    Write(Range),
    /// Read memory of the peer's.
    Read(ReadRequest),
    /// Something that only this end does, in its turn: to register memory, or to invalidate it.
    Local,
}

/// A posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub operation: Operation,
    /// Not before all earlier Reads are done.
    pub fence: bool,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub(super) request: Request,
    // The newest segment of it that was handed over; 0 if none was.
    pub(super) last_segment: u64,
    // All its segments were handed over, or it has been started.
    pub(super) cut: bool,
    // Reads and local operations are done when the caller says so.
    pub(super) done: bool,
    pub(super) failed: bool,
}

impl Posted {
    /// What a slot holds before it is used.
    pub const EMPTY: Self = Self {
        request: Request {
            operation: Operation::Local,
            fence: false,
        },
        last_segment: 0,
        cut: false,
        done: false,
        failed: false,
    };
}

/// The memory of a source's queues.
pub trait Slots {
    /// One for each request that may be posted.
    type Requests: DerefMut<Target = [Posted]>;
    /// One for each Read Request that the peer may have outstanding: IRD.
    type Answers: DerefMut<Target = [Answer]>;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Success,
    /// This end could not do it.
    Failed,
    /// The stream ended before.
    Flushed,
}

/// A request is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its number.
    pub number: u64,
    /// How it ended.
    pub status: Status,
}
