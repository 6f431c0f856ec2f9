// SPDX-License-Identifier: GPL-2.0

//! What a transport provides.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_xprt_ops`.

use crate::{
    CallbackRqst,
    Class,
    Rqst,
    SockAddr,
    Stats,
    Xprt, //
};
use kernel::prelude::*;

/// A transport of the sunrpc client. The crate's documentation says who calls what.
pub trait Transport: Sized + Send + Sync + 'static {
    /// Private state of a request slot. It lives as long as the transport and is shared by
    /// reference; sunrpc reuses the slot for one RPC after another.
    type Slot: Send + Sync;

    /// Name of the class, in the log and in mountstats.
    const NAME: &'static CStr;

    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;

    /// netids for IPv4 and IPv6.
    const NETIDS: [&'static CStr; 2];

    /// How many reverse-direction calls the peer may have outstanding.
    const CALLBACK_SLOTS: u32;

    /// The class, a `static` of the module.
    fn class() -> &'static Class<Self>;

    /// Makes a transport that is not connected. May sleep.
    fn new() -> impl PinInit<Self, Error>;

    /// How many request slots to allocate, at least one. Read once for each transport.
    fn slots() -> usize;

    /// Makes the private state of one slot. May sleep.
    fn new_slot() -> impl PinInit<Self::Slot, Error>;

    /// The largest payload of an RPC, in bytes.
    fn max_payload() -> usize;

    /// Connects. Sleeps as long as it takes, but neither forever nor for memory that write-back
    /// would have to free. No other connect, send or close runs meanwhile; [`Self::close`] is
    /// called if it fails.
    ///
    /// sunrpc tries again after `ECONNREFUSED`, `ECONNRESET`, `ECONNABORTED`, `ENETDOWN`,
    /// `ENETUNREACH`, `EHOSTUNREACH`, `EPIPE`, `EPROTO`, `EADDRINUSE`, `ENOTCONN`, `EAGAIN`,
    /// `ETIMEDOUT` and (given on as `ENOBUFS`) `ENOMEM`. `EOPNOTSUPP` is the fate of the RPCs
    /// that wait. Any other error is given on as `ECONNABORTED`.
    fn connect(&self, xprt: &Xprt<Self>) -> Result;

    /// Does for `rqst` what need not wait for its turn, in its own task, side by side with others.
    /// What cannot be done now is left to [`Self::send`], and so is what it did if the connection
    /// is another by then. Called for each encoding of the call; it need not be connected. Must not
    /// sleep for memory.
    ///
    /// An error says that the request can never be sent. Said here it is the fate of that request; from
    /// [`Self::send`] it would be that of whose task is sending.
    fn prepare(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>) -> Result<(), SendError>;

    /// Sends `rqst`, or says why not. Must not sleep for memory.
    ///
    /// It is connected, the request has a credit, and it was not sent on this connection before.
    /// If there is `more`, the device need not be told yet: either another `send` or
    /// [`Self::flush`] follows.
    fn send(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, more: bool) -> Result<(), SendError>;

    /// Tells the device of all that was sent so far. An error says that the connection is at its
    /// end. Called by the owner of `XPRT_LOCKED`, perhaps with `transport_lock` held: must not
    /// sleep, nor call [`Xprt`].
    fn flush(&self) -> Result;

    /// Tears the connection down. Returns when nothing is under DMA and no completion handler of it
    /// runs or can start. May be called again, or before the first connect. May sleep.
    fn close(&self, xprt: &Xprt<Self>);

    /// The task gives up its buffers and pages, answered or not: the last moment to fence what
    /// `rqst` still has registered. Nobody has it pinned any more. May sleep.
    fn release(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>);

    /// A call was not answered in time: the connection is of no use. Runs in that call's task.
    fn unanswered(&self, xprt: &Xprt<Self>);

    /// Breaks the connection as the network would. For fault injection.
    fn inject_disconnect(&self, xprt: &Xprt<Self>);

    /// The local end of the connection, if there is one. May sleep.
    fn source(&self) -> Option<SockAddr>;

    /// The transport's own numbers for mountstats.
    fn stats(&self, xprt: &Xprt<Self>) -> Stats;

    /// The largest reverse-direction message, either way. Called after a connect, perhaps in an RCU read-side
    /// critical section: must not sleep.
    fn callback_max_payload(&self) -> usize;

    /// Sends the reply to a reverse-direction call. As [`Self::send`], but without a credit: the
    /// peer's call granted it (RFC 8167, section 4).
    fn send_callback_reply(
        &self,
        xprt: &Xprt<Self>,
        rqst: &CallbackRqst,
        more: bool,
    ) -> Result<(), SendError>;
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Something that this connection will give back is used up. Nothing was posted.
    ///
    /// sunrpc holds back further requests until [`Xprt::write_space`]; the transport promises to
    /// call it when it has any to give. It need not care for the race between the two: it is
    /// asked a second time after waiting was announced.
    Again,
    /// No memory; sunrpc tries again after a quarter of a second. Nothing was posted.
    NoBuffers,
    /// The connection is gone, or no longer trustworthy. It is closed, and the request sent again
    /// over the next one.
    Disconnected,
    /// The request can never be sent: it, or its reply, is too large.
    TooBig,
    /// The request can never be sent.
    Io,
}
