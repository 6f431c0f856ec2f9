// SPDX-License-Identifier: GPL-2.0

//! The context of one connection, which its id and its completion queue share.
//!
//! The context owns neither of them. The messages in its work queue keep the protection domain
//! alive, and through it the id, which keeps this context: [`Connection::clear`] breaks that
//! reference cycle.

use super::{
    config::{
        BAD_CALLS,
        LOST,
        SQ_STARVE, //
    },
    connection_state::ConnectionState,
    credits::Credits,
    read_budget::{
        CallsRead,
        ReadPages, //
    },
    rejected_calls::RejectedCalls,
    room_queue::Attempt,
    waiting::{
        Outgoing,
        WaitingReads, //
    },
    work_queue::{
        ChunkedCall,
        WaitingFor,
        Work,
        WorkQueue, //
    },
};
use crate::endpoint::{
    self,
    ReceiveRing, //
};
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        Flags, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        Arc,
        SetOnce,
        SpinLock, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};
use proto::{
    call::Dropped,
    cm_private_data::PrivateData,
    conn::server::{
        Action,
        Event, //
    },
};
use rdma::{
    receive::Message,
    QueuePair,
    WcStatus, //
};
use sunrpc::{
    AddrText,
    SockAddr,
    SvcConnection,
    SvcLink,
    SvcXprt, //
};

/// The number of malformed messages in a row that ends a connection.
const MAX_MALFORMED: u32 = 16;

/// The client's address, and the calls whose chunks clients denied access to.
struct Client {
    address: SockAddr,
    rejected_calls: Arc<RejectedCalls>,
    /// The value of [`RejectedCalls::added`] up to which no call is of this client.
    looked_at: Atomic<u64>,
}

/// The context of a connection, for the `svc_xprt` whose private state is `T`.
///
/// `T` is a parameter because it owns the queue pair, whose type refers to this context.
#[pin_data]
pub(crate) struct Connection<T: SvcConnection> {
    /// The listener that got the connection request. Used until [`Self::link`] is set.
    listener: SvcLink<T::Listener>,
    pub(super) link: SetOnce<SvcLink<T>>,
    client: SetOnce<Client>,
    /// The private data of the client's connection request.
    pub(super) client_private_data: Option<PrivateData>,
    /// The number of RDMA Reads that the client executes in parallel.
    pub(super) initiator_depth: u8,
    #[pin]
    pub(super) state: ConnectionState,
    #[pin]
    work: SpinLock<WorkQueue<Self>>,
    /// Event counters; see [`Self::resumed`] and [`Self::pages_freed`].
    resumed: Atomic<u64>,
    pages_freed: Atomic<u64>,
    /// The numbers of waiters for Send buffers, SQ credits and pages. Changed under the lock of
    /// `work`.
    for_buffers: Atomic<usize>,
    for_credits: Atomic<usize>,
    for_pages: Atomic<usize>,
    #[pin]
    pub(super) receives: ReceiveRing<Self>,
    #[pin]
    pub(super) credits: Credits,
    pub(super) calls_read: CallsRead,
    /// Whether Receives for replies to backchannel calls are posted.
    pub(super) expects_replies: Atomic<bool>,
    /// The numbers of messages received and of Receives given back. They may wrap.
    arrived: Atomic<u32>,
    given_back: Atomic<u32>,
    /// The number of malformed messages since the last call.
    malformed: Atomic<u32>,
    /// Whether the timer of the transport runs.
    pub(super) watched: Atomic<bool>,
    /// Whether the connection was counted as lost.
    counted_lost: AtomicFlag,
    /// When the client was accepted.
    pub(super) accepted: SetOnce<Instant<Monotonic>>,
    /// Set by the watchdog when it has seen a first message.
    pub(super) has_message: Atomic<bool>,
    /// When `RDMA_CM_EVENT_ESTABLISHED` arrived.
    pub(super) established: SetOnce<Instant<Monotonic>>,
}

