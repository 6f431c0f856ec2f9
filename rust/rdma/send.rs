// SPDX-License-Identifier: GPL-2.0

//! Send buffers, and the queue of those that the device may still read.
//!
//! The upper layer copies a header, and payload that is short, into a buffer that is mapped for
//! good. Longer payload is sent from where it is; the Send owns references to it. No request slot
//! has to wait for a Send to complete, so most Sends ask for no completion: one in
//! [`State::INTERVAL`] does, and covers those before it (a reliable connection completes in order).

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
    in_flight::InFlight,
    transfer,
    Handler,
    ProtectionDomain,
    QueuePair, //
};
use core::ptr::{
    null,
    null_mut, //
};
use kernel::{
    alloc::Flags,
    error::Result,
    prelude::*,
    sync::Arc,
    time::Jiffies, //
};

/// What a posted Send consists of. The completion finds it by its first field.
#[repr(C)]
pub(crate) struct Inner<H: Handler> {
    cqe: raw::ib_cqe,
    pub(crate) wr: raw::ib_send_wr,
    sge: raw::ib_sge,
    /// Where it is posted; valid while it is.
    queue: *const QueuePair<H>,
    /// Which Send of its queue it is; valid while it is posted.
    sequence: u64,
    /// RDMA Writes that precede it in its chain, or memory that is part of it.
    attached: Option<KBox<transfer::Inner<H>>>,
    next: Option<KBox<Self>>,
    mapped: Mapped<H>,
}

// SAFETY: The pointers are only followed while the buffer is posted, in the completion.
unsafe impl<H: Handler> Send for Inner<H> {}

impl<H: Handler> Inner<H> {
    /// Allocates a buffer of `len` bytes. Sleeps if `flags` allow it.
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        len: usize,
        flags: Flags,
    ) -> Result<KBox<Self>> {
        let mapped = Mapped::new(pd, len, Direction::ToDevice, flags)?;
        let inner = Self {
            cqe: raw::ib_cqe {
                done: Some(send_done::<H>),
            },
            wr: raw::ib_send_wr::default(),
            sge: mapped.sge(0)?,
            queue: null(),
            sequence: 0,
            attached: None,
            next: None,
            mapped,
        };
        Ok(KBox::new(inner, flags)?)
    }

    /// Its first word.
    fn head(&self) -> Option<[u8; 4]> {
        // SAFETY: The device does no more than read the buffer, and nobody writes to it as long as it is
        // borrowed, or posted.
        unsafe { self.mapped.bytes(4) }.try_into().ok()
    }
}

impl<H: Handler> Link for Inner<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// A Send buffer that is not posted.
pub struct Buffer<H: Handler>(pub(crate) KBox<Inner<H>>);

impl<H: Handler> Buffer<H> {
    /// Its bytes, to be filled from the start.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: The buffer is not posted, so the device has no access to it.
        unsafe { self.0.mapped.bytes_mut() }
    }

    /// Its first word.
    pub(crate) fn head(&self) -> Option<[u8; 4]> {
        self.0.head()
    }
}

/// What kind of Send it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A plain one.
    Send,
    /// One that invalidates the region with this key at the peer.
    Invalidate(u32),
}

/// When the device learns of a Send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doorbell {
    /// At once.
    Ring,
    /// With the next request that rings, or by [`QueuePair::ring`], if not for other reasons before.
    Defer,
}

/// The Send side of a queue pair.
pub(crate) struct State<H: Handler> {
    /// Whether posting is allowed: from creation to shutdown.
    pub(crate) open: bool,
    free: Chain<Inner<H>>,
    /// How many buffers may still be made, and how long each is.
    reserve: usize,
    len: usize,
    /// Posted buffers at their sequence number modulo the length.
    posted: KVec<Option<KBox<Inner<H>>>>,
    /// Sequence number of the oldest posted buffer, and of the next.
    oldest: u64,
    newest: u64,
    unsignalled: u32,
    /// Transfers that are posted in batches, or that a device lost.
    pub(crate) rw_contexts: InFlight,
    /// Invalidations that are posted, or that a device lost.
    pub(crate) invalidations_in_flight: InFlight,
    drained: bool,
    /// Why a request of those failed that asked for no completion. The next of them that did is of the
    /// same transfer.
    pub(crate) transfer_failure: Option<WcStatus>,
    /// Since when a Send has memory that no Send after it covers.
    lent: Option<Jiffies>,
    /// First and last of the requests that wait for the doorbell; null if there is none. They live:
    /// Sends in `posted`, registrations in regions that cannot be had back before it rang.
    deferred: [*mut raw::ib_send_wr; 2],
    /// How many Reads and Writes may be posted now.
    pub(crate) room: usize,
    /// Somebody was sent away without a buffer or without room and wants to be told.
    starved: bool,
    /// Transfers that are over, for the next ones, and how many more bytes of them to keep.
    transfers: Chain<transfer::Inner<H>>,
    budget: usize,
}

