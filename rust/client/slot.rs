// SPDX-License-Identifier: GPL-2.0

//! The private state of a request slot: the chunk that the RPC in it offers, and the memory regions
//! that the server may still reach.
//!
//! # Local invalidation
//!
//! The memory of an RPC is released only when no region of it is valid. After a reply, the
//! completion handler has the regions invalidated before it completes the RPC. If an RPC ends
//! without a reply, or sunrpc may give back some of its memory because no reply came in time, its
//! own task does so in [`Slot::release`], and waits. If the invalidations cannot be posted or fail,
//! the task waits until the connection is closed.
//!
//! # The reference to the connection
//!
//! A slot has a reference to the connection in use, which one Call passes to the next: the slot
//! gives it to the prepared Call, and gets it back when that is sent. So an RPC writes no cache
//! line that RPCs in other slots write as well, as it would to take a reference. Who puts one into
//! a slot owns `XPRT_LOCKED`, without which the connection is not closed, and without which nobody
//! else puts one there. [`Slot::reset`], which closes it, takes the reference out. So none outlives
//! the close but in a task that prepares a Call, which then drops it. The reference is in a cell
//! that needs no lock ([`AtomicCell`]): whoever takes it has it.
//!
//! # The first encoding of a Call
//!
//! takes no lock ([`Slot::begin`]): nothing in the slot is of this Call yet, and nothing is left of
//! the one before. Its task has released all that it had ([`Slot::release`]) before it gave the
//! slot back, and sunrpc passes a free slot on under a lock. Since then nobody has had a reason to
//! change the slot: a Call is sent after it is encoded, a reply is for a Call that was sent, and
//! [`Slot::reset`] finds nothing. What tells is `SlotInner::unreleased`, and not the XID: a Call
//! may be sent without ever having come here.

use super::{
    reply::MatchedReply,
    send::PreparedCall, //
};
use crate::prelude::*;
use kernel::{
    new_condvar,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        CondVar,
        SpinLockGuard, //
    }, //
};
use rdma::{
    atomic_cell::AtomicCell,
    mr::Registered, //
};

/// The context of a chain of local invalidations: the reason for it.
pub(crate) enum InvalidateContext {
    /// The reply is here. It completes the RPC next.
    Reply(MatchedReply),
    /// The RPC ends without a reply. Its task waits.
    Release(Arc<SlotInner>),
}

/// The private state of a request slot.
#[pin_data]
pub(crate) struct Slot {
    inner: Arc<SlotInner>,
    /// The connection in use, if it is known and not with a prepared Call.
    active: AtomicCell<Arc<ActiveConnection>>,
}

/// All of a slot. Local invalidations that are posted keep it alive.
#[pin_data]
pub(crate) struct SlotInner {
    /// Whether [`Slot::release`] may have something to do. If not, the Call is neither prepared nor
    /// outstanding, no region is registered, and no invalidation is pending. Changed under the lock
    /// of `state`, but for the `true` of [`Slot::begin`].
    ///
    /// [`Slot::release`] reads it without the lock, and must not read a `false` that is older than
    /// what others stored:
    ///
    /// * What the RPC's own task stored is before that in its program order.
    /// * A task that sends the Call stores `true` before sunrpc takes `transport_lock` for its
    ///   statistics and then clears `RPC_TASK_NEED_XMIT` (`xprt_request_transmit`). The RPC's own
    ///   task takes that lock in `xprt_release` before it gives the buffers back, which calls
    ///   [`Slot::release`]. If it found that bit set, or `RPC_TASK_NEED_RECV`, or the request
    ///   pinned, it has taken `queue_lock` and waited for the pin.
    /// * A handler that could not invalidate the regions of a Call stores `true` while it has the
    ///   request pinned, and does not complete the Call, so `RPC_TASK_NEED_RECV` is set.
    unreleased: Atomic<bool>,
    #[pin]
    state: SpinLock<SlotState>,
    #[pin]
    invalidation_ended: CondVar,
}

