// SPDX-License-Identifier: GPL-2.0

//! The protocols that carry DDP: TCP with MPA, or SCTP. Each is a [`Lower`], and a link type of its
//! own.
//!
//! A connection begins as [`Active`] or as [`Passive`], is [`Open`] while segments flow, and
//! [half-closed](Lingering) until the peer has received everything. One worker at a time owns it.

use crate::counters::Count;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use crate::waker::Waker;
use core::net::SocketAddr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::Addresses;
use provider::cm::Parameters;
use provider::cm::Told;
use provider::netdev::NetDevice;
use rdmap::cm::PrivateData;
use rdmap::enhanced::Agreed;
use rdmap::order::Order;
use rdmap::wire::Octets;

/// The greatest number of Reads in either direction. The limit is one for both, so that IRD and ORD
/// can be equal (RFC 5040, section 6.1).
pub(crate) const MAX_READS: u16 = 128;

/// Limits a number of Reads that a consumer wants.
pub(crate) fn reads(wanted: u32) -> u16 {
    u16::try_from(wanted).map_or(MAX_READS, |reads| reads.min(MAX_READS))
}

/// Private data of a peer, whose length fits in an event of iw_cm.
pub(crate) type Data = Octets<{ PrivateData::MAX_LEN }>;

/// Copies these octets. Returns [`None`] if there are too many.
pub(crate) fn data(octets: &[u8]) -> Option<Data> {
    let mut data = Data::new();
    data.put_slice(PrivateData::new(octets)?.as_slice());
    Some(data)
}

/// A protocol that carries DDP.
pub(crate) trait Lower: Send + Sync + Sized + 'static {
    /// The link type, for `rdma link add`.
    const LINK_TYPE: &'static CStr;
    /// The `driver_id` of its devices, which user space does not know.
    const ID: u32;
    /// The counters of its devices, with their names.
    const COUNTERS: &'static [(Count, &'static CStr)];
    /// The names of [`Self::COUNTERS`].
    const NAMES: &'static [&'static CStr];
    /// A listener, which stops when it is dropped.
    type Listener: Send + Sync + Unpin;
    /// A connection that was accepted, without an owner of its events.
    type Accepted;
    /// A connection that this side begins.
    type Active: Active<Open = Self::Open> + Unpin;
    /// A connection that a peer began.
    type Passive: Passive<Open = Self::Open> + Unpin;
    /// A connection on which segments flow.
    type Open: Open + Unpin;

    /// Listens. A wildcard is for `netdev`, and for the VLANs on it that have no device. Sleeps.
    fn listen(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self::Listener>;

    /// Accepts a connection of a peer. Sleeps, but does not wait for one.
    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>>;

    /// Returns the time in milliseconds after which to poll, even without an event.
    fn look_again(listener: &Self::Listener) -> Option<u32>;

    /// Takes over a connection, whose events go to `waker` from now on. Sleeps.
    fn take_over(accepted: Self::Accepted, waker: Arc<Waker>)
        -> Result<(Addresses, Self::Passive)>;
}

/// The progress of a connection that this side begins.
pub(crate) enum Progress {
    /// The answer of the peer is awaited.
    Waits,
    /// The peer has answered.
    Answered,
    /// The connection failed.
    Failed(Failure),
}

/// The reason why a connect failed.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// Nobody listens there.
    Refused,
    /// The peer went away, or broke a rule.
    Reset,
    /// The peer did not answer.
    Timeout,
}

/// The answer of a peer.
pub(crate) enum Answer<O> {
    /// Its consumer accepts.
    Accepted {
        /// The connection.
        open: O,
        /// The numbers of Reads that both ends agreed on.
        reads: Agreed,
        /// Private data of the peer's consumer.
        said: Data,
    },
    /// Its consumer rejects, with this private data.
    Rejected(Data),
    /// The peer broke a rule, or does not agree.
    Wrong,
    /// There is no memory for the connection.
    NoMemory,
}

/// A connection that this side begins.
pub(crate) trait Active: Send + Sized {
    /// The connection that results.
    type Open;

