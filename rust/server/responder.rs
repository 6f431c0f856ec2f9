// SPDX-License-Identifier: GPL-2.0

//! The part of a connection that belongs to the device: its creation, acceptance, drain and end.
//!
//! RFC 8166, section 3.3 (credits and inline threshold); RFC 8797 (private data).
//!
//! # Lent messages
//!
//! sunrpc reads a call from the message that it came in until it replies, and a file system may
//! take hours for that. The connection may end meanwhile, and the removal of its device waits for
//! everything that is mapped for it. So sunrpc gets only the memory of a message. The Receive stays
//! in a place of the call ([`CallContext::lend`]) that is listed here too, and is freed with the
//! connection; after that there is no message to reply to.

use super::{
    call::CallContext,
    rdma_read::PagePool, //
};
use crate::prelude::*;
use proto::{
    cm_private_data,
    conn::server as conn,
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
    receive::LentReceive,
    send::Buffers,
    ProtectionDomain, //
};
use sunrpc::SvcCall;

/// The longest time for which the device waits for an acknowledgement before it retransmits, as
/// InfiniBand encodes it: two seconds. A client may ask for less, as all known ones do.
const MAX_ACK_TIMEOUT: u8 = 19;

/// The RNR timer as InfiniBand encodes it, 10.24 ms: the delay after which a client's device
/// retransmits a message that found no Receive. A client that respects its credits hardly ever
/// meets it. One that does not is slowed by its own device: it sends at most as many messages as
/// there are Receives in this time.
const RNR_TIMER: u8 = 20;

/// The part of a connection that belongs to the device. A thread holds a reference while it uses
/// it.
#[pin_data]
pub(super) struct Responder {
    pub(super) page_pool: Arc<PagePool>,
    /// The places for Receives of messages whose memory is lent to sunrpc.
    #[pin]
    lent: SpinLock<LentReceives>,
    pub(super) send_path: SendPath,
    id: Arc<Id<ServerConn>>,
}

impl Responder {
    /// Creates all that the connection needs, but does not accept it. Sleeps.
    pub(super) fn new(
        id: Arc<Id<ServerConn>>,
        connection: Arc<ServerConn>,
        link: WeakSvcXprt<ServerTransport>,
        page_pool: Arc<PagePool>,
        denied_calls: Arc<DeniedCalls>,
    ) -> Result<Arc<Self>> {
        let send_path = Self::create_send_path(&id, connection, link, denied_calls)
            .inspect_err(|_| id.reject())?;
        Arc::pin_init(
            pin_init!(Self {
                page_pool,
                lent <- new_spinlock!(LentReceives::EMPTY, "rpcrdma::lent_receives"),
                send_path,
                id,
            }),
            GFP_KERNEL,
        )
    }

    /// Creates the protection domain and the queue pair.
    fn create_send_path(
        id: &Arc<Id<ServerConn>>,
        connection: Arc<ServerConn>,
        link: WeakSvcXprt<ServerTransport>,
        denied_calls: Arc<DeniedCalls>,
    ) -> Result<SendPath> {
        let mut limits = config::QueueLimits::new(&id.limits()?)?;
        let wanted = limits.credits;
        let client = id.remote_address()?;
        let pd = ProtectionDomain::new(id.clone()).inspect_err(|error| {
            trace::event!(svcrdma_pd_err(client.text().as_c_str(), *error));
        })?;
        let queue = loop {
            let parameters = limits.parameters()?;
            match (
                parameters.make(id.clone(), pd.clone(), &mut Buffers::new()),
                limits.halved(),
            ) {
                // The device's attributes promise more than it has, or memory is short. Each driver
                // has an error of its own for that.
                (Err(_), Some(halved)) => limits = halved,
                (queue, _) => {
                    break queue.inspect_err(|error| {
                        trace::event!(svcrdma_qp_err(client.text().as_c_str(), *error));
                    })?;
                }
            }
        };
        if limits.credits < wanted {
            let (credits, client) = (limits.credits, client.text());
            endpoint::log(|| {
                let client = client.as_c_str();
                pr_warn!("the connection of {client} has {credits} instead of {wanted} credits: the device, or memory, was short of more\n");
            });
        }
        connection.set_client(client, denied_calls);
        connection.set_link(link);
        let theirs = connection.client_private_data;
        let thresholds = Thresholds::negotiate(Role::Server, limits.inline, theirs);
        Ok(SendPath {
            queue,
            connection,
            limits,
            inline_threshold: thresholds.reply,
            remote_invalidation: cm_private_data::may_invalidate(limits.inline, theirs),
            unused_reply_chunk: cm_private_data::takes_unused_reply_chunk(theirs),
        })
    }

    /// Accepts the connection. If that fails, rejects it. Sleeps.
    pub(super) fn start(&self) -> Result {
        self.accept().inspect_err(|_| {
            self.id.reject();
            let _ = self.send_path.connection.state.on(conn::Event::Failed);
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
        // Argues for S2.3.2-02.
        self.send_path.grant_first()?;
        if connection.state.on(conn::Event::Prepared) != conn::Action::Accept {
            return Err(enotconn());
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
                // 7 means to retry for ever on RNR. The client's device uses this value for its
                // Sends; a client that abandons a call, or is slow to respect a lower grant, may
                // briefly exceed its credits.
                rnr_retry_count: 7,
            })
            .inspect_err(|error| {
                trace::event!(svcrdma_accept_err(
                    connection.client_text().as_c_str(),
                    *error
                ));
            })?;
        connection.start_accept_watchdog();
        Ok(())
    }

    /// Returns the local and the remote address.
    pub(super) fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Ok((self.id.local_address()?, self.id.remote_address()?))
    }