/// What buffers were sent with, for its owner to drop when the lock is released.
pub(crate) type Spent<H> = Chain<transfer::Inner<H>>;

impl<H: Handler> State<H> {
    /// How many Sends one completion covers at most.
    const INTERVAL: u32 = 16;

    /// How old memory that a Send took along may be when the next Send asks for a completion for it.
    /// Until then it cannot be migrated, nor offlined. One second.
    const LEND: Jiffies = kernel::bindings::CONFIG_HZ as Jiffies;

    /// How many bytes of transfers are kept: a few long ones, or many short ones.
    const TRANSFERS: usize = 96 << 10;

    /// For `count` buffers of `len` bytes, of which it allocates the `first`. Sleeps if `flags` allow
    /// it.
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        count: usize,
        first: usize,
        len: usize,
        room: usize,
        flags: Flags,
    ) -> Result<Self> {
        let mut free = Chain::new();
        let mut posted = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            posted.push(None, flags)?;
        }
        // With one, it is free, in somebody's hands, or comes back.
        let first = first.max(1).min(count);
        for _ in 0..first {
            free.push(Inner::new(pd, len, flags)?);
        }
        Ok(Self {
            open: true,
            free,
            reserve: count.saturating_sub(first),
            len,
            posted,
            oldest: 0,
            newest: 0,
            unsignalled: 0,
            rw_contexts: InFlight::new(),
            invalidations_in_flight: InFlight::new(),
            drained: false,
            transfer_failure: None,
            lent: None,
            deferred: [null_mut(); 2],
            room,
            starved: false,
            transfers: Chain::new(),
            budget: Self::TRANSFERS,
        })
    }

    /// A transfer with nothing in it.
    pub(crate) fn take_transfer(&mut self) -> Option<KBox<transfer::Inner<H>>> {
        let transfer = self.transfers.pop()?;
        self.budget = self.budget.saturating_add(transfer.footprint());
        Some(transfer)
    }

    /// Keeps `transfer`, which has nothing in it, or returns it.
    pub(crate) fn put_transfer(
        &mut self,
        transfer: KBox<transfer::Inner<H>>,
    ) -> Option<KBox<transfer::Inner<H>>> {
        if !self.open {
            return Some(transfer);
        }
        let Some(budget) = self.budget.checked_sub(transfer.footprint()) else {
            return Some(transfer);
        };
        self.budget = budget;
        self.transfers.push(transfer);
        None
    }

    /// As [`Self::put_transfer`], for several.
    fn put_transfers(&mut self, mut transfers: Spent<H>) -> Spent<H> {
        let mut excess = Chain::new();
        while let Some(transfer) = transfers.pop() {
            if let Some(transfer) = self.put_transfer(transfer) {
                excess.push(transfer);
            }
        }
        excess
    }

    pub(crate) fn take(&mut self) -> Option<Buffer<H>> {
        let buffer = self.free.pop().map(Buffer);
        self.starved |= buffer.is_none();
        buffer
    }

    /// If there is no buffer but may be another, lets the caller make one of the length returned.
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        if !self.free.is_empty() {
            return None;
        }
        self.reserve = self.reserve.checked_sub(1)?;
        Some(self.len)
    }

    /// Undoes [`Self::reserve`].
    pub(crate) fn cancel(&mut self) {
        self.reserve = self.reserve.saturating_add(1);
    }

    /// As [`Self::take`], but leaves as many as one completion may be waiting for, and nobody is told
    /// when there are more.
    pub(crate) fn take_spare(&mut self) -> Option<Buffer<H>> {
        if self.free.len() <= Self::INTERVAL as usize {
            return None;
        }
        self.free.pop().map(Buffer)
    }

    pub(crate) fn put_back(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer.0);
    }

    /// Makes room for `count` Reads or Writes, if there is any.
    pub(crate) fn enter(&mut self, count: usize) -> bool {
        match self.room.checked_sub(count) {
            Some(room) => self.room = room,
            None => {
                self.starved = true;
                return false;
            }
        }
        true
    }

    /// Gives back the room of `count` Reads or Writes. Returns whether somebody waits.
    pub(crate) fn leave(&mut self, count: usize) -> bool {
        self.room = self.room.saturating_add(count);
        core::mem::take(&mut self.starved)
    }

    /// Makes `buffer` the Send of its first `len` bytes that follows the last posted one, and
    /// returns its work request, to be posted before the lock is given up. With it goes `attached`.
    ///
    /// `verb` says what kind of Send it is. One that asks for a completion must not be deferred: it
    /// may be what others wait for. [`EINVAL`] if the buffer is not one of the queue's.
    pub(crate) fn enqueue(
        &mut self,
        queue: &QueuePair<H>,
        mut buffer: Buffer<H>,
        len: usize,
        verb: Verb,
        mut attached: Option<KBox<transfer::Inner<H>>>,
    ) -> Result<*mut raw::ib_send_wr> {
        let place = self.place(self.newest).ok_or(EINVAL)?;
        // There are as many places as buffers, so this one is empty, unless somebody brings others.
        let is_ours = Arc::ptr_eq(buffer.0.mapped.pd(), queue.pd())
            && self.posted.get(place).is_some_and(|place| place.is_none());
        let sge = match buffer.0.mapped.sge(len) {
            Ok(sge) if is_ours => sge,
            refused => {
                self.put_back(buffer);
                return refused.and(Err(EINVAL));
            }
        };
        self.unsignalled = self.unsignalled.saturating_add(1);
        // With the last buffer gone perhaps nobody can post the Send that would free the others. What
        // Writes are of is not kept longer than it takes; the few pages that a Send takes along may be.
        let inserted = attached.as_ref().map(|memory| memory.is_inserted());
        let last = self.free.is_empty();
        let overdue = self
            .lent
            .is_some_and(|since| now().wrapping_sub(since) >= Self::LEND);
        let signal =
            self.unsignalled >= Self::INTERVAL || last || overdue || inserted == Some(false);
        let inner = &mut buffer.0;
        inner.mapped.sync_for_device(len);
        inner.queue = queue;
        inner.sequence = self.newest;
        inner.sge = sge;
        inner.wr = raw::ib_send_wr {
            opcode: raw::ib_wr_opcode_IB_WR_SEND,
            sg_list: &raw mut inner.sge,
            num_sge: 1,
            ..Default::default()
        };
        if let Verb::Invalidate(key) = verb {
            inner.wr.opcode = raw::ib_wr_opcode_IB_WR_SEND_WITH_INV;
            inner.wr.ex.invalidate_rkey = key;
        }
        // The elements do not move with their box.
        if let Some(elements) = attached.as_mut().and_then(|memory| memory.surround(sge)) {
            inner.wr.sg_list = elements.as_mut_ptr();
            // CAST: Fewer than any device takes.
            inner.wr.num_sge = elements.len() as i32;
        }
        inner.attached = attached;
        inner.wr.__bindgen_anon_1.wr_cqe = &raw mut inner.cqe;
        if signal {
            self.unsignalled = 0;
            self.lent = None;
            inner.wr.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
        }
        if !signal && inserted == Some(true) {
            self.lent.get_or_insert_with(now);
        }
        let wr = &raw mut inner.wr;
        self.newest = self.newest.wrapping_add(1);
        if let Some(place) = self.posted.get_mut(place) {
            *place = Some(buffer.0);
        }
        Ok(wr)
    }

    /// Lets the requests from `first` to `last` wait for the doorbell. What they are part of must
    /// not be freed or reused before [`Self::take_deferred`].
    pub(crate) fn defer(&mut self, first: *mut raw::ib_send_wr, last: *mut raw::ib_send_wr) {
        self.deferred = [self.take_deferred(first), last];
    }

    /// Whether something waits for the doorbell.
    pub(crate) fn is_deferring(&self) -> bool {
        let [first, _] = self.deferred;
        !first.is_null()
    }

    /// Links what waits for the doorbell before `then`, and returns the first of all, which is to be
    /// posted before the lock is given up.
    pub(crate) fn take_deferred(&mut self, then: *mut raw::ib_send_wr) -> *mut raw::ib_send_wr {
        let [first, last] = core::mem::replace(&mut self.deferred, [null_mut(); 2]);
        if first.is_null() {
            return then;
        }
        // SAFETY: What was deferred lives, and is not known to the device.
        unsafe { (*last).next = then };
        first
    }

    /// Undoes the last [`Self::enqueue`], whose request was not posted.
    pub(crate) fn dequeue(&mut self) -> Spent<H> {
        let mut spent = Chain::new();
        if self.oldest == self.newest {
            // The queue was drained meanwhile, and all taken back.
            return spent;
        }
        self.newest = self.newest.wrapping_sub(1);
        let newest = self.newest;
        self.free_posted(newest, &mut spent);
        spent
    }

    /// Takes back all buffers up to the one posted as `sequence`. Returns whether somebody waits.
    fn retire(&mut self, sequence: u64) -> (bool, Spent<H>) {
        let mut spent = Chain::new();
        while self.oldest <= sequence && self.oldest != self.newest {
            let oldest = self.oldest;
            self.free_posted(oldest, &mut spent);
            self.oldest = oldest.wrapping_add(1);
        }
        (core::mem::take(&mut self.starved), spent)
    }

    /// The first word of the oldest posted message that has Writes before it.
    ///
    /// A completion covers the Send of each such message. So if a Write failed, and the completions
    /// before that were seen, it is one of this message.
    pub(crate) fn oldest_with_writes(&self) -> Option<[u8; 4]> {
        let mut posted = (self.oldest..self.newest).filter_map(|sequence| {
            let place = self.place(sequence)?;
            self.posted.get(place)?.as_deref()
        });
        let has_writes = |inner: &&Inner<H>| {
            let attached = inner.attached.as_deref();
            attached.is_some_and(|attached| !attached.is_inserted())
        };
        posted.find(has_writes)?.head()
    }

    /// Takes back what all buffers were sent with, as the queue is drained. What is outstanding yet was lost
    /// by the device. It may still come up with it, so the buffers stay where they are.
    pub(crate) fn retire_all(&mut self) -> Spent<H> {
        self.drained = true;
        self.oldest = self.newest;
        let mut spent = Chain::new();
        for inner in self.posted.iter_mut().flatten() {
            if let Some(attached) = inner.attached.take() {
                spent.push(attached);
            }
        }
        spent
    }

    /// Whether no completion has anything to bring any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    fn place(&self, sequence: u64) -> Option<usize> {
        let places = u64::try_from(self.posted.len()).ok()?;
        usize::try_from(sequence.checked_rem(places)?).ok()
    }

    fn free_posted(&mut self, sequence: u64, spent: &mut Spent<H>) {
        let place = self.place(sequence);
        if let Some(place) = place.and_then(|place| self.posted.get_mut(place)) {
            if let Some(mut inner) = place.take() {
                if let Some(attached) = inner.attached.take() {
                    self.room = self.room.saturating_add(attached.room);
                    spent.push(attached);
                }
                self.free.push(inner);
            }
        }
    }
}

/// The kernel's coarse clock.
fn now() -> Jiffies {
    // SAFETY: The word is always there, and the timer interrupt changes it as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// # Safety
///
/// Only the core calls this, for the completion of a Send that was posted from an [`Inner`].
unsafe extern "C" fn send_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of an `Inner`'s first field; it stands in
    // `posted` until `retire` below, or longer than there are callbacks.
    let (queue, sequence) = unsafe {
        let inner = wc.__bindgen_anon_1.wr_cqe.cast::<Inner<H>>();
        ((*inner).queue, (*inner).sequence)
    };
    // SAFETY: The queue pair that the buffer was posted to outlives its callbacks.
    let queue = unsafe { &*queue };
    let (resume, mut spent) = queue.sends().lock().retire(sequence);
    if !spent.is_empty() {
        let mut clean = Chain::new();
        while let Some(mut transfer) = spent.pop() {
            transfer.reset();
            clean.push(transfer);
        }
        let excess = queue.sends().lock().put_transfers(clean);
        drop(excess);
    }
    if let Some(failure) = WcStatus::of(wc.status) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_resumed();
    }
}
