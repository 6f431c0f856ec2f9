// SPDX-License-Identifier: GPL-2.0

//! Receive buffers, before, during and after they are posted.

use crate::{
    chain::{
        Chain,
        Link, //
    },
    cq::{
        self,
        WcStatus, //
    },
    dma::{
        Direction,
        Mapped, //
    },
    in_flight::{
        Entry,
        InFlight, //
    },
    Handler,
    ProtectionDomain,
    QueuePair, //
};
use core::ptr::{
    null,
    null_mut,
    NonNull, //
};
use kernel::{
    alloc::Flags,
    error::Result,
    prelude::*,
    sync::Arc, //
};
use shared::memory::Stable;

/// The Receive side of a queue pair.
pub(crate) struct State {
    /// Whether posting is allowed: from creation to shutdown.
    pub(crate) open: bool,
    /// Whether no completion has anything to bring any more.
    pub(crate) drained: bool,
    /// Receives that may still be posted.
    pub(crate) room: usize,
    /// Those that are.
    pub(crate) posted: InFlight,
}

/// What a posted Receive consists of. The completion finds it by its first field.
#[repr(C)]
pub(crate) struct Inner<H: Handler> {
    entry: Entry,
    wr: raw::ib_recv_wr,
    sge: raw::ib_sge,
    /// Where it is posted; valid while it is.
    queue: *const QueuePair<H>,
    next: Option<KBox<Self>>,
    mapped: Mapped<H>,
}

// SAFETY: The pointers are only followed while the buffer is posted, in the completion.
unsafe impl<H: Handler> Send for Inner<H> {}

impl<H: Handler> Link for Inner<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Receive buffer that is not posted.
pub struct Buffer<H: Handler>(KBox<Inner<H>>);

/// Any number of Receive buffers that are not posted.
pub struct Buffers<H: Handler>(pub(crate) Chain<Inner<H>>);

impl<H: Handler> Buffers<H> {
    /// None.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates one of `len` bytes and adds it. Sleeps if `flags` allow it.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, len: usize, flags: Flags) -> Result {
        let mapped = Mapped::new(pd, len, Direction::FromDevice, flags)?;
        let sge = mapped.sge(len)?;
        let inner = Inner {
            entry: Entry::new(receive_done::<H>, free::<H>),
            wr: raw::ib_recv_wr::default(),
            sge,
            queue: null(),
            next: None,
            mapped,
        };
        self.0.push(KBox::new(inner, flags)?);
        Ok(())
    }

    /// Adds `buffer`.
    pub fn push(&mut self, buffer: Buffer<H>) {
        self.0.push(buffer.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all were made in domains that are `right`.
    pub(crate) fn all_in(&self, right: impl Fn(&Arc<ProtectionDomain<H>>) -> bool) -> bool {
        self.0.iter().all(|inner| right(inner.mapped.pd()))
    }

    /// Links all into one list of work requests for `queue` and gives up their boxes to `posted`, which is
    /// that queue's.
    pub(crate) fn take_work_requests(
        &mut self,
        queue: &QueuePair<H>,
        posted: &mut InFlight,
    ) -> *mut raw::ib_recv_wr {
        let mut first = null_mut();
        while let Some(inner) = self.0.pop() {
            inner.mapped.sync_for_device(inner.mapped.len());
            let inner = KBox::into_raw(inner);
            // SAFETY: `inner` was a box a line ago, and nobody else knows it.
            let inner = unsafe { &mut *inner };
            inner.queue = queue;
            inner.wr.next = first;
            inner.wr.__bindgen_anon_1.wr_cqe = &raw mut inner.entry.cqe;
            inner.wr.sg_list = &raw mut inner.sge;
            inner.wr.num_sge = 1;
            first = &raw mut inner.wr;
            // CAST: The entry is the first field.
            let entry = NonNull::from(inner).cast();
            // SAFETY: It stood in a chain. Until its completion takes it out it is nobody else's. If there is
            // none it is freed with the queue pair.
            unsafe { posted.add(entry) };
        }
        first
    }

    /// Takes back what [`Self::take_work_requests`] gave up to `posted`, from `wr` on.
    ///
    /// # Safety
    ///
    /// `wr` and what follows it were not posted.
    pub(crate) unsafe fn reclaim(&mut self, mut wr: *const raw::ib_recv_wr, posted: &mut InFlight) {
        while !wr.is_null() {
            // SAFETY: The request stands in an `Inner`.
            let inner = unsafe { container_of::<H>(wr) };
            // CAST: The entry is the first field.
            // SAFETY: It is not null, and stands there since the request was made.
            unsafe { posted.remove(NonNull::new_unchecked(inner).cast()) };
            // SAFETY: It was not posted and stands in no list, so it is ours.
            let inner = unsafe { KBox::from_raw(inner) };
            wr = inner.wr.next;
            self.0.push(inner);
        }
    }
}

impl<H: Handler> Default for Buffers<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// # Safety
///
/// `wr` is the field of an `Inner<H>`.
unsafe fn container_of<H: Handler>(wr: *const raw::ib_recv_wr) -> *mut Inner<H> {
    // SAFETY: The caller vouches for the surrounding `Inner`.
    unsafe { wr.byte_sub(core::mem::offset_of!(Inner<H>, wr)) }
        .cast::<Inner<H>>()
        .cast_mut()
}

/// The memory region key that the peer invalidated with a message. The same number means another
/// region later, so it is worth something only while the message is handled.
pub struct Invalidated<'a, H: Handler> {
    pub(crate) rkey: u32,
    /// The queue pair that the message arrived on.
    pub(crate) queue: &'a QueuePair<H>,
}

