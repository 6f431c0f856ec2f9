// SPDX-License-Identifier: GPL-2.0

//! Send buffers.
//!
//! The upper layer copies a header and short payload into a permanently mapped buffer. Longer
//! payload is gathered from its pages; the Send owns references to them ([`crate::transfer`]).

use crate::prelude::*;
use crate::{
    atomic_cell::CellPool,
    chain::ChainNode,
    cq::CompletionQueue,
    dma::Mapped, //
};
use core::mem::offset_of;

/// The parts of a posted Send. The completion finds it by the first field.
#[repr(C)]
pub(crate) struct SendRequest<H: Context> {
    pub(crate) cqe: cbindings::ib_cqe,
    pub(crate) wr: cbindings::ib_send_wr,
    sge: cbindings::ib_sge,
    /// The queue pair that it is posted to. Valid while it is.
    pub(crate) queue: *const (),
    /// The sequence number of the Send in its queue. Valid while it is posted.
    pub(crate) sequence: u64,
    next: Option<KBox<Self>>,
    /// The number from [`ProtectionDomain::next_buffer_number`].
    pub(crate) number: u32,
    mapped: Mapped<H>,
}

// SAFETY: The pointers are only dereferenced while the buffer is posted, by the driver and the
// completion.
unsafe impl<H: Context> Send for SendRequest<H> {}

impl<H: Context> SendRequest<H> {
    /// Prepares the work request of a Send of `sge`, which is in the buffer.
    pub(crate) fn prepare(&mut self, sge: cbindings::ib_sge, kind: SendKind) {
        // CAST: The buffer was mapped for no more than a `u32`.
        self.mapped.sync_for_device(sge.length as usize);
        self.sge = sge;
        self.wr = cbindings::ib_send_wr {
            opcode: cbindings::ib_wr_opcode_IB_WR_SEND,
            sg_list: &raw mut self.sge,
            num_sge: 1,
            ..Default::default()
        };
        if let SendKind::Invalidate(key) = kind {
            self.wr.opcode = cbindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            self.wr.ex.invalidate_rkey = key;
        }
        self.wr.__bindgen_anon_1.wr_cqe = &raw mut self.cqe;
    }
}

impl<H: Context> ChainNode for SendRequest<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Send buffer that is not posted.
pub struct Buffer<H: Context>(pub(crate) KBox<SendRequest<H>>);

impl<H: Context> Buffer<H> {
    /// Allocates a buffer of `len` bytes. Sleeps if `flags` allow it.
    pub fn new(pd: &Arc<ProtectionDomain<H>>, len: usize, flags: Flags) -> Result<Self> {
        let mapped = Mapped::new(pd, len, DataDirection::ToDevice, flags)?;
        let inner = SendRequest {
            cqe: cbindings::ib_cqe { done: None },
            wr: cbindings::ib_send_wr::default(),
            sge: mapped.sge(0)?,
            queue: null(),
            sequence: 0,
            next: None,
            number: pd.next_buffer_number(),
            mapped,
        };
        Ok(Self(KBox::new(inner, flags)?))
    }

    /// Returns the bytes, to be filled from the start.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: A `Buffer` is not posted, so the device does not access it, and `&mut self` keeps
        // it from being posted while the slice exists.
        unsafe { self.0.mapped.bytes_mut() }
    }

    /// Returns a scatter element for the first `len` bytes. [`EINVAL`] if there are fewer, or if
    /// the buffer was allocated in another domain than `pd`.
    pub(crate) fn sge(
        &self,
        pd: &Arc<ProtectionDomain<H>>,
        len: usize,
    ) -> Result<cbindings::ib_sge> {
        if !Arc::ptr_eq(self.0.mapped.pd(), pd) {
            return Err(EINVAL);
        }
        self.0.mapped.sge(len)
    }
}

/// A Send that is about to be posted, for traces.
pub struct PostedSend<'a, H: Context> {
    inner: &'a SendRequest<H>,
    queue: &'a CompletionQueue<H>,
}

