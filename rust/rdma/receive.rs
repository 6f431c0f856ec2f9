// SPDX-License-Identifier: GPL-2.0

//! Receive buffers, and the messages that arrive in them.

use crate::{
    chain::{
        Chain,
        Link, //
    },
    context::Context,
    dma::Mapped,
    in_flight::{
        Entry,
        InFlight, //
    },
    pd::ProtectionDomain, //
};
use core::ptr::{
    null,
    null_mut,
    NonNull, //
};
use kernel::{
    alloc::Flags,
    dma::DataDirection,
    error::Result,
    prelude::*,
    sync::Arc, //
};
use shared::memory::{
    self,
    Stable, //
};

/// What a posted Receive consists of. The completion finds it by its first field.
#[repr(C)]
pub(crate) struct Inner<H: Context> {
    entry: Entry,
    wr: raw::ib_recv_wr,
    sge: raw::ib_sge,
    /// The queue pair where it is posted; valid while it is.
    queue: *const (),
    next: Option<KBox<Self>>,
    /// [`ProtectionDomain::number_buffer`].
    number: u32,
    mapped: Mapped<H>,
}

// SAFETY: The pointers are only followed while the buffer is posted, in the completion.
unsafe impl<H: Context> Send for Inner<H> {}

impl<H: Context> Link for Inner<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Receive buffer that is not posted.
pub struct Buffer<H: Context>(KBox<Inner<H>>);

impl<H: Context> Buffer<H> {
    /// Takes back the buffer of a Receive that completed.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] gave up `entry`, which was taken out of its list, and this is the first
    /// call for it.
    pub(crate) unsafe fn take_back(entry: NonNull<Entry>) -> Self {
        // SAFETY: The caller vouches for it.
        Self(unsafe { KBox::from_raw(entry.cast::<Inner<H>>().as_ptr()) })
    }

    /// Which buffer of its protection domain it is.
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// The queue pair where it is posted.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] gave up `entry`, and it was not taken back.
    pub(crate) unsafe fn queue(entry: NonNull<Entry>) -> *const () {
        // SAFETY: The caller vouches for it.
        unsafe { (*entry.cast::<Inner<H>>().as_ptr()).queue }
    }
}

/// Any number of Receive buffers that are not posted.
pub struct Buffers<H: Context>(Chain<Inner<H>>);

impl<H: Context> Buffers<H> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates one of `len` bytes and adds it. Sleeps if `flags` allow it.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, len: usize, flags: Flags) -> Result {
        let mapped = Mapped::new(pd, len, DataDirection::FromDevice, flags)?;
        let sge = mapped.sge(len)?;
        let inner = Inner {
            entry: Entry::new(),
            wr: raw::ib_recv_wr::default(),
            sge,
            queue: null(),
            next: None,
            number: pd.number_buffer(),
            mapped,
        };
        self.0.push(KBox::new(inner, flags)?);
        Ok(())
    }

    /// Adds `buffer`.
    pub fn push(&mut self, buffer: Buffer<H>) {
        self.0.push(buffer.0);
    }

    /// Takes up to `count` out.
    pub fn take(&mut self, count: usize) -> Self {
        let mut taken = Self::new();
        while taken.len() < count {
            match self.0.pop() {
                Some(inner) => taken.0.push(inner),
                None => break,
            }
        }
        taken
    }

    /// Moves all of `other` here.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all were made in `pd`.
    pub(crate) fn all_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        self.0
            .iter()
            .all(|inner| Arc::ptr_eq(inner.mapped.pd(), pd))
    }

    /// Links all into one list of work requests for `queue`, which complete to `done`, and gives up their
    /// boxes to `posted`, which is that queue's.
    pub(crate) fn take_work_requests<Q>(
        &mut self,
        queue: &Q,
        done: unsafe extern "C" fn(*mut raw::ib_cq, *mut raw::ib_wc),
        posted: &mut InFlight,
    ) -> *mut raw::ib_recv_wr {
        let mut first = null_mut();
        while let Some(inner) = self.0.pop() {
            inner.mapped.sync_for_device(inner.mapped.len());
            let inner = KBox::into_raw(inner);
            // SAFETY: `inner` was a box a line ago, and nobody else knows it.
            let inner = unsafe { &mut *inner };
            inner.entry.arm(done, free::<H>);
            inner.queue = (&raw const *queue).cast();
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
            // SAFETY: The request is in an `Inner`.
            let inner = unsafe { container_of::<H>(wr) };
            // CAST: The entry is the first field.
            // SAFETY: It is not null, and is in that list since the request was made.
            unsafe { posted.remove(NonNull::new_unchecked(inner).cast()) };
            // SAFETY: It was not posted and is in no list, so it is ours.
            let inner = unsafe { KBox::from_raw(inner) };
            wr = inner.wr.next;
            self.0.push(inner);
        }
    }
}