    /// Ends the connection: posted work requests complete, and waiting ones are dropped.
    /// Idempotent. Sleeps.
    pub(super) fn disconnect(&self) {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let _ = connection.state.on(conn::Event::Close);
        // An error means that the connection has ended. Repeated each time: over iWARP the first
        // attempt may come too early to have an effect.
        let _ = queue.disconnect();
        // Frees the pages of waiting messages now, as the transport may be freed much later.
        connection.on_space_freed(queue);
    }

    /// Drains the queue pair and frees the queued work. When this returns, no memory is under DMA
    /// and no handler runs. Sleeps.
    pub(super) fn drain(&self) {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let _ = connection.state.on(conn::Event::Close);
        queue.drain();
        connection.clear(queue);
        let _ = connection.state.on(conn::Event::Drained);
    }

    /// Makes an unused call, with a place for the Receive of its message. [`None`] if memory is
    /// short. Sleeps.
    pub(super) fn new_call(&self) -> Option<KBox<SvcCall<ServerTransport>>> {
        let place = Arc::new(LentReceive::new(), GFP_KERNEL).ok()?;
        let context = CallContext::new(place.clone());
        let call = KBox::new(SvcCall::new(context), GFP_KERNEL).ok()?;
        let mut place = place;
        loop {
            let mut lent = self.lent.lock();
            match lent.add(place) {
                Ok(()) => return Some(call),
                Err(back) => place = back,
            }
            let capacity = lent.next_capacity();
            drop(lent);
            let mut longer = LentReceives(KVec::with_capacity(capacity, GFP_KERNEL).ok()?);
            self.lent.lock().grow_into(&mut longer);
        }
    }

    /// Forgets the place of `call`, which is to be freed.
    pub(super) fn forget_call(&self, call: &SvcCall<ServerTransport>) {
        self.lent.lock().remove(&call.context.lent);
    }

    /// Frees the memory of the list of lent messages if there are no calls.
    pub(super) fn free_spares(&self) {
        let spare = self.lent.lock().take_spare();
        drop(spare);
    }

    /// Reposts the Receive of `message`.
    pub(super) fn repost(&self, message: Message<ServerConn>) {
        self.send_path
            .connection
            .repost(&self.send_path.queue, message);
    }

    /// Replies to `message` with an RDMA_ERROR message. Closes the connection on failure. Sleeps.
    pub(super) fn send_error(&self, message: Message<ServerConn>, error: &ErrorMessage) {
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
                let message = WithMessage {
                    message,
                    state: Outgoing {
                        bytes,
                        len,
                        attached: Attached::Nothing,
                        memory: None,
                        kind: SendKind::Plain,
                        xid: error.xid,
                    },
                };
                // An error closes the connection.
                if let Err(failure) = connection.send(queue, message) {
                    connection.trace_send_error(error.xid, failure);
                }
            }
            Err(_) => {
                self.send_path.put_back(bytes);
                self.repost(message);
                let connection = &self.send_path.connection;
                connection.end(Cause::ErrorNotEncoded);
            }
        }
    }

    /// Closes the connection because there will be no reply to `message`, which the client would
    /// wait for (RFC 8166, section 4.5.4).
    pub(super) fn close_unanswered(&self, message: Message<ServerConn>) {
        self.repost(message);
        self.send_path.connection.end(Cause::Unanswered);
    }
}

/// The places for the Receives of lent messages: one for each call, whether in progress or free, of
/// the connection.
///
/// A call puts its Receive there and takes it back without a lock; the list is locked only when a
/// call is made or freed. When the list is dropped, with the [`Responder`], all Receives in it are
/// freed. Who puts one there has a reference to the [`Responder`], so none comes after that.
pub(super) struct LentReceives(KVec<Arc<LentReceive<ServerConn>>>);

impl LentReceives {
    const EMPTY: Self = Self(KVec::new());

    /// The number of entries of the shortest list.
    const FIRST: usize = 8;

    /// Adds `place`. Returns it if there is no room.
    fn add(
        &mut self,
        place: Arc<LentReceive<ServerConn>>,
    ) -> Result<(), Arc<LentReceive<ServerConn>>> {
        self.0.push_within_capacity(place).map_err(|error| error.0)
    }

    /// Returns the capacity of the next longer list.
    fn next_capacity(&self) -> usize {
        self.0.len().saturating_mul(2).max(Self::FIRST)
    }

    /// Moves all entries to `other`, which is empty, and swaps the two, if `other` has more room.
    fn grow_into(&mut self, other: &mut Self) {
        if other.0.capacity() <= self.0.capacity() {
            return;
        }
        for place in self.0.drain_all() {
            // There is room for all, which are no more than the smaller capacity.
            let _ = other.0.push_within_capacity(place);
        }
        core::mem::swap(self, other);
    }

    /// Removes `place`.
    fn remove(&mut self, place: &Arc<LentReceive<ServerConn>>) {
        self.0.retain(|other| !Arc::ptr_eq(other, place));
    }

    /// Takes the memory of the list if that has no entries.
    fn take_spare(&mut self) -> Option<Self> {
        self.0
            .is_empty()
            .then(|| core::mem::replace(self, Self::EMPTY))
    }
}

impl Drop for LentReceives {
    /// Frees the Receives of messages that are still lent. Those of later calls of the same place
    /// have none.
    fn drop(&mut self) {
        for place in self.0.iter() {
            drop(place.take());
        }
    }
}
