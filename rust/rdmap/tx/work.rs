// SPDX-License-Identifier: GPL-2.0

//! Requests of the upper layer, and their completion.

use crate::header::ReadRequest;
use crate::rx::InboundRead;
use crate::stag::Range;
use crate::stag::Stag;
use core::ops::DerefMut;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends octets to a Receive of the peer.
    Send {
        /// The length in octets.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<Stag>,
    },
    /// Writes octets to memory of the peer.
    Write(Range),
    /// Reads memory of the peer.
    Read(ReadRequest),
    /// An operation of this end alone, in order: registration or invalidation of memory.
    Local,
}

/// A posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// It waits until all earlier Reads are done.
    pub fence: bool,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub(super) request: Request,
    // The newest segment of it that was handed over; 0 if none was.
    pub(super) last_segment: u64,
    // All its segments were handed over, or it was started.
    pub(super) cut: bool,
    // Set by the caller for Reads and local operations.
    pub(super) done: bool,
    pub(super) failed: bool,
}

impl Posted {
    /// The content of an unused slot.
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

/// The memory of the queues of a transmit half.
pub trait Slots {
    /// One for each request that may be posted.
    type Requests: DerefMut<Target = [Posted]>;
    /// One for each Read Request that the peer may have outstanding: IRD.
    type Responses: DerefMut<Target = [InboundRead]>;
}

/// The status of a completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was carried out.
    Success,
    /// This end could not carry it out.
    Failed,
    /// The stream ended before.
    Flushed,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number of the request.
    pub number: u64,
    /// Its status.
    pub status: Status,
}
