// SPDX-License-Identifier: GPL-2.0

//! Segments and operations for the LLP.

use crate::header::Header;
use crate::header::ReadRequest;
use crate::stag::Range;
use crate::terminate::Terminate;
use crate::wire::Octets;

/// The length in octets of the longest header, with the payload that this crate makes itself.
pub const HEADER_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

/// The origin of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none behind the header octets.
    None,
    /// The memory of a request.
    Request {
        /// The number of the request; the first that was posted has 0.
        number: u64,
        /// The offset in its memory.
        offset: u32,
        /// The length in octets.
        length: u32,
    },
    /// Memory that the peer reads.
    Response(Range),
}

/// The next thing to send or to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A DDP Segment.
    Segment {
        /// The header. For a Read Request or a Terminate it is the whole segment.
        header: Octets<HEADER_LEN>,
        /// The payload.
        payload: Payload,
        /// The segment is the last one of its message.
        last: bool,
        /// The number of the Read Request whose response ends with this segment.
        /// [`RxHalf::free_inbound`](crate::rx::RxHalf::free_inbound) is called before it leaves.
        last_of_response: Option<u64>,
    },
    /// A Read Request. [`RxHalf::expect`](crate::rx::RxHalf::expect) is called before it leaves.
    Read {
        /// The number of the request.
        number: u64,
        /// The whole segment.
        header: Octets<HEADER_LEN>,
        /// Its fields.
        request: ReadRequest,
    },
    /// A local operation is to be started. [`TxHalf::done`](super::TxHalf::done) says when it is
    /// done.
    Local(u64),
}