/// The state of a slot.
pub(crate) struct SlotState {
    /// The Call was sent and has no reply. Otherwise a server that guesses XIDs sent a reply before
    /// the Call.
    pub(super) call_outstanding: bool,
    /// The XID of the Call that was sent last.
    pub(super) xid: u32,
    broken_reply: BrokenReply,
    /// The chunk that the Call offers that is outstanding, or is `prepared`.
    pub(super) offered: Offered,
    /// A Call that waits for its turn to be sent.
    prepared: Option<PreparedCall>,
    /// The regions that the server may reach.
    pub(super) registered: Registered<ClientConn>,
    invalidation: Invalidation,
}

/// The history of replies to the Call that break the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BrokenReply {
    /// There was none.
    None,
    /// There was one over this connection. The right one may follow.
    ThisConnection,
    /// There was one over an earlier connection.
    EarlierConnection,
}

/// The state of the regions that [`Slot::release`] took out of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalidation {
    /// There are no regions, or none is valid.
    Done,
    /// The regions are being invalidated or deregistered.
    Pending,
    /// The invalidation failed. They are deregistered when their connection is closed.
    Failed,
}

/// The connection in use, if a slot knows it.
pub(super) type KnownConnection = Option<Arc<ActiveConnection>>;

/// The server may still answer a transmission of the Call, or reach its memory.
pub(super) struct StillSent;

impl SlotState {
    /// Takes the Call that [`Slot::keep`] kept.
    pub(super) fn take_prepared(&mut self) -> Option<PreparedCall> {
        self.prepared.take()
    }

    /// Sets the offered chunk. Most Calls offer none, and then no [`Chunk`](super::chunk::Chunk) is
    /// copied.
    pub(super) fn set_offered(&mut self, offered: Offered) {
        match offered {
            Offered::Nothing => self.offered = Offered::Nothing,
            offered => self.offered = offered,
        }
    }

    /// Records that the Call `xid` was sent, with these regions. Returns those that an earlier Call
    /// left: none, as before a slot sends again, they are invalidated or their connection is
    /// closed.
    ///
    /// A broken reply came over an earlier connection. Or another reply that sunrpc did not accept
    /// followed it over this one, and such a server will hardly do better.
    fn sent(&mut self, xid: u32, registered: Registered<ClientConn>) -> Registered<ClientConn> {
        self.broken_reply = match self.broken_reply {
            BrokenReply::None => BrokenReply::None,
            _ if self.xid == xid => BrokenReply::EarlierConnection,
            _ => BrokenReply::None,
        };
        self.call_outstanding = true;
        self.xid = xid;
        core::mem::replace(&mut self.registered, registered)
    }

    /// Records a reply to the Call that breaks the protocol. Returns whether there was one over an
    /// earlier connection as well: then the server will never send another, however often the Call
    /// is sent.
    pub(super) fn is_broken_again(&mut self) -> bool {
        if self.broken_reply == BrokenReply::EarlierConnection {
            return true;
        }
        self.broken_reply = BrokenReply::ThisConnection;
        false
    }

    /// Returns whether the server may still answer a transmission of the Call, or reach its memory.
    fn is_sent(&self) -> bool {
        self.call_outstanding || !self.registered.is_empty()
    }
}

impl SlotInner {
    /// Ends the wait for the invalidation: the regions are invalid or deregistered.
    pub(super) fn invalidated(&self) {
        self.end_invalidation(Invalidation::Done);
    }

    /// Ends the wait for the invalidation, which failed: the connection is lost.
    pub(super) fn invalidate_failed(&self) {
        self.end_invalidation(Invalidation::Failed);
    }

    /// Notes that [`Slot::release`] has something to do. `_state` shows that the state is locked.
    fn set_unreleased(&self, _state: &mut SlotState) {
        self.unreleased.store(true, Relaxed);
    }

