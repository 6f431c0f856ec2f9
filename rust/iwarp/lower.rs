// SPDX-License-Identifier: GPL-2.0

//! What carries DDP: TCP with MPA, or SCTP. Each is a [`Lower`], and a link type of its own.
//!
//! A connection begins as [`Active`] or as [`Passive`], is [`Open`] while segments flow, and [lingers](Lingering) until the peer
//! has what was said last. One worker at a time has it.

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

/// Reads in either direction, at most. The limit is one for both, so that IRD and ORD can be equal (RFC 5040, section 6.1).
pub(crate) const MAX_READS: u16 = 128;

/// A number of Reads that a consumer wants, as far as a device has them.
pub(crate) fn reads(wanted: u32) -> u16 {
    u16::try_from(wanted).map_or(MAX_READS, |reads| reads.min(MAX_READS))
}

/// Private data of a peer, as much as iw_cm can take.
pub(crate) type Data = Octets<{ PrivateData::MAX_LEN }>;

/// These octets as [`Data`]. [`None`] if they are too many.
pub(crate) fn data(octets: &[u8]) -> Option<Data> {
    let mut data = Data::new();
    data.put_slice(PrivateData::new(octets)?.as_slice());
    Some(data)
}

/// A protocol that carries DDP.
pub(crate) trait Lower: Send + Sync + Sized + 'static {
    /// The type, for `rdma link add`.
    const LINK_TYPE: &'static CStr;
    /// `driver_id` of its devices: none that user space knows.
    const ID: u32;
    /// What its devices count, and the names of that.
    const COUNTERS: &'static [(Count, &'static CStr)];
    /// The names of [`Self::COUNTERS`].
    const NAMES: &'static [&'static CStr];
    /// What listens. Dropped, it does not.
    type Listener: Send + Sync + Unpin;
    /// A connection that was accepted, of whose events nobody hears yet.
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

    /// A connection that a peer began. Sleeps, but does not wait for one.
    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>>;

    /// Milliseconds after which to look again, even without an event.
    fn look_again(listener: &Self::Listener) -> Option<u32>;

    /// Goes on with a connection: its events kick `waker`'s target. Sleeps.
    fn take_over(accepted: Self::Accepted, waker: Arc<Waker>)
        -> Result<(Addresses, Self::Passive)>;
}

/// How far a connection has come that this side begins.
pub(crate) enum Progress {
    /// Something has to happen.
    Waits,
    /// The peer has answered.
    Answered,
    /// It failed.
    Failed(Failure),
}

/// Why there is no connection.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// Nobody listens there.
    Refused,
    /// The peer went away, or broke a rule.
    Reset,
    /// The peer did not answer.
    Timeout,
}

/// What a peer answered.
pub(crate) enum Answer<O> {
    /// Its consumer accepts.
    Accepted {
        /// The connection.
        open: O,
        /// On how many Reads both ends agreed.
        reads: Agreed,
        /// What the peer's consumer says.
        said: Data,
    },
    /// Its consumer rejects, and says this.
    Rejected(Data),
    /// It broke a rule, or does not agree.
    Wrong,
    /// There is no memory for it.
    NoMemory,
}

/// A connection that this side begins.
pub(crate) trait Active: Send + Sized {
    /// What becomes of it.
    type Open;

    /// Begins. Sleeps, but not for the peer.
    fn connect(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        waker: Arc<Waker>,
    ) -> Result<Self>;

    /// Goes on.
    fn step(&mut self) -> Progress;

    /// What the peer answered. Sleeps.
    fn answer(self) -> Answer<Self::Open>;

    /// Ends it. Sleeps.
    fn give_up(self);
}

/// What a peer that began a connection has said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing yet.
    Nothing,
    /// All that a consumer needs to decide.
    Request,
    /// Something else, or it is gone.
    End,
}

/// A connection that a peer began.
pub(crate) trait Passive: Send + Sized {
    /// What becomes of it.
    type Open;

    /// Goes on. If the protocol has a word for a peer that is one too many, what it asks needs `admit`, or it ends; else a peer that
    /// is one too many is not taken over.
    fn step(&mut self, admit: impl FnOnce() -> bool) -> Asked;

    /// Goes on while the consumer decides. False if that is in vain: the peer is gone, or says what it may not before it is answered.
    fn waits(&mut self) -> bool;

    /// What the peer asks for, once it has.
    fn told(&self) -> Option<Told<'_>>;

    /// The consumer accepts. If it fails the peer hears of that. Sleeps.
    fn accept(self, parameters: Parameters<'_>) -> Result<(Self::Open, Agreed)>;

    /// The consumer rejects. Sleeps.
    fn reject(self, private_data: &[u8]) -> Result;

    /// It ends without a word of the consumer. Sleeps.
    fn refuse(self);
}

/// What became of a segment that was to be sent.
pub(crate) enum Added {
    /// It is on its way.
    Done,
    /// There is no room. An event tells of some.
    Full,
    /// It is longer than [`Open::mulpdu`], which has changed.
    TooLong,
}

/// Why a segment cannot be sent.
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
    /// What is left of it in the end.
    type Lingering: Lingering + Unpin;
    /// Whether a peer that sends nothing more may still receive.
    const HALF_CLOSES: bool;

    /// The order of the peer's segments. An error but for the first time.
    fn order(&mut self) -> Result<Self::Order>;

    /// Octets of a segment at most, now.
    fn mulpdu(&self) -> u32;

    /// Whether segments may be sent, but for the last one.
    fn may_send(&self) -> bool;

    /// Whether one more segment may be added before a [flush](Self::flush).
    fn has_room(&self) -> bool;

    /// Whether no segment was added since the last [flush](Self::flush).
    fn is_empty(&self) -> bool;

    /// Adds a segment: `header`, and `length` octets that `payload` writes. The memory of the payload is not needed any more, but the
    /// layer below has the segment only when [`flush`](Self::flush) has succeeded.
    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<Added, Failed>;

    /// Hands over what was added. `EAGAIN` if not all was taken: an event will tell of room.
    fn flush(&mut self) -> Result;

    /// Shows `receiver` what arrived, for a while.
    fn receive(&mut self, receiver: &mut Receiver<'_, '_, Self::Order>) -> Result<Received>;

    /// The last segment was handed over.
    fn finish(&mut self);

    /// The peer's last segment was delivered, or one that is not to be answered. Says whether the end is in order.
    fn ended(&mut self) -> bool;

    /// Milliseconds after which to look again, even without an event.
    fn look_again(&self) -> Option<u32>;

    /// Whether something took the peer too long.
    fn is_late(&self) -> bool;

    /// The consumer closes, or wants the end `at_once`: what was added is handed over, and the peer hears of that, as far as the
    /// protocol has a word for it. [`None`]: it is ended. Sleeps.
    fn close(self, at_once: bool) -> Option<Self::Lingering>;

    /// Leaves the peer time to hear what was said last, and what was added. Sleeps.
    fn linger(self) -> Self::Lingering;

    /// Ends it, whatever is on its way. Sleeps.
    fn abort(self);
}

/// A connection that nobody needs any more. Dropped, it ends in order, as far as the protocol sees to that alone.
pub(crate) trait Lingering: Send {
    /// Goes on. Says whether it may go. Sleeps.
    fn step(&mut self) -> bool;

    /// The peer had its time. Sleeps.
    fn give_up(self);
}
