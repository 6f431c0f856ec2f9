// SPDX-License-Identifier: GPL-2.0

//! The private state of a connected `svc_xprt`, its `svc_xprt_ops`, and the class of its
//! backchannel.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).
//!
//! The private state lives as long as sunrpc works on a call, which may be much longer than the
//! connection. The part that belongs to the device is a [`Responder`], which is dropped when the
//! connection ends.

use super::{
    call::CallContext,
    listener::Listener,
    rdma_read::PagePool,
    work_queue::Work, //
};
use crate::prelude::*;
use kernel::revocable::Revocable;
use proto::{
    admission::Host,
    reverse, //
};
use rdma::{
    atomic_cell::CellPool,
    cm::Id, //
};
use sunrpc::{
    AddrText,
    HasSvcCall,
    SvcArgs,
    SvcBackchannelClass,
    SvcCall,
    SvcCallback,
    SvcConnection,
    SvcResult, //
};

/// The largest number of [`SvcCall`]s that a transport keeps for later calls.
const MAX_FREE_CALLS: usize = 32;

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
    config::REJECTED.add(1);
    let client = client.map_or(AddrText::EMPTY, |client| client.text());
    let client = client.as_c_str();
    endpoint::log(|| pr_info!("rejected a connection from {client}: {error:?}\n"));
}

/// The private state of a connected `svc_xprt`.
#[pin_data]
pub(crate) struct ServerTransport {
    /// Revoked when the connection has ended. Each call looks at it twice, on any processor, so
    /// that takes no lock.
    #[pin]
    responder: Revocable<Arc<Responder>>,
    pub(super) connection: Arc<ServerConn>,
    /// Calls that are over, for later calls. Each call takes one and puts one back, in any thread,
    /// so that takes no lock.
    free_calls: CellPool<KBox<SvcCall<Self>>, MAX_FREE_CALLS>,
}

impl ServerTransport {
    /// Creates all that the connection needs, but does not accept it. Sleeps.
    pub(super) fn new(
        request: ConnectRequest,
        link: WeakSvcXprt<Self>,
        page_pool: Arc<PagePool>,
        denied_calls: Arc<DeniedCalls>,
    ) -> impl PinInit<Self, Error> {
        let ConnectRequest { id, connection, .. } = request;
        let responder = Responder::new(id, connection.clone(), link, page_pool, denied_calls);
        try_pin_init!(Self {
            responder <- Revocable::new(responder?),
            connection,
            free_calls: CellPool::new(),
        })
    }

    /// Returns the part that belongs to the device, unless the connection has ended. Dropping it
    /// sleeps.
    pub(super) fn responder(&self) -> Option<Arc<Responder>> {
        self.responder.try_access_with(Arc::clone)
    }

    /// Returns the send path for backchannel calls, unless the connection has ended. Does not
    /// sleep.
    pub(super) fn send_path(&self) -> Option<SendPath> {
        self.responder
            .try_access_with(|responder| responder.send_path.clone())
    }

    /// Drains the queue pair, and drops the part that belongs to the device and all waiting work.
    /// Threads that use it hold a reference until they are done. Idempotent. Sleeps.
    fn drop_responder(&self) {
        let responder = self.responder();
        // Waits for those that are about to take a reference. `responder` is one more, so the one
        // that is dropped here is not the last.
        if self.responder.revoke() {
            if let Some(responder) = responder {
                responder.drain();
            }
        }
    }

    /// Returns an [`SvcCall`] of an earlier call, if there is one.
    pub(super) fn take_free_call(&self) -> Option<KBox<SvcCall<Self>>> {
        self.free_calls.take()
    }

    /// Keeps `call`, which has ended, for a later call.
    pub(super) fn release_call(&self, mut call: KBox<SvcCall<Self>>) {
        if let Some(memory) = call.take_message() {
            if let Some(responder) = self.responder() {
                if let Some(message) = call.context.take_back(memory) {
                    responder.repost(message);
                }
            }
        }
        call.context.clear();
        if let Err(excess) = self.free_calls.put(call) {
            // Without a responder there is no list that it is in.
            if let Some(responder) = self.responder() {
                responder.forget_call(&excess);
            }
        }
    }

    /// Frees the [`SvcCall`]s of `responder` that are kept for later calls.
    fn drop_free_calls(&self, responder: &Responder) {
        while let Some(call) = self.free_calls.take() {
            responder.forget_call(&call);
        }
    }
}

/// The transport class for backchannel calls, which NFS makes over the connection of a client that
/// may have to return a delegation or a layout.
pub(crate) static BACKCHANNEL: SvcBackchannelClass<ServerTransport> = SvcBackchannelClass::new();

impl HasSvcCall for ServerTransport {
    type Message = MessageMemory;
    type CallContext = CallContext;
}

impl SvcConnection for ServerTransport {
    type Listener = Listener;
    type Work = Work;
    type Caller = SendPath;

    const BACKCHANNEL_NAME: &'static CStr = c"rdma backchannel";
    // CAST: `XPRT_TRANSPORT_BC` is the sign bit.
    const BACKCHANNEL_IDENT: i32 = (256_u32 | 1 << 31) as i32;
    const BACKCHANNEL_NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const BACKCHANNEL_CREDITS: u32 = config::BACKCHANNEL_CREDITS;
    const BACKCHANNEL_PAYLOAD: usize = kernel::page::PAGE_SIZE - reverse::Header::WIRE_LEN;

    fn backchannel_class() -> &'static SvcBackchannelClass<Self> {
        &BACKCHANNEL
    }

    fn caller(&self) -> Option<SendPath> {
        self.send_path()
    }

    fn call(send_path: &SendPath, xid: u32, call: &SvcCallback<'_>) -> Result {
        send_path.send_backchannel_call(xid, call)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        self.responder().ok_or_else(enotconn)?.start()
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        self.responder().ok_or_else(enotconn)?.addresses()
    }

    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Work> {
        self.connection.next_work(|| xprt.no_data())
    }

    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Work,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        // If the connection has ended, there is nobody to answer.
        self.responder()?.receive_work(xprt, work, args)
    }

    fn result_payload(&self, context: &mut CallContext, offset: usize, len: usize, pages: usize) {
        context.results.add(offset, len);
        context.saved_pages.note_in_use(pages);
    }

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        message: MessageMemory,
        context: &mut CallContext,
        result: SvcResult<'_>,
    ) -> Result {
        let sent = self
            .responder()
            .ok_or_else(enotconn)
            .and_then(|responder| responder.send_reply(message, context, &result))
            .inspect_err(|error| self.connection.trace_send_error(result.xid(), *error));
        // From here on the result is read through pieces that own references to its pages.
        result.restore(&mut context.saved_pages);
        sent
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        self.release_call(call);
    }

    fn timer_expired(&self, _xprt: &SvcXprt<Self>) {
        let Some(responder) = self.responder() else {
            return;
        };
        let SendPath {
            connection, queue, ..
        } = &responder.send_path;
        // Completions serve the waiters. If one were missed, nothing else would.
        connection.retry_waiters(queue);
        connection.watchdog_expired(queue);
        if !connection.is_watched() {
            queue.free_idle_read_mrs();
            self.drop_free_calls(&responder);
            responder.free_spares();
        }
    }

    fn detach(&self) {
        if let Some(responder) = self.responder() {
            responder.disconnect();
        }
    }

    fn close(&self) {
        self.drop_responder();
    }
}
