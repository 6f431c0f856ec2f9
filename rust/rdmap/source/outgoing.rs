// SPDX-License-Identifier: GPL-2.0

//! What goes to the lower layer.

use crate::header::Header;
use crate::header::ReadRequest;
use crate::stag::Range;
use crate::terminate::Terminate;
use crate::wire::Octets;

/// Octets of the longest header, with what the engine itself has to say behind it.
pub const HEADER_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

/// Where the payload of a segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none behind the header octets.
    None,
    /// The memory of a request.
    Request {
        /// Its number; the first that was posted has 0.
        number: u64,
        /// From which octet on.
        offset: u32,
        /// How many.
        length: u32,
    },
    /// Memory that the peer reads.
    Answer(Range),
}

/// What goes out next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A DDP Segment.
    Segment {
        /// Its header. That of a Read Request or of a Terminate is all of it.
        header: Octets<HEADER_LEN>,
        /// What follows.
        payload: Payload,
        /// It is the last one of its message.
        last: bool,
        /// It is the last one of the response to the Read Request of this number.
        /// [`Sink::answered`](crate::sink::Sink::answered) comes before it leaves.
        answered: Option<u64>,
    },
    /// A Read Request. [`Sink::expect`](crate::sink::Sink::expect) comes before it leaves.
    Read {
        /// Its number.
        number: u64,
        /// The whole segment.
        header: Octets<HEADER_LEN>,
        /// What it asks for.
        request: ReadRequest,
    },
    /// A local operation is to be started. [`Source::done`] says when it is done.
    Local(u64),
}
