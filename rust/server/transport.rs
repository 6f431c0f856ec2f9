// SPDX-License-Identifier: GPL-2.0

//! The private state of a connected `svc_xprt`: it is made, accepted, drained and freed here.
//!
//! RFC 8166, section 3.3 (credits and inline threshold); RFC 8797 (private data).

use super::{
    call_context::CallContext,
    config::REJECTED,
    connection,
    page_pool::PagePool,
    queue_limits::QueueLimits,
    rejected_calls::RejectedCalls,
    send::SendPath,
    waiting::Outgoing, //
};
use crate::endpoint;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use proto::{
    cm_private_data,
    conn::server::{
        Action,
        Event, //
    },
    plan::{
        Role,
        Thresholds, //
    },
    rdma_error::{
        ErrorMessage,
        RdmaError, //
    }, //
};
use rdma::{
    cm::{
        ConnectParameters,
        Id, //
    },
    error::not_connected,
    receive::Message,
    send::{
        Buffers,
        Verb, //
    },
    transfer::Attached,
    ProtectionDomain, //
};
use sunrpc::{
    AddrText,
    SockAddr,
    SvcArgs,
    SvcCall,
    SvcLink, //
};

/// How many [`SvcCall`]s a transport keeps for later calls.
const MAX_FREE_CALLS: usize = 32;

/// How long the device waits for an acknowledgement at most before it sends again, as the exponent that InfiniBand writes: two
/// seconds. A client may ask for less, as all known ones do.
const MAX_ACK_TIMEOUT: u8 = 19;

/// How long a client's device waits before it sends a message again that found no Receive, as InfiniBand encodes it: 0.64 ms.
const RNR_TIMER: u8 = 12;

/// The context of the id and of the completion queue.
pub(crate) type Connection = connection::Connection<ServerTransport>;

/// The arguments of a call, in the `svc_rqst` of the calling thread.
pub(super) type Args<'a> = SvcArgs<'a, Message<Connection>>;

/// A connection request that no thread has accepted yet.
pub(crate) struct ConnectRequest {
    pub(super) id: Arc<Id<Connection>>,
    pub(super) connection: Arc<Connection>,
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
    pub(super) page_pool: Arc<PagePool>,
    /// Contexts of calls that are over, for later calls.
    #[pin]
    free_calls: SpinLock<KVec<KBox<SvcCall<Self>>>>,
    pub(super) send_path: SendPath<Self>,
    id: Arc<Id<Connection>>,
}

impl ServerTransport {
    /// Makes all that the connection needs, but does not accept it. Sleeps.
    pub(super) fn new(
        request: ConnectRequest,
        link: SvcLink<Self>,
        page_pool: Arc<PagePool>,
        rejected_calls: Arc<RejectedCalls>,
    ) -> impl PinInit<Self, Error> {
        let send_path = Self::create_send_path(&request, link, rejected_calls);
        if send_path.is_err() {
            request.id.reject();
        }
        try_pin_init!(Self {
            page_pool,
            free_calls <- new_spinlock!(
                KVec::with_capacity(MAX_FREE_CALLS, GFP_KERNEL)?,
                "rpcrdma::free_calls"
            ),
            send_path: send_path?,
            id: request.id,
        })
    }

    /// Creates the protection domain and the queue pair.
    fn create_send_path(
        request: &ConnectRequest,
        link: SvcLink<Self>,
        rejected_calls: Arc<RejectedCalls>,
    ) -> Result<SendPath<Self>> {
        let ConnectRequest { id, connection } = request;
        let mut limits = QueueLimits::new(&id.limits()?)?;
        let client = id.remote_address()?;
        let pd = ProtectionDomain::new(id.clone()).inspect_err(|error| {
            trace::event!(svcrdma_pd_err(client.text().as_c_str(), *error));
        })?;
        let queue = loop {
            let parameters = limits.parameters::<Connection>()?;
            match (
                parameters.make(id.clone(), pd.clone(), &mut Buffers::new()),
                limits.halved(),
            ) {
                // The device's attributes promise more than it has.
                (Err(EINVAL | ENOMEM), Some(halved)) => limits = halved,
                (queue, _) => {
                    break queue.inspect_err(|error| {
                        trace::event!(svcrdma_qp_err(client.text().as_c_str(), *error));
                    })?;
                }
            }
        };
        connection.set_client(client, rejected_calls);
        connection.set_link(link);
        let theirs = connection.client_private_data;
        let thresholds = Thresholds::negotiate(Role::Server, limits.inline, theirs);
        Ok(SendPath {
            queue,
            connection: connection.clone(),
            limits,
            inline_threshold: thresholds.reply,
            remote_invalidation: cm_private_data::may_invalidate(limits.inline, theirs),
        })
    }

    /// Accepts the connection. If that fails, rejects it. Sleeps.
    pub(super) fn start(&self) -> Result {
        self.accept().inspect_err(|_| {
            self.id.reject();
            let _ = self.send_path.connection.state.on(Event::Failed);
        })
    }

