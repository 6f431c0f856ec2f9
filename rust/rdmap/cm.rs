// SPDX-License-Identifier: GPL-2.0

//! The order of events towards iw_cm, as types.
//!
//! iw_cm (`include/rdma/iw_cm.h`) stops the machine when a provider reports events in an order that it does not expect: an
//! answer to a connect that was not asked for, an end of what was not established, anything at all before a downcall
//! fails. So each state of a connection is a token here, which is used up by the one event that may come next:
//!
//! | token | given by | its event |
//! | --- | --- | --- |
//! | [`Connecting`] | `iw_connect` | one CONNECT_REPLY; dropped, one that says that the connection was reset |
//! | [`Accepting`] | `iw_accept` | ESTABLISHED; dropped, none, as the downcall fails |
//! | [`Established`] | either of them | CLOSE, when it is dropped |
//!
//! There is no DISCONNECT: rdma_cm never sees it, and it could take the place that iw_cm has set aside for CLOSE.
//! A connection that was accepted and whose peer has left is established all the same, and closed.

/// What a provider tells iw_cm of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The answer to a connect: private data of the peer and how many Reads there may be, or why not.
    ConnectReply(Result<Reply<'a>, Refusal<'a>>),
    /// The connection that was accepted is there.
    Established,
    /// The connection is gone.
    Close,
}

/// The peer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Reads that this end takes.
    pub ird: u8,
    /// Reads that this end may have outstanding.
    pub ord: u8,
    /// What the peer's upper layer says.
    pub private_data: PrivateData<'a>,
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// The peer's upper layer refused: ECONNREFUSED.
    Refused(PrivateData<'a>),
    /// The peer went away, or broke a rule: ECONNRESET.
    Reset,
    /// The peer did not answer: ETIMEDOUT.
    Timeout,
}

/// Private data, as much as iw_cm can say the length of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateData<'a>(&'a [u8]);

impl<'a> PrivateData<'a> {
    /// Octets at most. RFC 5043 and RFC 5044 have up to 512; `iw_cm_event` has eight bits.
    pub const MAX_LEN: usize = 255;

    /// These octets, if they are not too many.
    pub fn new(octets: &'a [u8]) -> Option<Self> {
        (octets.len() <= Self::MAX_LEN).then_some(Self(octets))
    }

    /// The octets.
    #[inline]
    pub const fn as_slice(self) -> &'a [u8] {
        self.0
    }
}

/// iw_cm had no entry, or no memory, for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntry;

/// A counted reference to an `iw_cm_id`. Dropped, it gives the count back.
pub trait Id {
    /// Hands an event to iw_cm.
    ///
    /// Without private data it never fails, as long as the order is kept: iw_cm has set entries aside.
    fn event(&mut self, event: Event<'_>) -> Result<(), NoEntry>;
}

/// A number of Reads as events have it: eight bits.
#[inline]
pub fn clamp_reads(reads: u16) -> u8 {
    u8::try_from(reads).unwrap_or(u8::MAX)
}

/// iw_cm waits for the answer to its connect.
#[derive(Debug)]
pub struct Connecting<I: Id>(Option<I>);

impl<I: Id> Connecting<I> {
    /// `iw_connect` was called with this id. The token is for the case that the downcall succeeds.
    #[inline]
    pub const fn new(id: I) -> Self {
        Self(Some(id))
    }

    /// The downcall fails: there will be no event.
    #[inline]
    pub fn fail(mut self) {
        drop(self.0.take());
    }

    /// The answer. If iw_cm cannot take its private data it is told of a reset instead.
    pub fn reply(mut self, answer: Result<Reply<'_>, Refusal<'_>>) -> Option<Established<I>> {
        let mut id = self.0.take()?;
        match id.event(Event::ConnectReply(answer)) {
            // Made only where there is a connection: what is made is closed.
            Ok(()) => answer.is_ok().then(|| Established(Some(id))),
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
            // Without private data this cannot fail, and there is nobody left to tell.
            let _ = id.event(Event::ConnectReply(Err(Refusal::Reset)));
        }
    }
}

/// iw_cm waits for the connection that it accepted. Dropped, `iw_accept` fails and there is no event.
#[derive(Debug)]
pub struct Accepting<I: Id>(I);

impl<I: Id> Accepting<I> {
    /// `iw_accept` was called with this id.
    #[inline]
    pub const fn new(id: I) -> Self {
        Self(id)
    }

    /// The connection is there.
    pub fn established(mut self) -> Established<I> {
        // iw_cm has set an entry aside for this.
        let _ = self.0.event(Event::Established);
        Established(Some(self.0))
    }
}

/// A connection that iw_cm knows. Dropped, it is closed.
#[derive(Debug)]
pub struct Established<I: Id>(Option<I>);

impl<I: Id> Established<I> {
    /// The id. There is one until this is dropped.
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
