// SPDX-License-Identifier: GPL-2.0

//! The protocols that carry DDP: TCP with MPA, or SCTP. Each is an [`Llp`], and a link type of its
//! own.
//!
//! A connection begins as [`Active`] or as [`Passive`], is [`EstablishedConn`] while segments flow,
//! and [half-closed](HalfClosed) until the peer has received everything. One worker at a time owns
//! it.

use crate::{
    addr_changes::AddrWatch,
    prelude::*, //
};
use provider::borrowed::Piece;
use rdmap::{
    cm::{
        clamp_reads,
        PrivateData, //
    },
    enhanced::Enhanced,
    order::Order,
    wire::Octets, //
};

/// The greatest number of Reads in either direction. The limit is one for both, so that IRD and ORD
/// can be equal (RFC 5040, section 6.1).
// Argues for P6.1-6.
pub(crate) const MAX_READS: u16 = 128;

/// Limits a number of Reads that a consumer wants.
pub(crate) fn limit_reads(wanted: u32) -> u16 {
    u16::try_from(wanted).map_or(MAX_READS, |reads| reads.min(MAX_READS))
}

/// Private data of a peer, whose length fits in an event of iw_cm.
pub(crate) type CmPrivateData = Octets<{ PrivateData::MAX_LEN }>;

/// Copies these octets. Returns [`None`] if there are too many.
pub(crate) fn cm_private_data(octets: &[u8]) -> Option<CmPrivateData> {
    let mut data = CmPrivateData::new();
    data.put_slice(PrivateData::new(octets)?.as_slice());
    Some(data)
}

/// Returns what the consumer learns of a request: the numbers of Reads of the peer, or without
/// negotiation the limits of this side.
pub(crate) fn request_params(enhanced: Option<Enhanced>, private_data: &[u8]) -> EventParams<'_> {
    let number = |reads: Option<u16>| clamp_reads(reads.unwrap_or(MAX_READS));
    EventParams {
        ird: number(enhanced.and_then(|enhanced| enhanced.ird.number())),
        ord: number(enhanced.and_then(|enhanced| enhanced.ord.number())),
        private_data,
    }
}

/// A protocol that carries DDP.
pub(crate) trait Llp: Send + Sync + Sized + 'static {
    /// The link type, for `rdma link add`.
    const LINK_TYPE: &'static CStr;
    /// The counters of its devices, with their names.
    const COUNTERS: &'static [(Count, &'static CStr)];
    /// The names of [`Self::COUNTERS`].
    const NAMES: &'static [&'static CStr];
    /// A listener, which stops when it is dropped.
    type Listener: Send + Sync + Unpin;
    /// A connection that was accepted, without an owner of its events.
    type Accepted;
    /// A connection that this side begins.
    type Active: Active<Established = Self::Established> + Unpin;
    /// A connection that a peer began.
    type Passive: Passive<Established = Self::Established> + Unpin;
    /// A connection on which segments flow.
    type Established: EstablishedConn + Unpin;

    /// Listens, and follows the addresses by `watch`, whose events are those of the sockets, too. A
    /// wildcard is for `netdev`, and for the VLANs on it that have no device. Sleeps.
    fn listen(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        watch: AddrWatch,
    ) -> Result<Self::Listener>;

    /// Accepts a connection of a peer. Sleeps, but does not wait for one.
    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>>;

    /// Returns the time in milliseconds after which to poll, even without an event.
    fn poll_after_ms(listener: &Self::Listener) -> Option<u32>;

    /// Takes over a connection, whose events go to `events` from now on. Sleeps.
    fn attach(
        accepted: Self::Accepted,
        events: Arc<EventTarget>,
    ) -> Result<(Endpoints, Self::Passive)>;
}

/// The progress of a connection that this side begins.
pub(crate) enum ConnectProgress {
    /// The answer of the peer is awaited.
    Pending,
    /// The peer has answered.
    Replied,
    /// The connection failed.
    Failed(ConnectError),
}

/// The answer of a peer.
pub(crate) enum ConnectReply<O> {
    /// Its consumer accepts.
    Accepted {
        /// The connection.
        conn: O,
        /// The numbers of Reads that both ends agreed on.
        reads: ReadLimits,
        /// Private data of the peer's consumer.
        private_data: CmPrivateData,
    },
    /// Its consumer rejects, with this private data.
    Rejected(CmPrivateData),
    /// The peer broke a rule, or does not agree.
    Invalid,
    /// There is no memory for the connection.
    NoMemory,
}

/// A connection that this side begins.
pub(crate) trait Active: Send + Sized {
    /// The connection that results.
    type Established;

    /// Begins to connect. If it is `peer_to_peer` the passive side may send first, where that is
    /// not always so. Sleeps, but not for the peer.
    fn connect(
        net: &Net,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        peer_to_peer: bool,
        events: Arc<EventTarget>,
    ) -> Result<Self>;

    /// Continues.
    fn step(&mut self) -> ConnectProgress;

