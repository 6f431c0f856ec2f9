// SPDX-License-Identifier: GPL-2.0

//! The private state of a connected `svc_xprt`.
//!
//! It lives as long as sunrpc works on a call of the connection, which may be much longer than the
//! connection. The part that belongs to the device is a [`Responder`], which is dropped when the
//! connection ends.

use super::{
    call_context::CallContext,
    config::REJECTED,
    connection,
    denied_calls::DeniedCalls,
    page_pool::PagePool,
    responder::Responder,
    send::SendPath, //
};
use crate::endpoint;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
use proto::admission::Host;
use rdma::{
    cm::Id,
    receive::MessageMemory, //
};
use sunrpc::{
    AddrText,
    SockAddr,
    SvcArgs,
    SvcCall,
    SvcLink, //
};

/// The largest number of [`SvcCall`]s that a transport keeps for later calls.
const MAX_FREE_CALLS: usize = 32;

/// The context of the id and of the completion queue.
pub(crate) type ServerConn = connection::ServerConn<ServerTransport>;

/// The arguments of a call, in the `svc_rqst` of the calling thread.
pub(super) type Args<'a> = SvcArgs<'a, MessageMemory>;

/// A connection request that no thread has accepted yet.
pub(crate) struct ConnectRequest {
    pub(super) id: Arc<Id<ServerConn>>,
    pub(super) connection: Arc<ServerConn>,
    /// The address of the client.
    pub(super) host: Host,
}

/// Counts and logs that a connection request from `client` was rejected.
pub(super) fn log_rejected(client: &Result<SockAddr>, error: Error) {
    REJECTED.add(1);
    let client = client.map_or(AddrText::EMPTY, |client| client.text());
    let client = client.as_c_str();
    endpoint::log(|| pr_info!("rejected a connection from {client}: {error:?}\n"));
}

/// The private state of a connected `svc_xprt`.
#[pin_data]
pub(crate) struct ServerTransport {
    /// [`None`] when the connection has ended.
    #[pin]
    responder: SpinLock<Option<Arc<Responder<Self>>>>,
    pub(super) connection: Arc<ServerConn>,
    /// Contexts of calls that are over, for later calls.
    #[pin]
    free_calls: SpinLock<KVec<KBox<SvcCall<Self>>>>,
}

impl ServerTransport {
    /// Creates all that the connection needs, but does not accept it. Sleeps.
    pub(super) fn new(
        request: ConnectRequest,
        link: SvcLink<Self>,
        page_pool: Arc<PagePool>,
        denied_calls: Arc<DeniedCalls>,
    ) -> impl PinInit<Self, Error> {
        let ConnectRequest { id, connection, .. } = request;
        let responder = Responder::new(id, connection.clone(), link, page_pool, denied_calls);
        try_pin_init!(Self {
            responder <- new_spinlock!(Some(responder?), "rpcrdma::responder"),
            connection,
            free_calls <- new_spinlock!(
                KVec::with_capacity(MAX_FREE_CALLS, GFP_KERNEL)?,
                "rpcrdma::free_calls"
            ),
        })
    }

    /// Returns the part that belongs to the device, unless the connection has ended. Dropping it
    /// sleeps.
    pub(super) fn responder(&self) -> Option<Arc<Responder<Self>>> {
        self.responder.lock().clone()
    }

    /// Returns the send path for backchannel calls, unless the connection has ended. Does not
    /// sleep.
    pub(super) fn send_path(&self) -> Option<SendPath<Self>> {
        let responder = self.responder.lock();
        responder
            .as_ref()
            .map(|responder| responder.send_path.clone())
    }

    /// Drains the queue pair, and drops the part that belongs to the device and all waiting work.
    /// Threads that use it hold a reference until they are done. Idempotent. Sleeps.
    pub(super) fn drop_responder(&self) {
        let responder = self.responder.lock().take();
        if let Some(responder) = responder {
            responder.drain();
        }
    }

    /// Returns an [`SvcCall`] for a new call: one of an earlier call, or a new one. [`None`] if
    /// memory is short.
    pub(super) fn take_call(&self) -> Option<KBox<SvcCall<Self>>> {
        let free = self.free_calls.lock().pop();
        free.or_else(|| KBox::new(SvcCall::new(CallContext::new()), GFP_KERNEL).ok())
    }

    /// Keeps `call`, which has ended, for a later call.
    pub(super) fn release_call(&self, mut call: KBox<SvcCall<Self>>) {
        if let Some(memory) = call.take_message() {
            let responder = self.responder();
            let message = responder
                .as_ref()
                .and_then(|responder| responder.take_back(memory, call.context.lent));
            if let (Some(responder), Some(message)) = (&responder, message) {
                responder.repost(message);
            }
        }
        call.context.clear();
        let excess = self.free_calls.lock().push_within_capacity(call);
        drop(excess);
    }

    /// Frees the [`SvcCall`]s that are kept for later calls.
    pub(super) fn drop_free_calls(&self) {
        loop {
            let call = self.free_calls.lock().pop();
            if call.is_none() {
                break;
            }
        }
    }
}
