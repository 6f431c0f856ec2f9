// SPDX-License-Identifier: GPL-2.0

//! The order of events towards iw_cm, as types.
//!
//! iw_cm (`include/rdma/iw_cm.h`) hits a `BUG_ON` when a provider reports events in an order that
//! it does not expect: a reply to a connect that nobody asked for, the end of a connection that was
//! not established, or any event before a downcall fails. So each state of a connection is a token
//! here, which is used up by the one event that may come next:
//!
//! | token | given by | its event |
//! | --- | --- | --- |
//! | [`Connecting`] | `iw_connect` | one CONNECT_REPLY; dropped, one that reports a reset |
//! | [`Accepting`] | `iw_accept` | ESTABLISHED; dropped, none, as the downcall fails |
//! | [`Established`] | either of them | CLOSE, when it is dropped |
//!
//! There is no DISCONNECT: rdma_cm never sees it, and it could take the entry that iw_cm has set
//! aside for CLOSE. A connection that was accepted and whose peer has left is reported as
//! established, and then as closed.

/// An event that a provider reports to iw_cm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The result of a connect: private data of the peer and the numbers of Reads, or an error.
    ConnectReply(Result<Reply<'a>, ConnectError<'a>>),
    /// The accepted connection is established.
    Established,
    /// The connection is closed.
    Close,
}

/// The parameters of a connection that the peer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Read Requests that this end accepts at a time (IRD).
    pub ird: u8,
    /// Read Requests that this end may have outstanding (ORD).
    pub ord: u8,
    /// Private data of the peer's upper layer.
    pub private_data: PrivateData<'a>,
}

/// The reason why a connect failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError<'a> {
    /// The peer's upper layer refused: ECONNREFUSED.
    Refused(PrivateData<'a>),
    /// The peer went away, or broke a rule: ECONNRESET.
    Reset,
    /// The peer did not answer: ETIMEDOUT.
    TimedOut,
}

/// Private data whose length fits in an event of iw_cm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateData<'a>(&'a [u8]);

impl<'a> PrivateData<'a> {
    /// The greatest length in octets. RFC 5043 and RFC 5044 allow 512; `iw_cm_event` has eight
    /// bits.
    pub const MAX_LEN: usize = 255;

    /// Creates private data from `octets`, or returns `None` if there are too many.
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (octets.len() <= Self::MAX_LEN).then_some(Self(octets))
    }

    /// Returns the octets.
    #[inline]
    pub const fn as_slice(self) -> &'a [u8] {
        self.0
    }
}

/// iw_cm had no entry, or no memory, for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntry;

/// A counted reference to an `iw_cm_id`, which is released when it is dropped.
pub trait Id {
    /// Hands an event to iw_cm.
    ///
    /// This never fails without private data, as long as the order is kept: iw_cm has set entries
    /// aside.
    fn event(&mut self, event: Event<'_>) -> Result<(), NoEntry>;
}

/// Converts a number of Reads to the eight bits of an event.
#[inline]
pub fn clamp_reads(reads: u16) -> u8 {
    u8::try_from(reads).unwrap_or(u8::MAX)
}

/// The state in which iw_cm waits for the result of a connect.
#[derive(Debug)]
pub struct Connecting<I: Id>(Option<I>);

impl<I: Id> Connecting<I> {
    /// Begins with the id of an `iw_connect` call, which is expected to succeed.
    #[inline]
    pub const fn new(id: I) -> Self {
        Self(Some(id))
    }

    /// Fails the downcall: there will be no event.
    #[inline]
    pub fn fail(mut self) {
        drop(self.0.take());
    }

    /// Reports the result. If iw_cm cannot take the private data, a reset is reported instead.
    pub fn reply(mut self, result: Result<Reply<'_>, ConnectError<'_>>) -> Option<Established<I>> {
        let mut id = self.0.take()?;
        match id.event(Event::ConnectReply(result)) {
            // Made only where there is a connection: what is made is closed.
            Ok(()) => result.is_ok().then(|| Established(Some(id))),
            Err(NoEntry) => {
                drop(Self(Some(id)));
                None
            }
        }
    }
}

impl<I: Id> Drop for Connecting<I> {
    fn drop(&mut self) {
        if let Some(mut id) = self.0.take() {
            // This cannot fail without private data, and there is nobody left to report to.
            let _ = id.event(Event::ConnectReply(Err(ConnectError::Reset)));
        }
    }
}

/// The state in which iw_cm waits for the connection that it accepted. When dropped, `iw_accept`
/// fails and there is no event.
#[derive(Debug)]
pub struct Accepting<I: Id>(I);

impl<I: Id> Accepting<I> {
    /// Begins with the id of an `iw_accept` call.
    #[inline]
    pub const fn new(id: I) -> Self {
        Self(id)
    }

    /// Reports that the connection is established.
    pub fn established(mut self) -> Established<I> {
        // iw_cm has set an entry aside for this.
        let _ = self.0.event(Event::Established);
        Established(Some(self.0))
    }
}

/// A connection that iw_cm knows as established. It is reported as closed when this is dropped.
#[derive(Debug)]
pub struct Established<I: Id>(Option<I>);

impl<I: Id> Established<I> {
    /// Returns the id, which is there until this is dropped.
    #[inline]
    pub const fn id(&self) -> Option<&I> {
        self.0.as_ref()
    }
}

impl<I: Id> Drop for Established<I> {
    fn drop(&mut self) {
        if let Some(mut id) = self.0.take() {
            // iw_cm has set an entry aside for this.
            let _ = id.event(Event::Close);
        }
    }
}