    /// Begins to connect. Sleeps, but not for the peer.
    fn connect(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        waker: Arc<Waker>,
    ) -> Result<Self>;

    /// Continues.
    fn step(&mut self) -> Progress;

    /// Returns the answer of the peer. Sleeps.
    fn answer(self) -> Answer<Self::Open>;

    /// Aborts the attempt. Sleeps.
    fn give_up(self);
}

/// The progress of a peer's request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is not complete.
    Nothing,
    /// It is complete, and the consumer can decide.
    Request,
    /// It is invalid, or the peer is gone.
    End,
}

/// A connection that a peer began.
pub(crate) trait Passive: Send + Sized {
    /// The connection that results.
    type Open;

    /// Continues. If the protocol can refuse a peer, its request needs `admit`, or the connection
    /// ends; else a peer beyond the limit is not accepted.
    fn step(&mut self, admit: impl FnOnce() -> bool) -> Asked;

    /// Continues while the consumer decides. Returns false if that is in vain: the peer is gone, or
    /// sends more than it may before it is answered.
    fn waits(&mut self) -> bool;

    /// Returns the parameters of the complete request.
    fn told(&self) -> Option<Told<'_>>;

    /// Accepts for the consumer. If it fails the peer is refused. Sleeps.
    fn accept(self, parameters: Parameters<'_>) -> Result<(Self::Open, Agreed)>;

    /// Rejects for the consumer. Sleeps.
    fn reject(self, private_data: &[u8]) -> Result;

    /// Refuses without a decision of the consumer. Sleeps.
    fn refuse(self);
}

/// The result of sending a segment.
pub(crate) enum Added {
    /// It is on its way.
    Done,
    /// There is no space. An event reports some.
    Full,
    /// It is longer than [`Open::mulpdu`], which has changed.
    TooLong,
}

/// The reason why a segment cannot be sent.
pub(crate) enum Failed {
    /// Its payload is not there.
    Payload,
    /// The connection has failed.
    Connection,
}

/// A connection on which segments flow.
pub(crate) trait Open: Send + Sized + 'static {
    /// The order in which segments arrive.
    type Order: Order + Send + Unpin;
    /// The closing state of the connection.
    type Lingering: Lingering + Unpin;
    /// A peer that sends nothing more may still receive.
    const HALF_CLOSES: bool;

    /// Returns the order of the peer's segments. Fails after the first time.
    fn order(&mut self) -> Result<Self::Order>;

    /// Returns the greatest length of a segment now, in octets.
    fn mulpdu(&self) -> u32;

    /// Says whether segments may be sent, except for the last one.
    fn may_send(&self) -> bool;

    /// Says whether one more segment may be added before a [flush](Self::flush).
    fn has_room(&self) -> bool;

    /// Says whether no segment was added since the last [flush](Self::flush).
    fn is_empty(&self) -> bool;

    /// Adds a segment: `header`, and `length` octets that `payload` writes. The memory of the
    /// payload is not needed any more, but the layer below has the segment only when
    /// [`flush`](Self::flush) has succeeded.
    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<Added, Failed>;

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
    fn look_again(&self) -> Option<u32>;

    /// Says whether the peer exceeded a time limit.
    fn is_late(&self) -> bool;

    /// Closes for the consumer, `at_once` or in order: segments that were added are handed over,
    /// and the peer is told if the protocol has a message for it. Returns [`None`] if the
    /// connection is ended. Sleeps.
    fn close(self, at_once: bool) -> Option<Self::Lingering>;

    /// Closes the sending direction, and leaves the peer time to receive the last segments. Sleeps.
    fn linger(self) -> Self::Lingering;

    /// Aborts the connection. Sleeps.
    fn abort(self);
}

/// A connection in the course of closing. When it is dropped, it ends in order, as far as the
/// protocol does that alone.
pub(crate) trait Lingering: Send {
    /// Continues. Says whether it may be dropped. Sleeps.
    fn step(&mut self) -> bool;

    /// Ends it, as the peer's time is over. Sleeps.
    fn give_up(self);
}