impl<T: SvcConnection> Connection<T> {
    /// Creates the context for a connection request with `private_data` to `listener`. Sleeps.
    pub(super) fn new(
        listener: SvcLink<T::Listener>,
        private_data: &[u8],
        initiator_depth: u8,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                listener,
                link: SetOnce::new(),
                client: SetOnce::new(),
                client_private_data: PrivateData::parse(private_data),
                initiator_depth,
                state <- ConnectionState::new(),
                work <- new_spinlock!(WorkQueue::EMPTY, "rpcrdma::work"),
                resumed: Atomic::new(0),
                pages_freed: Atomic::new(0),
                for_buffers: Atomic::new(0),
                for_credits: Atomic::new(0),
                for_pages: Atomic::new(0),
                receives <- ReceiveRing::new(),
                credits <- Credits::new(),
                calls_read: CallsRead::new(),
                expects_replies: Atomic::new(false),
                arrived: Atomic::new(0),
                given_back: Atomic::new(0),
                malformed: Atomic::new(0),
                watched: Atomic::new(false),
                counted_lost: AtomicFlag::new(false),
                accepted: SetOnce::new(),
                has_message: Atomic::new(false),
                established: SetOnce::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the address of the client, and the list of calls whose chunks clients denied access to.
    pub(super) fn set_client(&self, address: SockAddr, rejected_calls: Arc<RejectedCalls>) {
        self.client.populate(Client {
            address,
            rejected_calls,
            looked_at: Atomic::new(0),
        });
    }

    /// Sets the `svc_xprt`, which is enqueued for work from now on.
    pub(super) fn set_link(&self, link: SvcLink<T>) {
        self.link.populate(link);
    }

    /// Reports `event`, which ends the connection. If it had not ended before, starts to close it
    /// and returns true.
    pub(super) fn begin_close(&self, event: Event) -> bool {
        let first = self.state.on(event) == Action::TearDown;
        if first || self.link.as_ref().is_none() {
            self.close();
        }
        first
    }

    /// Starts to close the connection in a work item. A deferred close would leave it to an nfsd
    /// thread, but the removal of a device may wait for the close while no thread is free. If no
    /// thread has accepted the connection yet, starts the timer of the listener, which drops the
    /// request. Does not sleep.
    pub(super) fn close(&self) {
        match self.link.as_ref() {
            Some(link) => link.with(|xprt| xprt.close_later()),
            None => self.listener.with(|xprt| xprt.start_timer(0)),
        };
    }

    /// Returns the client's address and port as text.
    pub(super) fn client_text(&self) -> AddrText {
        self.client
            .as_ref()
            .map_or(AddrText::EMPTY, |client| client.address.text())
    }

    /// Ends the connection as [`Self::begin_close`] does, and counts it as lost for this `reason`.
    pub(super) fn lost(&self, event: Event, reason: &CStr) {
        if self.begin_close(event) {
            self.count_lost(reason);
        }
    }

    /// Ends a lost connection from any context, interrupts included. May be called more than once,
    /// and leaves the state to [`Responder::disconnect`](super::responder::Responder::disconnect).
    pub(super) fn lost_in_interrupt(&self, reason: &CStr) {
        if self.state.is_open() {
            self.count_lost(reason);
        }
        self.close();
    }

    /// Counts and logs that the connection is lost, the first time, for this `reason`.
    fn count_lost(&self, reason: &CStr) {
        // The state cannot tell: it does not change in an interrupt.
        if self.counted_lost.xchg(true, Relaxed) {
            return;
        }
        LOST.add(1);
        endpoint::log(|| {
            let client = self.client_text();
            pr_info!("connection of {} lost: {reason}\n", client.as_c_str());
        });
    }

    /// Calls `line` with the client's address and port, if the limit of log lines about messages
    /// allows.
    pub(super) fn log_message(&self, line: impl FnOnce(&CStr)) {
        endpoint::log_message(|| line(self.client_text().as_c_str()));
    }

    /// Starts to close the connection because a work request failed.
    pub(super) fn close_on_error(&self, status: WcStatus) {
        self.begin_close(Event::Disconnected);
        // Flushed requests may complete first. Their status does not tell the cause.
        if !status.is_flush() {
            self.count_lost(status.reason());
        }
    }

    /// Starts to close the connection because an RDMA Read or Write for the message with this `xid`
    /// failed.
    pub(super) fn close_on_access_error(&self, xid: Option<u32>, status: WcStatus) {
        if let (true, Some(xid), Some(client)) = (status.is_denial(), xid, self.client.as_ref()) {
            client.rejected_calls.add(client.address.host_key(), xid);
        }
        self.close_on_error(status);
    }

    /// Returns whether the client denied access to the chunks of its call `xid` before, over any
    /// connection, and forgets that.
    pub(super) fn was_rejected(&self, xid: u32) -> bool {
        let Some(client) = self.client.as_ref() else {
            return false;
        };
        let added = client.rejected_calls.added();
        if client.looked_at.load(Relaxed) == added {
            return false;
        }
        let host = client.address.host_key();
        let (was_rejected, others) = client.rejected_calls.take(&host, xid);
        if !others {
            client.looked_at.store(added, Relaxed);
        }
        was_rejected
    }

    /// Grows the work queue for the messages of `count` Receives. Sleeps if `flags` allow it.
    pub(super) fn reserve_work(&self, count: usize, flags: Flags) -> Result {
        let mut queue = WorkQueue::with_capacity(count, flags)?;
        self.work.lock().move_to(&mut queue);
        // Frees the old entries, or the new ones if another thread has grown the queue meanwhile.
        drop(queue);
        Ok(())
    }

    /// Shrinks the work queue to `count` Receives, the number that there are, if it has more than
    /// twice as many entries. Sleeps.
    pub(super) fn shrink_work(&self, count: usize) {
        if self.work.lock().capacity() / 2 <= count {
            return;
        }
        // Without memory it stays as long as it is. Not GFP_KERNEL: freeing the connection waits
        // for this.
        if let Ok(mut queue) = WorkQueue::with_capacity(count, GFP_NOWAIT | __GFP_NOWARN) {
            self.work.lock().shrink_to(&mut queue);
            drop(queue);
        }
    }

    /// Takes the next work. Calls `emptied` under the lock of the queue if no more is left.
    pub(super) fn next_work(&self, emptied: impl FnOnce()) -> Option<Work<Self>> {
        let mut queue = self.work.lock();
        let work = queue.pop();
        if let Some(Work::Reads(_)) = work {
            self.note_waiting(&queue);
        }
        if queue.is_empty() {
            emptied();
        }
        work
    }

    /// Queues a received message, and wakes an nfsd thread for it.
    pub(super) fn queue_message(&self, message: Message<Self>) {
        self.queue_work(|queue| queue.push_received(message).err());
    }

    /// Queues a call whose RDMA Reads have completed, and wakes an nfsd thread for it.
    pub(super) fn queue_read_done(&self, call: ChunkedCall<Self>) {
        self.queue_work(|queue| queue.push_read_done(call).err());
    }

    /// Calls `add`, which returns an element that it could not add, and wakes an nfsd thread if
    /// there is work for it. Does not sleep.
    fn queue_work<R>(&self, add: impl FnOnce(&mut WorkQueue<Self>) -> Option<R>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let refused = link.with(|xprt| {
            let mut queue = self.work.lock();
            let refused = add(&mut queue);
            self.announce(queue, xprt);
            refused
        });
        // Nothing is refused until the connection has ended: there is an entry for each Receive.
        drop(refused);
    }

    /// Wakes an nfsd thread if there is work in `queue`. When the connection has ended there is no
    /// work, and sunrpc may have freed the transport.
    fn announce(&self, queue: Guard<'_, WorkQueue<Self>, SpinLockBackend>, xprt: &SvcXprt<T>) {
        if self.state.is_open() && !queue.is_empty() {
            xprt.data_pending();
            drop(queue);
            xprt.enqueue();
        }
    }

    /// Counts a received message.
    pub(super) fn begin_message(&self) {
        self.arrived.add(1, Relaxed);
    }

    /// Notes that a message was a call.
    pub(super) fn note_call(&self) {
        if self.malformed.load(Relaxed) != 0 {
            self.malformed.store(0, Relaxed);
        }
    }

    /// Notes that a message was malformed, or replied to no callback. Too many in a row end the
    /// connection: a well-behaved client sends calls in between. A call counts when a thread has
    /// taken it.
    pub(super) fn note_malformed(&self) {
        if self.malformed.fetch_add(1, Relaxed) >= MAX_MALFORMED {
            self.lost(Event::Failed, c"too many malformed messages in a row");
        }
    }

    /// Counts, logs and traces a `message` that is dropped for this `reason`. Does not sleep.
    pub(super) fn note_dropped(
        &self,
        queue: &QueuePair<Self>,
        message: &Message<Self>,
        reason: Dropped,
    ) {
        let (id, bytes) = (message.id(queue), message.bytes());
        BAD_CALLS.add(1);
        self.note_malformed();
        self.log_message(|client| pr_info!("dropped a message of {client}: {reason:?}\n"));
        match reason {
            Dropped::Runt(_) => trace::event!(svcrdma_decode_short_err(id, bytes.len())),
            _ => trace::event!(svcrdma_decode_drop_err(id, bytes)),
        }
    }

    /// Returns the number of messages received.
    pub(super) fn arrived(&self) -> u32 {
        self.arrived.load(Relaxed)
    }

    /// Returns the number of messages in progress.
    pub(super) fn in_progress(&self) -> u32 {
        // Loaded in this order, the difference is never negative.
        let given_back = self.given_back.load(Acquire);
        self.arrived().wrapping_sub(given_back)
    }

    /// Reposts the Receive of `message`.
    pub(super) fn repost(&self, queue: &QueuePair<Self>, message: Message<Self>) {
        self.given_back.fetch_add(1, Release);
        if self.receives.repost(queue, message.into_buffer()) {
            self.credits.receives_freed(1);
        }
    }

    /// Returns a counter that changes when another attempt to post may succeed. Read it before an
    /// attempt.
    pub(super) fn resumed(&self) -> u64 {
        self.resumed.load(Acquire)
    }

    /// Returns a counter that changes when pages are freed that another call waits for. Read it
    /// before an attempt.
    pub(super) fn pages_freed(&self) -> u64 {
        self.pages_freed.load(Acquire)
    }

    /// Returns whether Sends wait for Send buffers.
    pub(super) fn waits_for_buffers(&self) -> bool {
        self.for_buffers.load(Relaxed) != 0
    }

    /// Returns whether Sends or RDMA Reads wait for SQ credits.
    pub(super) fn waits_for_credits(&self) -> bool {
        self.for_credits.load(Relaxed) != 0
    }

    /// Returns whether RDMA Reads wait for pages.
    pub(super) fn waits_for_pages(&self) -> bool {
        self.for_pages.load(Relaxed) != 0
    }

    /// Queues `message` to wait for a Send buffer. An attempt has the value of [`Self::resumed`].
    pub(super) fn wait_for_buffer(&self, message: Outgoing<Self>, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.resumed, |queue, attempt| {
            queue.wait_for_buffer(message, attempt).err()
        });
    }