    fn end_invalidation(&self, result: Invalidation) {
        self.state.lock().invalidation = result;
        self.invalidation_ended.notify_all();
    }

    /// Locks the state while no invalidation is pending. Sleeps.
    fn lock_settled(&self) -> SpinLockGuard<'_, SlotState> {
        let mut state = self.state.lock();
        while state.invalidation == Invalidation::Pending {
            self.invalidation_ended.wait(&mut state);
        }
        state
    }
}

impl Slot {
    pub(super) fn new() -> impl PinInit<Self, Error> {
        let state = SlotState {
            call_outstanding: false,
            xid: 0,
            broken_reply: BrokenReply::None,
            offered: Offered::Nothing,
            prepared: None,
            registered: Registered::new(),
            invalidation: Invalidation::Done,
        };
        try_pin_init!(Self {
            inner: Arc::pin_init(
                pin_init!(SlotInner {
                    unreleased: Atomic::new(false),
                    state <- new_spinlock!(state, "rpcrdma::slot"),
                    invalidation_ended <- new_condvar!("rpcrdma::invalidation_ended"),
                }),
                GFP_KERNEL,
            )?,
            active: AtomicCell::new(),
        })
    }

    /// Locks the state.
    pub(super) fn lock(&self) -> SpinLockGuard<'_, SlotState> {
        self.inner.state.lock()
    }

    /// Begins a new encoding of the Call, in its own task. Returns the Call that was prepared from
    /// an earlier one, and, unless the server may still answer a transmission of the Call, or reach
    /// its memory, the connection in use as far as the slot knows it.
    pub(super) fn begin(&self) -> (Option<PreparedCall>, Result<KnownConnection, StillSent>) {
        let mut prepared = None;
        if self.inner.unreleased.load(Acquire) {
            let mut state = self.lock();
            prepared = state.prepared.take();
            if state.is_sent() {
                return (prepared, Err(StillSent));
            }
        } else {
            // Whatever a sender stores later, this task reads it or that in `release`. Without the
            // lock, as nobody else changes it: a sender has the Call only after this.
            self.inner.unreleased.store(true, Relaxed);
        }
        (prepared, Ok(self.active.take()))
    }

    /// Keeps `prepared`, which offers `offered`, until its turn to be sent. Returns it if its
    /// connection is no longer open, because then nothing would cancel it.
    pub(super) fn keep(
        &self,
        prepared: PreparedCall,
        offered: Offered,
    ) -> Result<(), PreparedCall> {
        let mut state = self.lock();
        // An outstanding transmission of this Call has its memory mapped. If the Call is sent
        // again, then over another connection.
        if state.is_sent() {
            return Err(prepared);
        }
        self.put_back(&mut state, prepared)?;
        state.set_offered(offered);
        Ok(())
    }

    /// Keeps `prepared`, whose turn to be sent has not come or has no room yet. Returns it if its
    /// connection is no longer open, because then nothing would cancel it.
    pub(super) fn put_back(
        &self,
        state: &mut SlotState,
        prepared: PreparedCall,
    ) -> Result<(), PreparedCall> {
        if !prepared.is_for_open_connection() {
            return Err(prepared);
        }
        self.inner.set_unreleased(state);
        state.prepared = Some(prepared);
        Ok(())
    }

    /// Records that the Call was sent ([`SlotState::sent`]) over `active`, and keeps that for the
    /// next Call. Returns what an earlier Call left: no regions, but perhaps another reference to
    /// the same connection. The caller owns `XPRT_LOCKED`, so that the connection is not closed
    /// meanwhile, and nobody else calls this.
    pub(super) fn sent(
        &self,
        state: &mut SlotState,
        xid: u32,
        registered: Registered<ClientConn>,
        active: Arc<ActiveConnection>,
    ) -> (Registered<ClientConn>, KnownConnection) {
        self.inner.set_unreleased(state);
        (state.sent(xid, registered), self.active.put_alone(active))
    }

    /// Takes the regions of a Call that is answered.
    pub(super) fn answered(
        &self,
        mut state: SpinLockGuard<'_, SlotState>,
    ) -> Registered<ClientConn> {
        state.call_outstanding = false;
        let registered = core::mem::take(&mut state.registered);
        // A Call that was sent is not prepared again before it is released.
        if state.prepared.is_none() {
            self.inner.unreleased.store(false, Release);
        }
        registered
    }

    /// Takes back regions of an answered Call that could not be invalidated. [`Self::release`]
    /// waits until they are invalid; they are so at the latest when the connection is closed.
    pub(super) fn take_back(&self, registered: Registered<ClientConn>) {
        let mut state = self.lock();
        self.inner.set_unreleased(&mut state);
        let none = core::mem::replace(&mut state.registered, registered);
        drop(state);
        // The Call had no others.
        drop(none);
    }

    /// Releases all resources of a connection whose queue pair is drained. Returns how many regions
    /// were registered. Sleeps.
    pub(super) fn reset(&self) -> u64 {
        let mut state = self.lock();
        state.call_outstanding = false;
        let prepared = state.prepared.take();
        let registered = core::mem::take(&mut state.registered);
        let count = registered.len() as u64;
        if count > 0 {
            state.invalidation = Invalidation::Pending;
        }
        drop(state);
        drop(self.active.take());
        if let Some(prepared) = prepared {
            prepared.cancel();
        }
        drop(registered);
        if count > 0 {
            self.inner.invalidated();
        }
        count
    }

    /// Cancels a Call that was not sent, and returns when the server can reach no memory of the
    /// RPC, though there was no reply. Sleeps if there are regions to invalidate.
    pub(super) fn release(
        &self,
        rqst: &Rqst<ClientTransport>,
        active: impl FnOnce() -> Option<Arc<ActiveConnection>>,
    ) {
        if !self.inner.unreleased.load(Acquire) {
            return;
        }
        let mut state = self.inner.lock_settled();
        state.call_outstanding = false;
        let prepared = state.prepared.take();
        let registered = core::mem::take(&mut state.registered);
        self.inner.unreleased.store(false, Relaxed);
        drop(state);
        if let Some(prepared) = prepared {
            prepared.cancel();
        }
        if !registered.is_empty() {
            self.invalidate(rqst, registered, active());
        }
    }

    /// Invalidates `registered`, and waits until no region of it is valid. Sleeps.
    fn invalidate(
        &self,
        rqst: &Rqst<ClientTransport>,
        registered: Registered<ClientConn>,
        active: Option<Arc<ActiveConnection>>,
    ) {
        // A connection is the active one until its queue pair is drained. To drop regions of
        // another one deregisters them.
        let active = active.filter(|active| registered.are_on(&active.queue));
        let Some(active) = active else {
            drop(registered);
            return;
        };
        let ActiveConnection { queue, connection } = &*active;
        connection.note_local_invalidations(rqst, &registered);
        self.lock().invalidation = Invalidation::Pending;
        let context = InvalidateContext::Release(self.inner.clone());
        if let Err((registered, _)) = queue.post_invalidate(registered, context) {
            // The connection is lost, if it is not being closed already. The regions are
            // deregistered when its queue pair is drained.
            connection.end(Cause::InvalidationNotPosted);
            let error = errno::enotconn();
            trace::event!(xprtrdma_post_linv_err(rqst.task_id(), error));
            drop(registered);
            self.inner.invalidate_failed();
        }
        let result = core::mem::replace(
            &mut self.inner.lock_settled().invalidation,
            Invalidation::Done,
        );
        if result == Invalidation::Failed {
            // The close frees the queue pair, so this task must not.
            let connection = connection.clone();
            drop(active);
            connection.state().wait_until_closed();
        }
    }
}
