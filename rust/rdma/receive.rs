// SPDX-License-Identifier: GPL-2.0

//! Receive buffers, and the messages that arrive in them.

use crate::prelude::*;
use crate::{
    chain::{
        ChainNode,
        Queue, //
    },
    dma::Mapped,
    in_flight::{
        Entry,
        InFlight, //
    }, //
};
use ext::{
    atomic_cell::AtomicCell,
    memory, //
};

/// The parts of a posted Receive. The completion finds it by the first field.
#[repr(C)]
pub(crate) struct ReceiveRequest<H: Context> {
    entry: Entry,
    wr: cbindings::ib_recv_wr,
    sge: cbindings::ib_sge,
    /// The queue pair that it is posted to. Valid while it is.
    queue: *const (),
    /// Whether it is in the list of the completion handler, not in that of the posting tasks.
    /// Valid while it is posted.
    claimed: bool,
    next: Option<KBox<Self>>,
    /// The number from [`ProtectionDomain::next_buffer_number`].
    number: u32,
    mapped: Mapped<H>,
    /// The length of the message, and what the upper layer keeps with it.
    len: usize,
    context: H::MessageContext,
}

// SAFETY: The pointers are only dereferenced while the buffer is posted, by the driver and the
// completion. The other fields may be sent, `context` by the bound of `MessageContext`.
unsafe impl<H: Context> Send for ReceiveRequest<H> {}

impl<H: Context> ChainNode for ReceiveRequest<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Receive buffer that is not posted.
pub struct Buffer<H: Context>(KBox<ReceiveRequest<H>>);

impl<H: Context> Buffer<H> {
    /// Takes back the buffer of a Receive that completed.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] lent `entry`, which was removed from its list, and this is
    /// the first call for it.
    pub(crate) unsafe fn take_back(entry: NonNull<Entry>) -> Self {
        // SAFETY: The caller promises that `entry`, the first field, came from a box that
        // `take_work_requests` leaked, is in no list, and is taken back by nobody else.
        Self(unsafe { KBox::from_raw(entry.cast::<ReceiveRequest<H>>().as_ptr()) })
    }

    /// Returns the number of the buffer in its protection domain.
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// Returns the queue pair where it is posted.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] lent `entry`, and it was not taken back.
    pub(crate) unsafe fn queue(entry: NonNull<Entry>) -> *const () {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, was not taken
        // back.
        unsafe { (*entry.cast::<ReceiveRequest<H>>().as_ptr()).queue }
    }

    /// Returns whether [`Self::claim`] was called since it was posted.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] lent `entry`, and it was not taken back. The caller is the
    /// only one that claims it.
    pub(crate) unsafe fn is_claimed(entry: NonNull<Entry>) -> bool {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, was not taken
        // back, and that nobody else changes the field.
        unsafe { (*entry.cast::<ReceiveRequest<H>>().as_ptr()).claimed }
    }

    /// Notes that the completion handler has it in its own list.
    ///
    /// # Safety
    ///
    /// [`Buffers::take_work_requests`] lent `entry`, and it was not taken back. The caller is the
    /// only one that claims it.
    pub(crate) unsafe fn claim(entry: NonNull<Entry>) {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, was not taken
        // back, and that nobody else accesses the field.
        unsafe { (*entry.cast::<ReceiveRequest<H>>().as_ptr()).claimed = true };
    }
}

/// A list of Receive buffers that are not posted.
pub struct Buffers<H: Context>(Chain<ReceiveRequest<H>>);

