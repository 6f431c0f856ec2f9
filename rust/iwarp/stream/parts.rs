// SPDX-License-Identifier: GPL-2.0

//! The parts of a stream: its connection, the two halves of the engine, and the requests that they
//! work on.

use crate::llp::EstablishedConn;
use crate::stream::receiver::Slots;
use crate::stream::requests::Requests;
use provider::wr::ReceiveRequest;
use provider::wr::SendRequest;
use rdmap::rx::RxHalf;
use rdmap::tx::TxHalf;
use rdmap::violation::Code;

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamProgress {
    /// There may be more to do at once.
    More,
    /// There is nothing to do until an event.
    Idle,
    /// The stream is over. If `graceful`, the last segments are still to be delivered to the peer.
    Over {
        /// A Terminate was sent, or the peer closed in order.
        graceful: bool,
    },
}

/// The parts of a stream.
pub(super) struct Parts<O: EstablishedConn> {
    pub(super) conn: O,
    pub(super) rx: RxHalf<O::Order, Slots>,
    pub(super) tx: TxHalf<Slots>,
    pub(super) sends: Requests<SendRequest>,
    pub(super) receives: Requests<ReceiveRequest>,
    // The error of the peer's Terminate, if it sent one.
    pub(super) terminated: Option<Code>,
}