    /// Returns the answer of the peer. Sleeps.
    fn into_reply(self) -> ConnectReply<Self::Established>;

    /// Aborts the attempt. Sleeps.
    fn abort(self);
}

/// The progress of a peer's request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestStatus {
    /// It is not complete.
    Pending,
    /// It is complete, and the consumer can decide.
    Ready,
    /// It is invalid, or the peer is gone.
    Ended,
}

/// A connection that a peer began.
pub(crate) trait Passive: Send + Sized {
    /// The connection that results.
    type Established;

    /// Continues. If the protocol can refuse a peer, its request needs `admit`, or the connection
    /// ends; else a peer beyond the limit is not accepted.
    fn step(&mut self, admit: impl FnOnce() -> bool) -> RequestStatus;

    /// Continues while the consumer decides. Returns false if that is in vain: the peer is gone, or
    /// sends more than it may before it is answered.
    fn is_intact(&mut self) -> bool;

    /// Returns the parameters of the complete request.
    fn request_params(&self) -> Option<EventParams<'_>>;

    /// Accepts for the consumer. If it fails the peer is refused. Sleeps.
    fn accept(self, parameters: ConnParams<'_>) -> Result<(Self::Established, ReadLimits)>;

    /// Rejects for the consumer. Sleeps.
    fn reject(self, private_data: &[u8]) -> Result;

    /// Refuses without a decision of the consumer. Sleeps.
    fn refuse(self);
}

/// The result of sending a segment.
pub(crate) enum SendStatus {
    /// It is on its way.
    Queued,
    /// There is no space. An event reports some.
    NoSpace,
    /// It is longer than [`EstablishedConn::mulpdu`], which has changed.
    TooLong,
}

/// The reason why a segment cannot be sent.
pub(crate) enum SendError {
    /// Its payload is not there.
    Payload,
    /// The connection has failed.
    Connection,
}

/// A connection on which segments flow.
pub(crate) trait EstablishedConn: Send + Sized + 'static {
    /// The order in which segments arrive.
    type Order: Order + Send + Unpin;
    /// The closing state of the connection.
    type HalfClosed: HalfClosed + Unpin;
    /// A peer that sends nothing more may still receive.
    const HALF_CLOSES: bool;
    /// It sends [pieces](Self::add_pieces) as they are, while others may write to them.
    const GATHERS: bool;

    /// Returns the order of the peer's segments. Fails after the first time.
    fn order(&mut self) -> Result<Self::Order>;

    /// Returns the greatest length of a segment now, in octets.
    fn mulpdu(&self) -> u32;

    /// Returns whether segments may be sent, except for the last one.
    fn may_send(&self) -> bool;

    /// Returns whether one more segment may be added before a [flush](Self::flush).
    fn has_space(&self) -> bool;

    /// Returns whether no segment was added since the last [flush](Self::flush).
    fn is_empty(&self) -> bool;

    /// Adds a segment: `header`, and `length` octets that `payload` writes. The memory of the
    /// payload is not needed any more, but the layer below has the segment only when
    /// [`flush`](Self::flush) has succeeded.
    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<SendStatus, SendError>;

    /// Adds a segment: `header`, and the octets of `pieces`, which the consumer may write to
    /// meanwhile. They are not needed any more behind it. For an LLP that [gathers](Self::GATHERS).
    fn add_pieces<'a>(
        &mut self,
        header: &[u8],
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<SendStatus, SendError>;

    /// Hands over the added segments. `EAGAIN` if not all were taken: an event will report space.
    fn flush(&mut self) -> Result;

    /// Passes the segments that arrived to `receiver`, up to a budget.
    fn receive(&mut self, receiver: &mut Receiver<'_, '_, Self::Order>) -> Result<Received>;

    /// Takes note that the last segment was handed over.
    fn finish(&mut self);

    /// Takes note that the peer's last segment was delivered, or one that is not answered. Says
    /// whether the end is orderly.
    fn ended(&mut self) -> bool;

    /// Returns the time in milliseconds after which to poll, even without an event.
    fn poll_after_ms(&self) -> Option<u32>;

    /// Returns whether the peer exceeded a time limit.
    fn has_timed_out(&self) -> bool;

    /// Closes for the consumer, `at_once` or in order: segments that were added are handed over,
    /// and the peer is told if the protocol has a message for it. Returns [`None`] if the
    /// connection is ended. Sleeps.
    fn close(self, at_once: bool) -> Option<Self::HalfClosed>;

    /// Closes the sending direction, and leaves the peer time to receive the last segments. Sleeps.
    fn half_close(self) -> Self::HalfClosed;

    /// Aborts the connection. Sleeps.
    fn abort(self);
}

/// A connection in the course of closing. When it is dropped, it ends in order, as far as the
/// protocol does that alone within some seconds. Dropping sleeps.
pub(crate) trait HalfClosed: Send {
    /// Continues. Returns whether it may be dropped. Sleeps.
    fn step(&mut self) -> bool;

    /// Ends it, as the peer's time is over. Sleeps.
    fn abort(self);
}
