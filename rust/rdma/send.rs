// SPDX-License-Identifier: GPL-2.0

//! Send buffers.
//!
//! The upper layer copies a header, and payload that is short, into a buffer that is mapped for
//! good. Longer payload is sent from where it is; the Send owns references to it ([`crate::transfer`]).

use crate::{
    chain::{
        Chain,
        Link, //
    },
    context::Context,
    cq::CompletionQueue,
    dma::Mapped,
    pd::ProtectionDomain, //
};
use core::{
    mem::offset_of,
    ptr::null, //
};
use kernel::{
    alloc::Flags,
    dma::DataDirection,
    error::Result,
    prelude::*,
    sync::Arc, //
};
use shared::trace::CompletionId;

/// What a posted Send consists of. The completion finds it by its first field.
#[repr(C)]
pub(crate) struct Inner<H: Context> {
    pub(crate) cqe: raw::ib_cqe,
    pub(crate) wr: raw::ib_send_wr,
    sge: raw::ib_sge,
    /// The queue pair where it is posted; valid while it is.
    pub(crate) queue: *const (),
    /// Which Send of its queue it is; valid while it is posted.
    pub(crate) sequence: u64,
    next: Option<KBox<Self>>,
    /// [`ProtectionDomain::number_buffer`].
    pub(crate) number: u32,
    mapped: Mapped<H>,
}

// SAFETY: The pointers are only followed while the buffer is posted, in the completion.
unsafe impl<H: Context> Send for Inner<H> {}

impl<H: Context> Inner<H> {
    /// Makes the work request of a Send of `sge`, which is in the buffer.
    pub(crate) fn prepare(&mut self, sge: raw::ib_sge, verb: Verb) {
        // CAST: The buffer was mapped for no more than a `u32`.
        self.mapped.sync_for_device(sge.length as usize);
        self.sge = sge;
        self.wr = raw::ib_send_wr {
            opcode: raw::ib_wr_opcode_IB_WR_SEND,
            sg_list: &raw mut self.sge,
            num_sge: 1,
            ..Default::default()
        };
        if let Verb::Invalidate(key) = verb {
            self.wr.opcode = raw::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            self.wr.ex.invalidate_rkey = key;
        }
        self.wr.__bindgen_anon_1.wr_cqe = &raw mut self.cqe;
    }
}

impl<H: Context> Link for Inner<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Send buffer that is not posted.
pub struct Buffer<H: Context>(pub(crate) KBox<Inner<H>>);

impl<H: Context> Buffer<H> {
    /// Allocates one of `len` bytes. Sleeps if `flags` allow it.
    pub fn new(pd: &Arc<ProtectionDomain<H>>, len: usize, flags: Flags) -> Result<Self> {
        let mapped = Mapped::new(pd, len, DataDirection::ToDevice, flags)?;
        let inner = Inner {
            cqe: raw::ib_cqe { done: None },
            wr: raw::ib_send_wr::default(),
            sge: mapped.sge(0)?,
            queue: null(),
            sequence: 0,
            next: None,
            number: pd.number_buffer(),
            mapped,
        };
        Ok(Self(KBox::new(inner, flags)?))
    }

    /// Its bytes, to be filled from the start.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: The buffer is not posted, so the device has no access to it.
        unsafe { self.0.mapped.bytes_mut() }
    }

    /// A scatter element for its first `len` bytes. [`EINVAL`] if there are fewer, or if it was made in
    /// another domain than `pd`.
    pub(crate) fn sge(&self, pd: &Arc<ProtectionDomain<H>>, len: usize) -> Result<raw::ib_sge> {
        if !Arc::ptr_eq(self.0.mapped.pd(), pd) {
            return Err(EINVAL);
        }
        self.0.mapped.sge(len)
    }
}

/// A Send that is posted next: its work request, for traces.
pub struct PostedSend<'a, H: Context> {
    inner: &'a Inner<H>,
    queue: &'a CompletionQueue<H>,
}

impl<'a, H: Context> PostedSend<'a, H> {
    /// The Send whose work request is `wr`, and which completes to `queue`.
    ///
    /// # Safety
    ///
    /// `wr` is that of an [`Inner`], which lives for `'a`.
    pub(crate) unsafe fn of(wr: *const raw::ib_send_wr, queue: &'a CompletionQueue<H>) -> Self {
        // SAFETY: The caller vouches for the surrounding `Inner`.
        let inner = unsafe { &*wr.byte_sub(offset_of!(Inner<H>, wr)).cast() };
        Self { inner, queue }
    }

    /// What traces call it.
    pub fn id(&self) -> CompletionId {
        self.queue.completion_id(self.inner.number)
    }

    /// How many scatter elements it has.
    pub fn elements(&self) -> usize {
        usize::try_from(self.inner.wr.num_sge).unwrap_or(0)
    }

    /// Whether it asks for a completion.
    pub fn is_signalled(&self) -> bool {
        self.inner.wr.send_flags & raw::ib_send_flags_IB_SEND_SIGNALED != 0
    }

    /// The key that it invalidates at the peer. Zero if there is none.
    pub fn invalidates(&self) -> u32 {
        match self.inner.wr.opcode {
            // SAFETY: Both arms of the union are plain 32-bit words.
            raw::ib_wr_opcode_IB_WR_SEND_WITH_INV => unsafe { self.inner.wr.ex.invalidate_rkey },
            _ => 0,
        }
    }
}

/// Any number of Send buffers that are not posted.
pub struct Buffers<H: Context>(Chain<Inner<H>>);

impl<H: Context> Buffers<H> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Adds `buffer`.
    pub fn push(&mut self, buffer: Buffer<H>) {
        self.0.push(buffer.0);
    }

    /// Takes out the buffer that was added last.
    pub fn pop(&mut self) -> Option<Buffer<H>> {
        self.0.pop().map(Buffer)
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
}

impl<H: Context> Default for Buffers<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// The kind of a Send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A plain Send.
    Send,
    /// A Send that invalidates the peer's region with this key.
    Invalidate(u32),
}

/// A Send that is to be posted after RDMA Writes, or may.
pub struct UnpostedSend<H: Context> {
    /// What is sent is at its beginning.
    pub buffer: Buffer<H>,
    /// How many bytes of it are sent.
    pub len: usize,
    /// What kind of Send it is.
    pub verb: Verb,
    /// What it is called if its Writes fail.
    pub tag: H::SendTag,
}

/// When the device is told of a Send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doorbell {
    /// At once.
    Ring,
    /// With the next request that rings, or by [`QueuePair::ring`], if not for other reasons before.
    ///
    /// [`QueuePair::ring`]: crate::QueuePair::ring
    Defer,
}
