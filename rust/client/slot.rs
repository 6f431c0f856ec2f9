// SPDX-License-Identifier: GPL-2.0

//! What a request slot remembers of the RPC in it: what the server was offered,
//! and which regions it may still reach.

use super::{
    connection::{
        Connection,
        Fenced, //
    },
    marshal::PreparedCall,
    Active, //
};
use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        SpinLock, //
    },
};
use proto::{
    chunk::Segment,
    reply::Offer, //
};
use rdma::mr::{
    self,
    Registered, //
};

/// Segments of one chunk.
///
/// # Invariants
///
/// `len` is at most [`Chunk::MAX`].
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    segments: [Segment; Self::MAX],
    len: usize,
}

impl Chunk {
    /// Head, pages and tail of an `xdr_buf` are three; a device that registers less than a
    /// megabyte at once needs more for the pages: nine, if it registers 32 pages.
    pub(crate) const MAX: usize = 11;

    /// No segment.
    pub(crate) const EMPTY: Self = Self {
        segments: [Segment {
            handle: 0,
            length: 0,
            offset: 0,
        }; Self::MAX],
        len: 0,
    };

    /// Adds a segment for `handle`. [`EINVAL`] if there are [`Self::MAX`] already.
    pub(crate) fn push(&mut self, handle: mr::Segment) -> Result {
        let place = self.segments.get_mut(self.len).ok_or(EINVAL)?;
        *place = Segment {
            handle: handle.rkey,
            length: handle.len,
            offset: handle.iova,
        };
        self.len += 1;
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[Segment] {
        self.segments.get(..self.len).unwrap_or(&[])
    }
}

/// The chunk that an RPC offers for its reply.
pub(crate) enum Offered {
    /// None.
    Nothing,
    /// One for the results that may leave the message.
    Write(Chunk),
    /// One for the whole reply.
    Reply(Chunk),
}

impl Offered {
    /// Calls `f` with the offer as the protocol's code wants it.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Offer<'_>) -> R) -> R {
        let (write, reply) = match self {
            Self::Nothing => (None, None),
            Self::Write(chunk) => (Some([chunk.as_slice()]), None),
            Self::Reply(chunk) => (None, Some(chunk.as_slice())),
        };
        f(&Offer {
            write: write.as_ref().map_or(&[], |one| one),
            reply,
        })
    }
}

/// What changes in a slot.
pub(crate) struct State {
    /// A Call is under way. While none is, whatever answers was sent before it was asked for, by a
    /// peer that guesses XIDs.
    pub(crate) asked: bool,
    /// The XID of the Call that was sent last.
    pub(crate) xid: u32,
    /// What the Call offers that is under way, or `ready`.
    pub(crate) offered: Offered,
    /// A Call that waits for its turn to be sent.
    ready: Option<PreparedCall>,
    /// What the server may reach.
    pub(crate) registered: Registered<Connection>,
    fence: Fence,
}

/// How far regions are that were taken out of a slot.
#[derive(PartialEq, Eq)]
enum Fence {
    /// There are none.
    Up,
    /// They are being invalidated or given up.
    Pending,
    /// They could not be invalidated. The end of their connection gives them up.
    Broken,
}

impl State {
    /// What [`Slot::keep_ready`] kept.
    pub(super) fn take_ready(&mut self) -> Option<PreparedCall> {
        self.ready.take()
    }

    /// CallContext what is offered. Mostly it is nothing, and then nothing is copied.
    pub(crate) fn offer(&mut self, offered: Offered) {
        match offered {
            Offered::Nothing => self.offered = Offered::Nothing,
            offered => self.offered = offered,
        }
    }
}

#[pin_data]
pub(crate) struct Inner {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    fenced: CondVar,
}

impl Inner {
    /// They are invalid, or given up.
    pub(super) fn fence_done(&self) {
        self.end(Fence::Up);
    }

    /// They could not be made invalid, and the connection ends.
    pub(super) fn fence_broken(&self) {
        self.end(Fence::Broken);
    }

    fn end(&self, fence: Fence) {
        self.state.lock().fence = fence;
        self.fenced.notify_all();
    }