    fn accept(&self) -> Result {
        let SendPath {
            connection, limits, ..
        } = &self.send_path;
        let initiator_depth = connection
            .initiator_depth
            .min(self.id.limits()?.initiator_depth);
        if initiator_depth == 0 {
            // Such a client executes no RDMA Read at all.
            trace::event!(svcrdma_initdepth_err(
                connection.client_text().as_c_str(),
                EINVAL
            ));
            return Err(EINVAL);
        }
        // RFC 8166, section 3.3.1: Receives for the first grant are posted before the first Call.
        self.send_path.grant_first()?;
        if connection.state.on(Event::Prepared) != Action::Accept {
            return Err(not_connected());
        }
        self.id.limit_ack_timeout(MAX_ACK_TIMEOUT);
        self.id.set_rnr_timer(RNR_TIMER);
        self.send_path
            .queue
            .accept(&ConnectParameters {
                private_data: &limits.inline.emit(),
                responder_resources: 0,
                initiator_depth,
                retry_count: 0,
                // The client's device takes this: it waits for a Receive as long as it takes. A client may have to, for a moment,
                // that gives up a call, or is slow to use fewer credits.
                rnr_retry_count: 7,
            })
            .inspect_err(|error| {
                trace::event!(svcrdma_accept_err(
                    connection.client_text().as_c_str(),
                    *error
                ));
            })?;
        connection.watch_accepted();
        Ok(())
    }

    /// The local and the remote address.
    pub(super) fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Ok((self.id.local_address()?, self.id.remote_address()?))
    }

    /// Disconnects: what is posted completes, and what waits to be posted is dropped. Once more does no harm. Sleeps.
    pub(super) fn disconnect(&self) {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let _ = connection.state.on(Event::Close);
        // It has ended if that fails. Not left out the second time: over iWARP the first may come too early to have an effect.
        let _ = queue.disconnect();
        // The pages of what waits are of no use any more, and the transport may be freed much later.
        connection.resume(queue);
    }

    /// Drains the queue pair and frees the work. When this returns no memory is under DMA, and no
    /// handler runs. Sleeps.
    pub(super) fn drain(&self) {
        let connection = &self.send_path.connection;
        let _ = connection.state.on(Event::Close);
        self.send_path.queue.drain();
        connection.clear();
        let _ = connection.state.on(Event::Drained);
    }

    /// An [`SvcCall`] for a new call: one of an earlier call, or a new one. [`None`] if there is no
    /// memory.
    pub(super) fn take_call(&self) -> Option<KBox<SvcCall<Self>>> {
        let free = self.free_calls.lock().pop();
        free.or_else(|| KBox::new(SvcCall::new(CallContext::new()), GFP_KERNEL).ok())
    }

    /// Keeps `call`, which is over, for a later call.
    pub(super) fn release_call(&self, mut call: KBox<SvcCall<Self>>) {
        if let Some(message) = call.take_message() {
            self.repost(message);
        }
        call.context.clear();
        let excess = self.free_calls.lock().push_within_capacity(call);
        drop(excess);
    }

    /// Frees the [`SvcCall`]s that are kept for later calls.
    pub(super) fn give_up_calls(&self) {
        loop {
            let call = self.free_calls.lock().pop();
            if call.is_none() {
                break;
            }
        }
    }

    /// Gives back the Receive of `message`, to be posted again.
    pub(super) fn repost(&self, message: Message<Connection>) {
        self.send_path
            .connection
            .repost(&self.send_path.queue, message);
    }

    /// Replies to `message` with an RDMA_ERROR message. If that fails, has the connection closed.
    /// Sleeps.
    pub(super) fn send_error(&self, message: Message<Connection>, error: &ErrorMessage) {
        match error.error {
            RdmaError::Version { .. } => trace::event!(svcrdma_err_vers(error.xid)),
            RdmaError::Chunk => trace::event!(svcrdma_err_chunk(error.xid)),
        }
        let Ok(mut bytes) = self.send_path.message_memory() else {
            return self.close_unanswered(message);
        };
        match error.emit(self.send_path.credits(), bytes.bytes_mut()) {
            Ok(len) => {
                let SendPath {
                    queue, connection, ..
                } = &self.send_path;
                let message = Outgoing {
                    bytes,
                    len,
                    attached: Attached::Nothing,
                    memory: None,
                    verb: Verb::Send,
                    xid: error.xid,
                    answers: message,
                };
                // An error has the connection closed.
                if let Err(failure) = connection.send(queue, message) {
                    connection.trace_send_error(error.xid, failure);
                }
            }
            Err(_) => {
                self.send_path.put_back(bytes);
                self.repost(message);
                let connection = &self.send_path.connection;
                connection.lost(Event::Unanswered, c"an error could not be encoded");
            }
        }
    }

    /// Has the connection closed, because there will be no reply to `message`: the client would
    /// wait for it (RFC 8166, section 4.5.4).
    pub(super) fn close_unanswered(&self, message: Message<Connection>) {
        self.repost(message);
        let connection = &self.send_path.connection;
        connection.lost(Event::Unanswered, c"a call cannot be answered");
    }
}
