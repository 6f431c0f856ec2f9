// SPDX-License-Identifier: GPL-2.0

//! The methods that a transport of the sunrpc client has to provide, and its counters.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_xprt_ops`.

use crate::prelude::*;
use crate::{
    bc::clnt::CallbackRqst,
    clnt::{
        class::Class,
        timeouts, //
    }, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// A transport of the sunrpc client. The crate's documentation says in which context each method
/// runs.
pub trait Transport: HasSlot {
    /// Name of the class, in the log and in mountstats.
    const NAME: &'static CStr;

    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;

    /// netids for IPv4 and IPv6.
    const NETIDS: [&'static CStr; 2];

    /// The most reverse-direction calls that the peer may have outstanding.
    const CALLBACK_SLOTS: u32;

    /// Returns the class, a `static` of the module.
    fn class() -> &'static Class<Self>;

    /// Makes a transport that is not connected. May sleep.
    ///
    /// It has as many request slots as [`Self::slots`] said for it.
    fn new(slots: usize) -> impl PinInit<Self, Error>;

    /// Returns the number of request slots to allocate, at least one. Read once for each transport.
    fn slots() -> usize;

    /// Returns the largest payload of an RPC, in bytes.
    fn max_payload() -> usize;

    /// Connects. Sleeps as long as it takes, but neither forever nor for memory that write-back
    /// would have to free. No other connect, send or close runs meanwhile. If it fails,
    /// [`Self::close`] follows.
    ///
    /// sunrpc tries again after `ECONNREFUSED`, `ECONNRESET`, `ECONNABORTED`, `ENETDOWN`,
    /// `ENETUNREACH`, `EHOSTUNREACH`, `EPIPE`, `EPROTO`, `EADDRINUSE`, `ENOTCONN`, `EAGAIN`,
    /// `ETIMEDOUT` and (passed on as `ENOBUFS`) `ENOMEM`. `EOPNOTSUPP` fails the RPCs
    /// that wait. Any other error is passed on as `ECONNABORTED`.
    fn connect(&self, xprt: &Xprt<Self>) -> Result;

    /// Called when an attempt to connect is to begin after `delay` jiffies. Must not sleep.
    fn connect_scheduled(&self, xprt: &Xprt<Self>, delay: usize) {
        let _ = (xprt, delay);
    }

    /// Does the work for `rqst` that is possible before it is its turn to be sent. Runs in the
    /// request's own task, in parallel with others, once for each encoding of the call, whether
    /// connected or not. [`Self::send`] does what this method cannot do now, and does it again if
    /// there is another connection by then. May sleep for memory as `flags` allow it, and for
    /// nothing else that another RPC would have to bring.
    ///
    /// Of the errors only [`SendError::TooBig`] and [`SendError::Io`] count here: the request
    /// fails.
    fn prepare(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, flags: Flags) -> Result<(), SendError>;

    /// Sends `rqst`, or returns why it cannot. Must not sleep for memory.
    ///
    /// The transport is connected, the request has a credit, and if it was sent on this connection
    /// before, there was a reply. If there is `more`, the device need not be notified yet: either
    /// another `send` or [`Self::flush`] follows.
    fn send(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, more: bool) -> Result<(), SendError>;

    /// Notifies the device of all that was sent so far. An error says that the connection has
    /// ended. The caller owns `XPRT_LOCKED`, and perhaps holds `transport_lock`: the method must
    /// not sleep, nor call what wants that lock.
    fn flush(&self) -> Result;

    /// Closes the connection. Returns when no memory is under DMA and no completion handler of it
    /// runs or can start. May be called again, or before the first connect. May sleep.
    fn close(&self, xprt: &Xprt<Self>);

    /// Releases the resources that [`Self::close`] keeps for the next connection, some time after
    /// it. Called in parallel with any other method. May sleep.
    fn expire(&self);

    /// Adds resources for more calls in parallel. Runs in a work item after
    /// [`Xprt::schedule_growth`], in parallel with any other method, and nothing but the
    /// transport's destruction waits for it. May sleep for memory as `flags` allow it.
    fn grow(&self, xprt: &Xprt<Self>, flags: Flags) {
        let _ = (xprt, flags);
    }

    /// Adds all resources that the transport may ever need, because there is going to be swap on a
    /// file over it ([`Xprt::carries_swap`]). Called in parallel with any other method. May sleep
    /// for memory as `flags` allow it.
    fn prepare_for_swap(&self, xprt: &Xprt<Self>, flags: Flags) {
        let _ = (xprt, flags);
    }

    /// Called when a call finds no credit in the window. The caller owns `XPRT_LOCKED`; the method
    /// must not sleep.
    fn on_credit_shortage(&self, xprt: &Xprt<Self>) {
        let _ = xprt;
    }

    /// Makes the memory of `rqst` inaccessible to the peer, as its task frees buffers and pages
    /// after this, whether a reply came or not. May sleep.
    ///
    /// Either the request is not pinned any more, or it was sent and no reply came in time. In that
    /// case a reply may be taken at the same time, and the task may have the call sent again over
    /// another connection.
    fn release(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>);

    /// Ends the connection that has this `connect_cookie`, for this `reason`: makes sunrpc close
    /// it, unless it is closed already, or there is another one by now. Runs in a call's task.
    fn conditional_disconnect(
        &self,
        xprt: &Xprt<Self>,
        connect_cookie: u32,
        reason: DisconnectReason,
    );

    /// Breaks the connection as a fault of the network would. sunrpc's fault injection calls it.
    fn inject_disconnect(&self, xprt: &Xprt<Self>);

    /// Returns the local address of the connection, if there is one. May sleep.
    fn source(&self) -> Option<SockAddr>;

    /// Returns the transport's own counters, for mountstats.
    fn stats(&self, xprt: &Xprt<Self>) -> Stats;

    /// Returns the length of the largest reverse-direction message, call or reply. Called after a
    /// connect, perhaps in an RCU read-side critical section: must not sleep.
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

/// The reason why sunrpc, or this crate, does not want a connection any more.
#[derive(Clone, Copy)]
pub enum DisconnectReason {
    /// A call had no reply in time.
    ReplyTimedOut,
    /// A call that has no reply is to be sent once more.
    Retransmission,
    /// A call was sent that has no reply, so nothing says that the peer has a Receive for the next
    /// one.
    NoReplyExpected,
    /// All credits are those of calls whose tasks were killed.
    CreditsOfKilledCalls,
}

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The connection has none left of a resource that completions give back, such as a buffer.
    /// Nothing was posted.
    ///
    /// sunrpc holds back further requests until [`Xprt::write_space`]; the transport promises to
    /// call that when it has the resource again. It need not prevent the race between the two,
    /// because this crate calls the method a second time after sunrpc knows that a sender waits.
    Again,
    /// Memory is short; sunrpc tries again after a quarter of a second. Nothing was posted.
    NoBuffers,
    /// The connection has ended, or has to be ended. It is closed, and the request is sent again
    /// over the next one.
    Disconnected,
    /// The request can never be sent: it, or its reply, is too large.
    TooBig,
    /// The request can never be sent.
    Io,
}

/// The counters of an RDMA transport since its creation, in the order of its line in mountstats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Calls with a Read chunk.
    pub read_chunks: u64,
    /// Calls that offered a Write chunk.
    pub write_chunks: u64,
    /// Calls that offered a Reply chunk.
    pub reply_chunks: u64,
    /// Bytes of memory that calls offered for their replies.
    pub total_rdma_request: u64,
    /// Bytes of replies that the peer wrote.
    pub total_rdma_reply: u64,
    /// Bytes copied to send a call inline.
    pub pullup_copy: u64,
    /// Bytes copied out of inline replies.
    pub fixup_copy: u64,
    /// Calls that could not be marshalled.
    pub failed_marshal: u64,
    /// Messages that broke the protocol, and replies that made their call fail.
    pub bad_reply: u64,
    /// Calls sent without an inline part.
    pub nomsg_call: u64,
    /// Memory regions that the peer could still access when their connection ended.
    pub mrs_recycled: u64,
    /// Memory regions that could not be freed.
    pub mrs_orphaned: u64,
    /// Memory regions allocated.
    pub mrs_allocated: u64,
    /// Memory regions that were invalidated locally, after a reply or because the task released its
    /// call.
    pub local_inv_needed: u64,
    /// Calls that found no send context.
    pub empty_sendctx_q: u64,
}

/// The numbers that sunrpc counts.
struct GenericCounters {
    bind_count: c_ulong,
    connect_count: c_ulong,
    connect_seconds: c_ulong,
    idle_seconds: c_ulong,
    sends: c_ulong,
    recvs: c_ulong,
    bad_xids: c_ulong,
    req_u: u64,
    bklog_u: u64,
    hardway_register: u64,
}

impl GenericCounters {
    fn of<T: Transport>(xprt: &Xprt<T>) -> Self {
        /// Reads one counter.
        macro_rules! stat {
            ($name:ident) => {
                // SAFETY: The transport is live. Writers change the word as a whole.
                unsafe { (&raw const (*xprt.as_raw()).stat.$name).read_volatile() }
            };
        }
        let idle_seconds = if xprt.is_connected() {
            // SAFETY: The transport is live. Writers change the word as a whole.
            let last_used = unsafe { (&raw const (*xprt.as_raw()).last_used).read_volatile() };
            timeouts::jiffies().wrapping_sub(last_used) / timeouts::HZ
        } else {
            0
        };
        Self {
            bind_count: stat!(bind_count),
            connect_count: stat!(connect_count),
            connect_seconds: stat!(connect_time) / timeouts::HZ,
            idle_seconds,
            sends: stat!(sends),
            recvs: stat!(recvs),
            bad_xids: stat!(bad_xids),
            req_u: stat!(req_u),
            bklog_u: stat!(bklog_u),
            hardway_register: xprt.parts.allocated.load(Ordering::Relaxed),
        }
    }
}

impl<T: Transport> Xprt<T> {
    /// Returns the local port, or zero without a connection. May sleep.
    pub(crate) fn source_port(&self) -> c_ushort {
        T::source(self).map_or(0, |source| {
            // SAFETY: A `SockAddr` is a whole address.
            unsafe { cbindings::rpc_get_port(source.as_raw()) }
        })
    }
}

/// Writes the line of `xprt` in `/proc/self/mountstats`. User-space tools parse it by position: ten
/// numbers that sunrpc counts, then seventeen that the transport counts.
pub(crate) fn print_stats<T: Transport>(xprt: &Xprt<T>, seq: &SeqFile) {
    let general = GenericCounters::of(xprt);
    let own = T::stats(xprt, xprt);

    seq_print!(
        seq,
        "\txprt:\t{} {} {} {} {} {} {} {} {} {} {} ",
        T::NAME,
        xprt.source_port(),
        general.bind_count,
        general.connect_count,
        general.connect_seconds,
        general.idle_seconds,
        general.sends,
        general.recvs,
        general.bad_xids,
        general.req_u,
        general.bklog_u,
    );
    seq_print!(
        seq,
        "{} {} {} {} {} {} {} {} {} {} {} ",
        own.read_chunks,
        own.write_chunks,
        own.reply_chunks,
        own.total_rdma_request,
        own.total_rdma_reply,
        own.pullup_copy,
        own.fixup_copy,
        general.hardway_register,
        own.failed_marshal,
        own.bad_reply,
        own.nomsg_call,
    );
    // The last column has no meaning any more; parsers still expect it.
    seq_print!(
        seq,
        "{} {} {} {} {} 0\n",
        own.mrs_recycled,
        own.mrs_orphaned,
        own.mrs_allocated,
        own.local_inv_needed,
        own.empty_sendctx_q,
    );
}