    /// Waits while regions are on their way. Sleeps.
    fn settled(&self) -> impl core::ops::DerefMut<Target = State> + '_ {
        let mut state = self.state.lock();
        while state.fence == Fence::Pending {
            self.fenced.wait(&mut state);
        }
        state
    }
}

/// A request slot's private state.
#[pin_data]
pub(crate) struct Slot {
    inner: Arc<Inner>,
}

impl Slot {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let state = State {
            asked: false,
            xid: 0,
            offered: Offered::Nothing,
            ready: None,
            registered: Registered::new(),
            fence: Fence::Up,
        };
        try_pin_init!(Self {
            inner: Arc::pin_init(
                pin_init!(Inner {
                    state <- new_spinlock!(state, "rpcrdma::slot"),
                    fenced <- new_condvar!("rpcrdma::fenced"),
                }),
                GFP_KERNEL,
            )?,
        })
    }

    pub(crate) fn state(&self) -> &SpinLock<State> {
        &self.inner.state
    }

    /// What [`Self::keep_ready`] kept of an earlier encoding, and whether a transmission of the Call may
    /// still be answered, or what it offered be reached.
    pub(super) fn begin(&self) -> (Option<PreparedCall>, bool) {
        let mut state = self.inner.state.lock();
        let sent = state.asked || !state.registered.is_empty();
        (state.ready.take(), sent)
    }

    /// Keeps `ready`, which offers what is `offered`, for the turn of its Call, unless `connection`,
    /// which it is for, has come to its end: then nothing would give it up.
    pub(super) fn keep_ready(
        &self,
        ready: PreparedCall,
        offered: Offered,
        connection: &Connection,
    ) -> Result<(), PreparedCall> {
        let mut state = self.inner.state.lock();
        // A transmission of this Call that is under way will be made again over another connection,
        // if it is.
        if !connection.is_open() || state.asked || !state.registered.is_empty() {
            return Err(ready);
        }
        state.offer(offered);
        state.ready = Some(ready);
        Ok(())
    }

    /// Takes back regions of an answered Call that are not invalid: whoever gives it up must wait until
    /// they are, and the end of the connection sees to it.
    pub(super) fn take_back(&self, registered: Registered<Connection>) {
        let mut state = self.inner.state.lock();
        let none = core::mem::replace(&mut state.registered, registered);
        drop(state);
        // The Call had no others.
        drop(none);
    }

    /// Gives up all that is of a connection: its queue pair is drained. Returns how many regions
    /// were registered. Sleeps.
    pub(crate) fn reset(&self) -> u64 {
        let mut state = self.inner.state.lock();
        state.asked = false;
        let ready = state.ready.take();
        let registered = core::mem::take(&mut state.registered);
        let count = registered.len() as u64;
        if count > 0 {
            state.fence = Fence::Pending;
        }
        drop(state);
        drop(ready);
        drop(registered);
        if count > 0 {
            self.inner.fence_done();
        }
        count
    }

    /// Returns when the server can reach nothing of the RPC any more, though it was not answered, and
    /// nothing of it is mapped. Sleeps if there was something to reach. Gives up what waits to be sent.
    pub(crate) fn fence(&self, active: impl FnOnce() -> Option<Active>) {
        let mut state = self.inner.settled();
        state.asked = false;
        let ready = state.ready.take();
        let registered = core::mem::take(&mut state.registered);
        drop(state);
        if let Some(ready) = ready {
            ready.cancel();
        }
        if registered.is_empty() {
            return;
        }
        // A connection is the active one until it is drained. What is of another goes right now.
        let active = active().filter(|active| registered.are_on(&active.queue));
        let Some(Active { queue, connection }) = active else {
            drop(registered);
            return;
        };
        connection
            .counters
            .local_invalidations
            .add(registered.len() as u64);
        self.inner.state.lock().fence = Fence::Pending;
        let released = Fenced::Released(self.inner.clone());
        if let Err((registered, _)) = queue.post_invalidate(registered, released) {
            // The connection ends, if it is not being torn down already, and fences when that is done.
            connection.lost(c"an invalidation could not be posted");
            drop(registered);
            self.inner.fence_broken();
        }
        let fence = core::mem::replace(&mut self.inner.settled().fence, Fence::Up);
        if fence == Fence::Broken {
            drop(queue);
            connection.wait_until_closed();
        }
    }
}