impl<'a, H: Context> PostedSend<'a, H> {
    /// Returns the Send whose work request is `wr`, and which completes to `queue`.
    ///
    /// # Safety
    ///
    /// `wr` is that of a [`SendRequest<H>`], which lives for `'a` and does not change meanwhile.
    pub(crate) unsafe fn of(
        wr: *const cbindings::ib_send_wr,
        queue: &'a CompletionQueue<H>,
    ) -> Self {
        // SAFETY: The caller promises that `wr` is a field of a `SendRequest<H>` that lives for
        // `'a` and does not change.
        let inner = unsafe { &*wr.byte_sub(offset_of!(SendRequest<H>, wr)).cast() };
        Self { inner, queue }
    }

    /// Returns the trace identifier.
    pub fn id(&self) -> CompletionId {
        self.queue.completion_id(self.inner.number)
    }

    /// Returns the number of scatter elements.
    pub fn elements(&self) -> usize {
        usize::try_from(self.inner.wr.num_sge).unwrap_or(0)
    }

    /// Returns whether it asks for a completion.
    pub fn is_signalled(&self) -> bool {
        self.inner.wr.send_flags & cbindings::ib_send_flags_IB_SEND_SIGNALED != 0
    }

    /// Returns the key that it invalidates at the peer, or zero if there is none.
    pub fn invalidates(&self) -> u32 {
        match self.inner.wr.opcode {
            // SAFETY: Both arms of the union are plain 32-bit words, so any contents are valid.
            cbindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => unsafe {
                self.inner.wr.ex.invalidate_rkey
            },
            _ => 0,
        }
    }
}

/// A list of Send buffers that are not posted.
pub struct Buffers<H: Context>(Chain<SendRequest<H>>);

impl<H: Context> Buffers<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Adds `buffer`.
    pub fn push(&mut self, buffer: Buffer<H>) {
        self.0.push(buffer.0);
    }

    /// Takes the buffer that was added last.
    pub fn pop(&mut self) -> Option<Buffer<H>> {
        self.0.pop().map(Buffer)
    }

    /// Moves all buffers of `other` here.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<H: Context> Default for Buffers<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Up to `N` Send buffers that are not posted, of which any task may take one without a lock.
pub struct BufferCells<H: Context, const N: usize>(CellPool<KBox<SendRequest<H>>, N>);

impl<H: Context, const N: usize> BufferCells<H, N> {
    /// Creates an empty pool.
    pub fn new() -> Self {
        Self(CellPool::new())
    }

    /// Takes a buffer. [`None`] if no place had one when it was looked at.
    pub fn take(&self) -> Option<Buffer<H>> {
        self.0.take().map(Buffer)
    }

    /// Moves those of `buffers` here that there is room for. At most one task may do so at a time,
    /// or buffers may be lost.
    pub fn fill_alone(&self, buffers: &mut Buffers<H>) {
        self.0.fill_alone(|| buffers.0.pop());
    }
}

impl<H: Context, const N: usize> Default for BufferCells<H, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The kind of a Send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// A plain Send.
    Plain,
    /// A Send that invalidates the peer's region with this key.
    Invalidate(u32),
}

/// A reply that is to be posted, perhaps after RDMA Writes.
pub struct UnpostedSend<H: Context> {
    /// The buffer, which begins with the message.
    pub buffer: Buffer<H>,
    /// The number of bytes to send.
    pub len: usize,
    /// The kind of the Send.
    pub kind: SendKind,
    /// The upper layer's name for it, reported if its Writes fail.
    pub tag: H::SendTag,
}

/// The time at which the doorbell is rung for a Send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doorbell {
    /// Rings at once.
    Ring,
    /// Rings with the next request that rings, or by [`QueuePair::ring`], if not for other reasons
    /// before.
    ///
    /// [`QueuePair::ring`]: crate::QueuePair::ring
    Defer,
}