impl<H: Context> From<Buffer<H>> for Buffers<H> {
    fn from(buffer: Buffer<H>) -> Self {
        let mut one = Self::new();
        one.push(buffer);
        one
    }
}

impl<H: Context> Default for Buffers<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// # Safety
///
/// `wr` is the field of an `Inner<H>`.
unsafe fn container_of<H: Context>(wr: *const raw::ib_recv_wr) -> *mut Inner<H> {
    // SAFETY: The caller vouches for the surrounding `Inner`.
    unsafe { wr.byte_sub(core::mem::offset_of!(Inner<H>, wr)) }
        .cast::<Inner<H>>()
        .cast_mut()
}

/// A message that arrived.
pub struct Message<H: Context> {
    inner: KBox<Inner<H>>,
    len: usize,
}

impl<H: Context> Message<H> {
    /// The first `len` bytes of `buffer`, whose Receive completed.
    pub(crate) fn new(buffer: Buffer<H>, len: usize) -> Self {
        let Buffer(inner) = buffer;
        inner.mapped.sync_for_cpu(len);
        Self { inner, len }
    }

    /// Its bytes. Their number is what the device counted. None came with an RDMA Write With Immediate.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The Receive completed, so the device is done with the buffer, and it is not
        // posted again before `self` is gone.
        unsafe { self.inner.mapped.bytes(self.len) }
    }

    /// Which buffer of its protection domain it is in.
    pub(crate) fn number(&self) -> u32 {
        self.inner.number
    }

    /// The buffer, for posting again.
    pub fn into_buffer(self) -> Buffer<H> {
        Buffer(self.inner)
    }
}

impl<H: Context> Message<H> {
    /// Separates the memory of the message from the Receive. The memory needs no device, so the
    /// Receive can go before it.
    pub fn split(self) -> (MessageMemory, MessageReceive<H>) {
        let Self { inner, len } = self;
        let buffer = inner.mapped.buffer().clone();
        (MessageMemory { buffer, len }, MessageReceive(inner))
    }
}

/// The memory of a message without its Receive.
///
/// # Invariants
///
/// `buffer` is that of a Receive that completed, and that is posted again only after
/// [`MessageReceive::join`] took `self`; nobody else accesses the bytes.
pub struct MessageMemory {
    buffer: Arc<memory::Buffer>,
    len: usize,
}

// SAFETY: The buffer is kept by `self`, which does not hold it but points to it. By the type
// invariants neither the device nor anybody else accesses it.
unsafe impl Stable for MessageMemory {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.buffer.base(), self.len.min(self.buffer.len()))
    }
}

/// The Receive of a message without the memory: what the device knows of that. It gives no access
/// to it.
pub struct MessageReceive<H: Context>(KBox<Inner<H>>);

impl<H: Context> MessageReceive<H> {
    /// The message of both. [`None`], and both are dropped, if `memory` is that of another message.
    pub fn join(self, memory: MessageMemory) -> Option<Message<H>> {
        let Self(inner) = self;
        let is_same = Arc::ptr_eq(inner.mapped.buffer(), &memory.buffer);
        is_same.then_some(Message {
            inner,
            len: memory.len,
        })
    }
}

/// # Safety
///
/// `entry` is that of an [`Inner<H>`] that was posted, which no completion will take back.
unsafe fn free<H: Context>(entry: NonNull<Entry>) {
    // SAFETY: The caller vouches for it.
    drop(unsafe { KBox::from_raw(entry.cast::<Inner<H>>().as_ptr()) });
}