    /// Queues `waiting` to wait for SQ credits. An attempt has the value of [`Self::resumed`].
    pub(super) fn wait_for_credits(&self, waiting: WaitingFor<Self>, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.resumed, |queue, attempt| {
            queue.wait_for_credits(waiting, attempt).err()
        });
    }

    /// Queues `reads` to wait for pages. An attempt has the value of [`Self::pages_freed`].
    pub(super) fn wait_for_pages(&self, reads: WaitingReads<Self>, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.pages_freed, |queue, attempt| {
            queue.wait_for_pages(reads, attempt).err()
        });
    }

    /// Calls `add` with the attempt, and whether its counter has changed since.
    fn queue_waiting<R>(
        &self,
        attempt: Attempt<u64>,
        number: &Atomic<u64>,
        add: impl FnOnce(&mut WorkQueue<Self>, Attempt<bool>) -> Option<R>,
    ) {
        if !matches!(attempt, Attempt::Again(_)) {
            SQ_STARVE.add(1);
        }
        self.queue_work(|queue| {
            let refused = add(queue, attempt.map(|before| number.load(Acquire) != before));
            self.note_waiting(queue);
            refused
        });
    }

    /// Notes that the Send queue has space again. Call [`Self::next_waiting`] after this.
    pub(super) fn note_room(&self) {
        self.resumed.fetch_add(1, Release);
        self.work.lock().set_room();
    }

    /// Queues `reads`, which have SQ credits, for an nfsd thread to post.
    pub(super) fn queue_ready(&self, reads: WaitingReads<Self>) {
        self.queue_work(|queue| queue.push_ready(reads).err());
    }

    /// Returns the `pages` of a call that was read, and wakes an nfsd thread for reads that wait
    /// for pages. Does not sleep.
    pub(super) fn end_read(&self, pages: ReadPages) {
        if self.calls_read.end(pages) {
            self.pages_freed.fetch_add(1, Release);
            self.queue_work(|queue| {
                queue.set_pages();
                None::<()>
            });
        }
    }

    /// Notes that RDMA Reads from [`Self::next_waiting`] have been posted, or wait again. Call that
    /// again after this.
    pub(super) fn end_reads(&self) {
        self.work.lock().end_reads();
    }

    /// Takes the next waiter for which the Send queue may have space. If there is none, wakes an
    /// nfsd thread if there is work for it. Does not sleep.
    pub(super) fn next_waiting(&self) -> Option<WaitingFor<Self>> {
        let next = self.link.as_ref()?.with(|xprt| {
            let mut queue = self.work.lock();
            let next = queue.pop_waiting();
            match next {
                Some(_) => self.note_waiting(&queue),
                None => self.announce(queue, xprt),
            }
            next
        });
        next.flatten()
    }

    fn note_waiting(&self, queue: &WorkQueue<Self>) {
        let [for_buffers, for_credits, for_pages] = queue.waiting();
        self.for_buffers.store(for_buffers, Relaxed);
        self.for_credits.store(for_credits, Relaxed);
        self.for_pages.store(for_pages, Relaxed);
    }

    /// Frees the work and the Receives, and returns the connection's share of what all connections
    /// share. Nothing is queued here from now on, though threads may still use the connection. No
    /// handler runs any more. Sleeps.
    pub(super) fn clear(&self) {
        let work = self.work.lock().close();
        drop(work);
        drop(self.receives.close());
        self.credits.end();
    }
}
