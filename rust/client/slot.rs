// SPDX-License-Identifier: GPL-2.0

//! What a request slot remembers of the RPC in it: what the server was offered,
//! and which regions it may still reach.

use super::{
    connection::{
        Connection,
        Fenced, //
    },
    marshal::Ready,
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
    Handle,
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
    /// megabyte at once needs more for the pages.
    pub(crate) const MAX: usize = 8;

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
    pub(crate) fn push(&mut self, handle: Handle) -> Result {
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

/// The chunks that an RPC offers for its reply.
#[derive(Clone, Copy)]
pub(crate) struct Offered {
    pub(crate) write: Option<Chunk>,
    pub(crate) reply: Option<Chunk>,
}

impl Offered {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self {
        write: None,
        reply: None,
    };

    /// Calls `f` with the offer as the protocol's code wants it.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Offer<'_>) -> R) -> R {
        let chunk = self.write.as_ref().map_or(&[][..], Chunk::as_slice);
        let one = [chunk];
        f(&Offer {
            write: if self.write.is_some() { &one } else { &[] },
            reply: self.reply.as_ref().map(Chunk::as_slice),
        })
    }
}

/// What changes in a slot.
pub(crate) struct State {
    /// What the server was offered. [`None`] while no Call is under way: whatever answers now was
    /// sent before it was asked for, by a peer that guesses XIDs.
    pub(crate) offered: Option<Offered>,
    /// A Call that waits for its turn to be sent.
    ready: Option<Ready>,
    /// What the server may reach.
    pub(crate) registered: Registered<Connection>,
    /// [`Inner::fence`] waits for an invalidation.
    fencing: bool,
}

#[pin_data]
pub(crate) struct Inner {
    #[pin]
    state: SpinLock<State>,
    #[pin]
    fenced: CondVar,
}

impl Inner {
    /// An invalidation that [`Slot::fence`] posted came to its end.
    pub(crate) fn fence_done(&self) {
        self.state.lock().fencing = false;
        self.fenced.notify_all();
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
            offered: None,
            ready: None,
            registered: Registered::new(),
            fencing: false,
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

    /// Keeps `ready` for the turn of its Call, unless `connection`, which it is for, has come to its
    /// end: then nothing would give it up.
    pub(super) fn keep_ready(&self, ready: Ready, connection: &Connection) -> Result<(), Ready> {
        let mut state = self.inner.state.lock();
        // Regions that are registered belong to a transmission of this Call that will be made again
        // over another connection, if it is.
        if !connection.is_open() || !state.registered.is_empty() {
            return Err(ready);
        }
        state.ready = Some(ready);
        Ok(())
    }

    /// What [`Self::keep_ready`] kept.
    pub(super) fn take_ready(&self) -> Option<Ready> {
        self.inner.state.lock().ready.take()
    }

    /// Gives up all that is of a connection: its queue pair is drained. Returns how many regions
    /// were registered. Sleeps.
    pub(crate) fn reset(&self) -> u64 {
        let mut state = self.inner.state.lock();
        state.offered = None;
        let ready = state.ready.take();
        let registered = core::mem::take(&mut state.registered);
        drop(state);
        drop(ready);
        registered.len() as u64
    }

    /// Returns when the server can reach nothing of the RPC any more, though it was not answered.
    /// Sleeps if there was something to reach. Gives up what waits to be sent.
    pub(crate) fn fence(&self, active: impl FnOnce() -> Option<Active>) {
        let mut state = self.inner.state.lock();
        state.offered = None;
        let ready = state.ready.take();
        let registered = core::mem::take(&mut state.registered);
        state.fencing = !registered.is_empty();
        drop(state);
        if let Some(ready) = ready {
            ready.cancel();
        }
        if registered.is_empty() {
            return;
        }
        // Without a connection the regions went with it (`reset`) or go right now.
        let Some(Active { queue, connection }) = active() else {
            drop(registered);
            return;
        };
        if let Err((registered, _)) =
            queue.post_invalidate(registered, Fenced::Released(self.inner.clone()))
        {
            // The connection ends, if it is not being torn down already, and fences when that is done.
            connection.lost(c"an invalidation could not be posted");
            self.inner.state.lock().fencing = false;
            drop(registered);
            drop(queue);
            connection.wait_until_closed();
            return;
        }
        let mut state = self.inner.state.lock();
        while state.fencing {
            self.inner.fenced.wait(&mut state);
        }
    }
}