impl<H: Context> Buffers<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates a buffer of `len` bytes and adds it. Sleeps if `flags` allow it.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, len: usize, flags: Flags) -> Result {
        let mapped = Mapped::new(pd, len, DataDirection::FromDevice, flags)?;
        let sge = mapped.sge(len)?;
        let inner = ReceiveRequest {
            entry: Entry::new(),
            wr: cbindings::ib_recv_wr::default(),
            sge,
            queue: null(),
            claimed: false,
            next: None,
            number: pd.next_buffer_number(),
            mapped,
            len: 0,
            context: H::MessageContext::default(),
        };
        self.0.push(KBox::new(inner, flags)?);
        Ok(())
    }

    /// Adds `buffer`.
    pub fn push(&mut self, buffer: Buffer<H>) {
        self.0.push(buffer.0);
    }

    /// Takes up to `count` buffers.
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

    /// Returns whether all were allocated in `pd`.
    pub(crate) fn all_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        self.0
            .iter()
            .all(|inner| Arc::ptr_eq(inner.mapped.pd(), pd))
    }

    /// Links all into one list of work requests for `queue`, which complete to `done`, and lends
    /// their boxes to `posted`, which is that queue's.
    pub(crate) fn take_work_requests<Q>(
        &mut self,
        queue: &Q,
        done: unsafe extern "C" fn(*mut cbindings::ib_cq, *mut cbindings::ib_wc),
        posted: &mut InFlight,
    ) -> *mut cbindings::ib_recv_wr {
        let mut first = null_mut();
        while let Some(inner) = self.0.pop() {
            inner.mapped.sync_for_device(inner.mapped.len());
            let inner = KBox::into_raw(inner);
            // SAFETY: `inner` is the pointer of a box that was leaked above, so it is valid and
            // nobody else accesses it.
            let inner = unsafe { &mut *inner };
            inner.entry.arm(done, free::<H>);
            inner.queue = (&raw const *queue).cast();
            inner.claimed = false;
            inner.wr.next = first;
            inner.wr.__bindgen_anon_1.wr_cqe = &raw mut inner.entry.cqe;
            inner.wr.sg_list = &raw mut inner.sge;
            inner.wr.num_sge = 1;
            first = &raw mut inner.wr;
            // CAST: The entry is the first field.
            let entry = NonNull::from(inner).cast();
            // SAFETY: The box was in a chain, so the entry is live and in no other list. Only its
            // completion takes it out, and without one it is freed with the queue pair, by
            // whichever task does that.
            unsafe { posted.add(entry) };
        }
        first
    }

    /// Takes back the buffers that [`Self::take_work_requests`] lent to `posted`, from `wr` on.
    ///
    /// # Safety
    ///
    /// `wr` is null or a request that `take_work_requests` linked and lent to `posted`, and neither
    /// it nor the requests after it were posted.
    pub(crate) unsafe fn reclaim(
        &mut self,
        mut wr: *const cbindings::ib_recv_wr,
        posted: &mut InFlight,
    ) {
        while !wr.is_null() {
            // SAFETY: The caller promises a request that `take_work_requests` linked, which is in
            // a `ReceiveRequest`.
            let inner = unsafe { container_of::<H>(wr) };
            // CAST: The entry is the first field.
            // SAFETY: `inner` is not null, and by the caller's promise its entry is in that list.
            unsafe { posted.remove(NonNull::new_unchecked(inner).cast()) };
            // SAFETY: `take_work_requests` leaked the box. It was not posted and is in no list any
            // more, so nobody else takes it.
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

/// Returns the `ReceiveRequest<H>` that contains `wr`.
///
/// # Safety
///
/// `wr` is the field of a `ReceiveRequest<H>`.
unsafe fn container_of<H: Context>(wr: *const cbindings::ib_recv_wr) -> *mut ReceiveRequest<H> {
    // SAFETY: The caller promises that `wr` is a field of a `ReceiveRequest<H>`, so the result is
    // within the same allocation.
    unsafe { wr.byte_sub(core::mem::offset_of!(ReceiveRequest<H>, wr)) }
        .cast::<ReceiveRequest<H>>()
        .cast_mut()
}

/// A received message.
pub struct Message<H: Context>(KBox<ReceiveRequest<H>>);

impl<H: Context> Message<H> {
    /// Returns the message in the first `len` bytes of `buffer`, whose Receive completed.
    pub(crate) fn new(buffer: Buffer<H>, len: usize) -> Self {
        let Buffer(mut inner) = buffer;
        inner.mapped.sync_for_cpu(len);
        inner.len = len;
        Self(inner)
    }

    /// Creates a message of `len` bytes, as if it had been received. Sleeps.
    #[cfg(RPCRDMA_SELFTEST)]
    pub fn of_len(pd: &Arc<ProtectionDomain<H>>, len: usize) -> Result<Self> {
        let mut buffers = Buffers::new();
        buffers.allocate(pd, len, GFP_KERNEL)?;
        let buffer = buffers.0.pop().ok_or(EINVAL)?;
        Ok(Self::new(Buffer(buffer), len))
    }

    /// Returns the bytes of the message, as many as the device counted. An RDMA Write With
    /// Immediate has none.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The Receive completed, so the device is done with the buffer, and it is not
        // posted again before `self` is consumed.
        unsafe { self.0.mapped.bytes(self.0.len) }
    }

    /// Returns the number of its buffer in the protection domain.
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// Keeps `context` with the message.
    pub fn set_context(&mut self, context: H::MessageContext) {
        self.0.context = context;
    }

    /// Returns what is kept with the message.
    pub fn context(&self) -> &H::MessageContext {
        &self.0.context
    }

    /// Takes what is kept with the message.
    pub fn take_context(&mut self) -> H::MessageContext {
        core::mem::take(&mut self.0.context)
    }

    /// Returns the buffer, to be posted again.
    pub fn into_buffer(self) -> Buffer<H> {
        Buffer(self.0)
    }

    /// Separates the memory of the message from the Receive. The memory needs no device, so the
    /// Receive may be dropped first.
    pub fn split(self) -> (MessageMemory, MessageReceive<H>) {
        let Self(inner) = self;
        let (buffer, len) = (inner.mapped.buffer().clone(), inner.len);
        (MessageMemory { buffer, len }, MessageReceive(inner))
    }
}

/// A FIFO of messages. It links their Receive buffers, so it has room for any number and never
/// allocates.
pub struct MessageQueue<H: Context>(Queue<ReceiveRequest<H>>);

impl<H: Context> MessageQueue<H> {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self(Queue::new())
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds `message` at the end.
    pub fn push_back(&mut self, message: Message<H>) {
        self.0.push_back(message.0);
    }

    /// Adds `message` at the front.
    pub fn push_front(&mut self, message: Message<H>) {
        self.0.push_front(message.0);
    }

    /// Takes the first message.
    pub fn pop_front(&mut self) -> Option<Message<H>> {
        self.0.pop_front().map(Message)
    }
}

impl<H: Context> Default for MessageQueue<H> {
    fn default() -> Self {
        Self::new()
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

// SAFETY: `self` owns a reference to the buffer, whose address does not change. By the type
// invariants neither the device nor anybody else accesses it until `join` takes `self`.
unsafe impl memory::Stable for MessageMemory {
    fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.buffer.base(), self.len.min(self.buffer.len()))
    }
}

/// The Receive of a message, with the mapping of the memory, to which it gives no access.
pub struct MessageReceive<H: Context>(KBox<ReceiveRequest<H>>);

impl<H: Context> MessageReceive<H> {
    /// Returns the message of both. [`None`], and both are dropped, if `memory` is that of another
    /// message.
    pub fn join(self, memory: MessageMemory) -> Option<Message<H>> {
        let Self(inner) = self;
        let is_same = Arc::ptr_eq(inner.mapped.buffer(), &memory.buffer);
        is_same.then_some(Message(inner))
    }
}

/// A place for the Receive of a message whose memory is elsewhere. Any task may take the Receive,
/// without a lock: who wants the message, or who frees all Receives because the device goes.
pub struct LentReceive<H: Context>(AtomicCell<KBox<ReceiveRequest<H>>>);

impl<H: Context> LentReceive<H> {
    /// Creates an empty place.
    pub fn new() -> Self {
        Self(AtomicCell::new())
    }

    /// Puts `receive` here, and returns what was here. At most one task may do so at a time, or a
    /// Receive may be leaked.
    pub fn put(&self, receive: MessageReceive<H>) -> Option<MessageReceive<H>> {
        self.0.put_alone(receive.0).map(MessageReceive)
    }

    /// Takes the Receive, if there is one.
    pub fn take(&self) -> Option<MessageReceive<H>> {
        self.0.take().map(MessageReceive)
    }
}

impl<H: Context> Default for LentReceive<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Frees the box of `entry`.
///
/// # Safety
///
/// `entry` is that of a [`ReceiveRequest<H>`] that was lent and is in no list, and no completion
/// will take it back.
unsafe fn free<H: Context>(entry: NonNull<Entry>) {
    // SAFETY: The caller promises that `entry`, the first field, came from a leaked box that nobody
    // else takes back.
    drop(unsafe { KBox::from_raw(entry.cast::<ReceiveRequest<H>>().as_ptr()) });
}
