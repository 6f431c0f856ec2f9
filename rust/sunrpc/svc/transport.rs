// SPDX-License-Identifier: GPL-2.0

//! The methods that a transport of the sunrpc server has to provide.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use crate::{
    bc::svc::SvcCallback,
    clnt::class::SvcBackchannelClass,
    memory::Stable,
    svc::{
        listener::SvcClass,
        recv::SvcArgs,
        reply::SvcResult,
        xprt::{
            SvcXprt,
            WeakSvcXprt, //
        }, //
    },
    Net,
    SockAddr, //
};
use kernel::prelude::*;

/// A connection, with the types that belong to each of its calls.
pub trait HasSvcCall: Sized + Send + Sync + 'static {
    /// The message that a call comes in.
    type Message: Stable;

    /// The connection's own state of a call.
    type CallContext: Send;
}

/// A call from its arrival to its reply: the connection's context of it, and the message that
/// sunrpc reads it from.
///
/// While sunrpc works on the call, the connection can access the context only. Safe code therefore
/// cannot take the message away while sunrpc reads it.
pub struct SvcCall<C: HasSvcCall> {
    /// The context.
    pub context: C::CallContext,
    message: Option<C::Message>,
}

impl<C: HasSvcCall> SvcCall<C> {
    /// A call without a message, as it is before and after sunrpc works on it.
    pub fn new(context: C::CallContext) -> Self {
        Self {
            context,
            message: None,
        }
    }

    /// The message, if there was no reply.
    pub fn take_message(&mut self) -> Option<C::Message> {
        self.message.take()
    }

    pub(crate) fn set_message(&mut self, message: C::Message) {
        self.message = Some(message);
    }
}

/// The listening side of a server transport.
pub trait SvcListener: Sized + Send + Sync + 'static {
    /// The connections that it makes.
    type Connection: SvcConnection;

    /// A peer that waits to be accepted.
    type Incoming: Send;

    /// Name of the class, as an administrator writes it.
    const NAME: &'static CStr;

    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;

    /// The largest payload of an RPC, in bytes.
    const MAX_PAYLOAD: u32;

    /// Returns the class, a `static` of the module.
    fn class() -> &'static SvcClass<Self>;

    /// Makes the state of a listener that does not listen yet. May sleep.
    fn new(weak: WeakSvcXprt<Self>) -> impl PinInit<Self, Error>;

    /// Starts to listen at `address`. Returns the address at which it listens. May sleep.
    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr>;

    /// Takes the next peer off the queue, and says whether there are more. A peer that comes later
    /// is announced by [`SvcXprt::connection_pending`]. May sleep.
    fn next(&self) -> (Option<Self::Incoming>, bool);

    /// Returns the address of a peer that waits to be accepted.
    fn peer(incoming: &Self::Incoming) -> Result<SockAddr>;

    /// Reports that `peer` was not accepted, because of `error`.
    fn rejected(&self, peer: &Result<SockAddr>, error: Error);

    /// Makes the state of a connection that is not accepted yet. May sleep.
    fn accept(
        &self,
        incoming: Self::Incoming,
        weak: WeakSvcXprt<Self::Connection>,
    ) -> impl PinInit<Self::Connection, Error>;

    /// Handles the expiry of the timer that [`SvcXprt::start_timer`] started, on the work queue
    /// `svcrdma`, perhaps after [`Self::detach`]. May sleep. May start it again.
    fn timer_expired(&self, xprt: &SvcXprt<Self>);

    /// Stops listening. May sleep.
    fn detach(&self);
}

/// A connection of a server transport.
pub trait SvcConnection: HasSvcCall {
    /// The listener that makes it.
    type Listener: Send + Sync + 'static;

    /// A received message or another event that a service thread handles.
    type Work;

    /// The sender of calls to the client. It may outlive the connection.
    type Caller: Send;

    /// Name of the class for calls to the client, and the protocol in its address strings.
    const BACKCHANNEL_NAME: &'static CStr;

    /// `XPRT_TRANSPORT_BC_*`.
    const BACKCHANNEL_IDENT: i32;

    /// netids for IPv4 and IPv6.
    const BACKCHANNEL_NETIDS: [&'static CStr; 2];

    /// Calls to the client that may be outstanding.
    const BACKCHANNEL_CREDITS: u32;

    /// Bytes of the longest such call.
    const BACKCHANNEL_PAYLOAD: usize;

    /// Returns the class for calls to the client, a `static` of the module.
    fn backchannel_class() -> &'static SvcBackchannelClass<Self>;

    /// Returns the sender of calls to the client, or [`None`] after [`Self::close`]. Does not
    /// sleep.
    fn caller(&self) -> Option<Self::Caller>;

    /// Sends a call to the client. May sleep. [`EAGAIN`] says that it may be sent in a while,
    /// [`EMSGSIZE`] that it never can be, any other error that the connection has ended.
    fn call(caller: &Self::Caller, xid: u32, call: &SvcCallback<'_>) -> Result;

    /// Accepts the peer. May sleep. If it fails, the state is dropped.
    fn start(&self, xprt: &SvcXprt<Self>) -> Result;

    /// Returns the two addresses, local and remote.
    fn addresses(&self) -> Result<(SockAddr, SockAddr)>;

    /// Takes the next piece of work off the queue.
    ///
    /// If the queue is empty, it calls [`SvcXprt::no_data`] and returns [`None`]. Whoever adds work
    /// calls [`SvcXprt::data_pending`]. Both calls are made under the lock of the queue.
    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Self::Work>;

    /// Puts the call of `work` into `args`, if `work` is a call, and complete. May sleep.
    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Self::Work,
        args: &mut SvcArgs<'_, Self::Message>,
    ) -> Option<KBox<SvcCall<Self>>>;

    /// Records in `context` that `len` bytes of the reply, from `offset` on, may leave the message.
    ///
    /// It cannot fail: nfsd would then leave pages of the file among those that its thread writes
    /// replies to.
    fn result_payload(&self, context: &mut Self::CallContext, offset: usize, len: usize);

    /// Replies to the call that came in `message`. May sleep. There is no second attempt if it
    /// fails.
    fn reply(
        &self,
        xprt: &SvcXprt<Self>,
        message: Self::Message,
        context: &mut Self::CallContext,
        result: SvcResult<'_>,
    ) -> Result;

    /// Takes back a call that sunrpc has finished with, whether it has a reply or not. May sleep.
    fn release(&self, call: KBox<SvcCall<Self>>);

    /// Handles the expiry of the timer that [`SvcXprt::start_timer`] started, on the work queue
    /// `svcrdma`. May sleep. May start it again.
    fn timer_expired(&self, xprt: &SvcXprt<Self>);

    /// Ends the connection: no more calls arrive, and nothing is posted any more, or only to be
    /// flushed. May sleep. May be called again, also while another call runs, and before
    /// [`Self::start`] has returned.
    fn detach(&self);

    /// Releases the connection's resources of the device, and its calls that no thread has taken.
    /// Threads may be in other methods meanwhile, which then have what they use for as long as they
    /// run; and sunrpc may be working on calls, whose replies are dropped. Called after
    /// [`Self::detach`], and again when nobody uses the connection any more: when that call returns
    /// no memory of it is under DMA and no handler runs or can start. May sleep.
    fn close(&self);
}