/// A message that arrived.
pub struct Message<H: Handler> {
    inner: KBox<Inner<H>>,
    len: usize,
}

impl<H: Handler> Message<H> {
    /// Its bytes. Their number is what the device counted. None came with an RDMA Write With Immediate.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The Receive completed, so the device is done with the buffer, and it is not
        // posted again before `self` is gone.
        unsafe { self.inner.mapped.bytes(self.len) }
    }

    /// The buffer, for posting again.
    pub fn into_buffer(self) -> Buffer<H> {
        Buffer(self.inner)
    }
}

// SAFETY: The Receive completed, so the device is done with the buffer, which its box does not hold
// but points to. It is freed with the box, and posted again only by who has the message no more.
unsafe impl<H: Handler> Stable for Message<H> {
    fn memory(&self) -> NonNull<[u8]> {
        self.inner.mapped.memory(self.len)
    }
}

/// # Safety
///
/// `entry` is that of an [`Inner<H>`] that was posted, which no completion will take back.
unsafe fn free<H: Handler>(entry: NonNull<Entry>) {
    // SAFETY: The caller vouches for it.
    drop(unsafe { KBox::from_raw(entry.cast::<Inner<H>>().as_ptr()) });
}

/// # Safety
///
/// Only the core calls this, for the completion of a Receive that was posted from an [`Inner`].
unsafe extern "C" fn receive_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of the entry of an `Inner`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `Inner` lives until its completion, which is this one, or longer than there are
    // callbacks. So does the queue pair that it was posted to.
    let queue = unsafe { &*(*entry.cast::<Inner<H>>().as_ptr()).queue };
    let mut receives = queue.receives().lock();
    if receives.drained {
        // Too late: it goes with the queue pair.
        return;
    }
    // SAFETY: It stands there since it was posted.
    unsafe { receives.posted.remove(entry) };
    receives.room = receives.room.saturating_add(1);
    drop(receives);
    // SAFETY: It was just taken out. That the completion is here says that the device gave the buffer back.
    let inner = unsafe { KBox::from_raw(entry.cast::<Inner<H>>().as_ptr()) };
    if let Some(failure) = WcStatus::of(wc.status) {
        handler.receive_failed(Buffer(inner), failure);
        return;
    }
    let len = match wc.opcode {
        // It counts what an RDMA Write put elsewhere. The buffer holds what came before.
        raw::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => 0,
        _ => usize::try_from(wc.byte_len).unwrap_or(0),
    };
    inner.mapped.sync_for_cpu(len);
    let with_key = wc.wc_flags & raw::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32 != 0;
    // SAFETY: Both arms of the union are plain 32-bit words.
    let rkey = unsafe { wc.ex.invalidate_rkey };
    let invalidated = with_key.then_some(Invalidated { rkey, queue });
    handler.received(queue, Message { inner, len }, invalidated);
}
