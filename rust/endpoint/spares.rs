// SPDX-License-Identifier: GPL-2.0

//! The spares of a queue pair for its next Sends and transfers: free Send buffers, empty transfers,
//! and SQ credits.
//!
//! None of these is under the lock of the Send queue, which is held while the device is notified,
//! and RPCs that are about to be sent must not wait for that. SQ credits are an atomic number
//! ([`SqCredits`]).
//!
//! # Send buffers
//!
//! A connection has some buffers from the start, allocates more only when all are posted, up to its
//! limit, and may free those that it does not need for now.
//!
//! The first free ones, up to a number that the connection chooses, are the reserve, which is a
//! list behind a lock. Those beyond it are in cells, of which any task takes one without the lock;
//! what the cells have no room for is in the list again. All that one completion returns are put
//! back together, behind the lock, the reserve first. So an RPC that finds one in a cell takes no
//! lock. One that looks into the cells and the list behind the lock, and finds none, knows that
//! there is none: nobody puts one into a cell meanwhile.
//!
//! # The last buffer
//!
//! A Send that is posted while no buffer is free asks for a completion, so that one comes back.
//! Whether that is so is read under the lock of the Send queue, but without that of the spares.
//! Whoever takes the last buffer of the list notes that before the buffer can be posted. So the
//! Send of that buffer finds it noted, unless a buffer was put back since, which is then in the
//! list again. Other Sends may find it noted or not, be it that their buffers were taken before, or
//! from a cell: the Send of the last buffer of the list is there to bring some back. Behind the
//! lock, if a cell has a buffer then the list has at least the reserve: buffers go into cells only
//! once the reserve is full, and who takes one of the reserve has found all cells empty.
//!
//! # Transfers
//!
//! The short transfers of Sends that gather their data are in cells as well. They are taken without
//! a lock, and put back behind it. Only a long transfer takes one of the list: a Send would
//! otherwise keep taking one behind the lock that it puts back into the list, because it is long,
//! and no cell would ever be filled. A short transfer for which there is no cell is freed.

use super::send_policy::Signalling;
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};
use rdma::{
    send,
    transfer::{
        EmptyTransfer,
        EmptyTransferCells,
        EmptyTransfers, //
    },
    Context,
    SqCredits, //
};

/// The free Send buffers and empty transfers of a queue pair.
#[pin_data]
pub struct Spares<H: Context> {
    #[pin]
    state: SpinLock<SpareState<H>>,
    /// The free Send buffers beyond the reserve. Put in behind the lock.
    buffers: send::BufferCells<H, BUFFER_CELLS>,
    /// Short transfers, of at most [`SpareTransfers::SHORT`] bytes. Put in behind the lock.
    short_transfers: EmptyTransferCells<H, TRANSFER_CELLS>,
    /// [`SendBuffers::needs_completion`], as of the last change.
    needs_completion: Atomic<bool>,
    pub(super) credits: SqCredits,
    /// The number of Receive buffers that completion handlers post together. Zero when a Receive
    /// has failed: then they put each into the ring. Changed under the lock of the Send queue.
    pub(super) handler_batch: Atomic<usize>,
}

struct SpareState<H: Context> {
    buffers: SendBuffers<H>,
    transfers: SpareTransfers<H>,
    /// Whether a caller got no buffer since the last completion, and waits for the next.
    starved: bool,
}

/// The number of cells for Send buffers. With 32 RPCs at a time, up to 47 buffers are in use: one
/// for each RPC, and those of 15 Sends that no completion has covered.
const BUFFER_CELLS: usize = 64;

/// The number of cells for short transfers: as many as one completion returns, and as many of RPCs
/// that go on before it comes.
const TRANSFER_CELLS: usize = 32;

/// The name of the lock. lockdep compares addresses of names, and a literal in a generic function
/// exists once in each crate that calls it.
static LOCK_NAME: &CStr = c"rpcrdma::spares";

impl<H: Context> Spares<H> {
    /// Creates the spares of a queue pair with these `buffers` and `credits`, and no transfer.
    /// Sleeps.
    pub(super) fn new(buffers: SendBuffers<H>, credits: SqCredits) -> Result<Arc<Self>> {
        let needs_completion = buffers.needs_completion(Self::ENOUGH);
        let state = SpareState {
            buffers,
            transfers: SpareTransfers::new(),
            starved: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- SpinLock::new(state, LOCK_NAME, static_lock_class!()),
                buffers: send::BufferCells::new(),
                short_transfers: EmptyTransferCells::new(),
                needs_completion: Atomic::new(needs_completion),
                credits,
                handler_batch: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The most buffers that one completion returns.
    // CAST: A small number.
    const ENOUGH: usize = Signalling::INTERVAL as usize;

    /// Calls `f` with the Send buffers of the list, and notes how many are left there.
    pub(super) fn with_buffers<R>(&self, f: impl FnOnce(&mut SendBuffers<H>) -> R) -> R {
        self.with(|state| f(&mut state.buffers))
    }

    /// Calls `f` with all free Send buffers. They are in the list now.
    pub(super) fn with_all_buffers<R>(&self, f: impl FnOnce(&mut SendBuffers<H>) -> R) -> R {
        self.with(|state| {
            while let Some(buffer) = self.buffers.take() {
                state.buffers.free.push(buffer);
            }
            f(&mut state.buffers)
        })
    }

    /// Returns the number of free Send buffers. They are in the list now.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn free_buffers(&self) -> usize {
        self.with_all_buffers(|buffers| buffers.free())
    }

    fn with<R>(&self, f: impl FnOnce(&mut SpareState<H>) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        let needs_completion = state.buffers.needs_completion(Self::ENOUGH);
        // Most often it stays as it is, and no other processor has to fetch it again.
        if self.needs_completion.load(Relaxed) != needs_completion {
            self.needs_completion.store(needs_completion, Relaxed);
        }
        result
    }

    /// Returns the most requests of one transfer that are posted at the same time: half of all SQ
    /// credits, so that two long transfers alternate.
    pub(super) fn batch(&self) -> usize {
        self.credits.total().div_ceil(2)
    }

    /// Returns whether the Send that is posted next must ask for a completion, because no buffer is
    /// free, and the next one must come from a completion.
    #[inline]
    pub(super) fn needs_completion(&self) -> bool {
        self.needs_completion.load(Relaxed)
    }

    /// Takes a free Send buffer. If there is none, the next completion that returns something wakes
    /// the caller.
    pub(super) fn take_buffer(&self) -> Option<send::Buffer<H>> {
        self.buffers.take().or_else(|| {
            self.with(|state| {
                let buffer = self.take_locked(state);
                state.starved |= buffer.is_none();
                buffer
            })
        })
    }

    /// Takes a free Send buffer, or begins to allocate one, and returns its length. If neither is
    /// possible, the next completion that returns something wakes the caller.
    pub(super) fn take_or_allocate(&self) -> Result<send::Buffer<H>, Option<usize>> {
        if let Some(buffer) = self.buffers.take() {
            return Ok(buffer);
        }
        self.with(|state| {
            if let Some(buffer) = self.take_locked(state) {
                return Ok(buffer);
            }
            let len = state.buffers.begin_allocation();
            state.starved |= len.is_none();
            Err(len)
        })
    }

    /// Notes that the buffer of [`Self::take_or_allocate`] could not be allocated. Otherwise like
    /// [`Self::take_buffer`].
    pub(super) fn take_after_failure(&self) -> Option<send::Buffer<H>> {
        self.with(|state| {
            state.buffers.allocation_failed();
            let buffer = self.take_locked(state);
            state.starved |= buffer.is_none();
            buffer
        })
    }

    /// Takes a free Send buffer behind the lock. [`None`] if there is none: who puts one back does
    /// so behind the lock, too.
    fn take_locked(&self, state: &mut SpareState<H>) -> Option<send::Buffer<H>> {
        self.buffers.take().or_else(|| state.buffers.take())
    }

    /// Takes a free Send buffer, unless only the reserve is free.
    pub(super) fn take_spare_buffer(&self) -> Option<send::Buffer<H>> {
        self.buffers
            .take()
            .or_else(|| self.with_buffers(SendBuffers::take_spare))
    }

    /// Puts a buffer back that was not posted.
    pub(super) fn put_back(&self, buffer: send::Buffer<H>) {
        let mut buffers = send::Buffers::new();
        buffers.push(buffer);
        self.with(|state| self.put_all(state, &mut buffers));
    }

    /// Puts the buffers of completed Sends back. Returns whether a caller waits for one. It waits
    /// since it found none under the lock, so it is not missed.
    pub(super) fn complete(&self, completed: &mut send::Buffers<H>) -> bool {
        self.with(|state| {
            self.put_all(state, completed);
            core::mem::take(&mut state.starved)
        })
    }

    /// Puts all of `buffers` into the reserve, into cells, and what is left into the list.
    fn put_all(&self, state: &mut SpareState<H>, buffers: &mut send::Buffers<H>) {
        state.buffers.fill_reserve(buffers);
        // The lock is held, so nobody else puts.
        self.buffers.fill_alone(buffers);
        state.buffers.free.append(buffers);
    }

    /// Takes an empty transfer, if there is one: a long one rather than a short one.
    pub(super) fn take_transfer(&self) -> Option<EmptyTransfer<H>> {
        let long = self.state.lock().transfers.take();
        long.or_else(|| self.short_transfers.take())
    }

    /// Takes a short transfer, if there is one.
    pub(super) fn take_short_transfer(&self) -> Option<EmptyTransfer<H>> {
        self.short_transfers.take()
    }

    /// Takes all empty transfers.
    pub(super) fn take_transfers(&self) -> EmptyTransfers<H> {
        let mut transfers = self.state.lock().transfers.take_all();
        while let Some(short) = self.short_transfers.take() {
            transfers.push(short);
        }
        transfers
    }

    /// Keeps those of `transfers` that there is room for.
    pub(super) fn keep(&self, transfers: &mut EmptyTransfers<H>) {
        let mut excess = EmptyTransfers::new();
        let mut state = self.state.lock();
        while let Some(transfer) = transfers.pop() {
            let kept = if transfer.footprint() <= SpareTransfers::<H>::SHORT {
                // The lock is held, so nobody else puts.
                self.short_transfers.put_alone(transfer)
            } else {
                state.transfers.keep(transfer)
            };
            if let Err(transfer) = kept {
                excess.push(transfer);
            }
        }
        drop(state);
        *transfers = excess;
    }
}

/// The list of free Send buffers, and the number that may still be allocated.
pub(super) struct SendBuffers<H: Context> {
    free: send::Buffers<H>,
    /// The number of free buffers in the reserve, when it is full.
    reserve: usize,
    /// The largest number of buffers, the number of those not allocated, and the length of a
    /// buffer.
    limit: usize,
    unallocated: usize,
    len: usize,
    /// Whether the last attempt to allocate a buffer failed.
    out_of_memory: bool,
}

impl<H: Context> SendBuffers<H> {
    /// Creates an empty pool for `limit` buffers of `len` bytes. The caller puts in `first` of
    /// them; the others may be allocated. The reserve has at least one.
    pub(super) fn new(limit: usize, first: usize, len: usize, reserve: usize) -> Self {
        Self {
            free: send::Buffers::new(),
            reserve: reserve.max(1),
            limit,
            unallocated: limit.saturating_sub(first),
            len,
            out_of_memory: false,
        }
    }

    /// Returns the number of free buffers.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns whether none is free and the next one must come from a completion, because no more
    /// may be allocated, memory was short, or there are more than `enough` already.
    pub(super) fn needs_completion(&self, enough: usize) -> bool {
        let made = self.limit.saturating_sub(self.unallocated);
        self.free.is_empty() && (self.unallocated == 0 || self.out_of_memory || made > enough)
    }

    /// Returns whether none is free, and memory for the next one was short.
    pub(super) fn lacks_memory(&self) -> bool {
        self.free.is_empty() && self.out_of_memory
    }

    fn take(&mut self) -> Option<send::Buffer<H>> {
        self.free.pop()
    }

    /// Takes a buffer that is not in the reserve.
    fn take_spare(&mut self) -> Option<send::Buffer<H>> {
        if self.free() <= self.reserve {
            return None;
        }
        self.free.pop()
    }

    /// Moves buffers of `buffers` to the reserve until it is full.
    fn fill_reserve(&mut self, buffers: &mut send::Buffers<H>) {
        while self.free() < self.reserve {
            let Some(buffer) = buffers.pop() else { break };
            self.free.push(buffer);
        }
    }

    /// Begins to allocate a buffer if none is free and the limit allows another. Returns its
    /// length.
    pub(super) fn begin_allocation(&mut self) -> Option<usize> {
        if !self.free.is_empty() {
            return None;
        }
        self.unallocated = self.unallocated.checked_sub(1)?;
        self.out_of_memory = false;
        Some(self.len)
    }

    /// Begins to allocate a buffer if there are fewer than `count` and the limit allows another.
    /// Returns its length.
    pub(super) fn begin_growth(&mut self, count: usize) -> Option<usize> {
        if self.limit.saturating_sub(self.unallocated) >= count {
            return None;
        }
        self.unallocated = self.unallocated.checked_sub(1)?;
        self.out_of_memory = false;
        Some(self.len)
    }

    /// Notes that the buffer of [`Self::begin_allocation`] or [`Self::begin_growth`] could not be
    /// allocated.
    pub(super) fn allocation_failed(&mut self) {
        self.unallocated = self.unallocated.saturating_add(1);
        self.out_of_memory = true;
    }

    /// Takes all free buffers except `kept`. As many may be allocated again.
    pub(super) fn shrink(&mut self, kept: usize) -> send::Buffers<H> {
        let mut excess = send::Buffers::new();
        while self.free() > kept {
            let Some(buffer) = self.free.pop() else { break };
            excess.push(buffer);
        }
        self.unallocated = self.unallocated.saturating_add(excess.len());
        excess
    }

    /// Takes all free buffers.
    pub(super) fn take_all(&mut self) -> send::Buffers<H> {
        core::mem::take(&mut self.free)
    }
}

/// The long empty transfers of a connection, which are not in cells.
pub(super) struct SpareTransfers<H: Context> {
    kept: EmptyTransfers<H>,
    /// The number of bytes that may be added.
    budget: usize,
}

impl<H: Context> SpareTransfers<H> {
    /// The largest number of bytes: a few long transfers, or more that are less long.
    const BYTES: usize = 80 << 10;

    /// The largest number of bytes of a short transfer, which is for the few pages of a Send. Those
    /// in cells have 32 KiB at most.
    const SHORT: usize = 1 << 10;

    pub(super) fn new() -> Self {
        Self {
            kept: EmptyTransfers::new(),
            budget: Self::BYTES,
        }
    }

    pub(super) fn take(&mut self) -> Option<EmptyTransfer<H>> {
        let transfer = self.kept.pop()?;
        self.budget = self.budget.saturating_add(transfer.footprint());
        Some(transfer)
    }

    /// Takes all transfers.
    pub(super) fn take_all(&mut self) -> EmptyTransfers<H> {
        self.budget = Self::BYTES;
        core::mem::take(&mut self.kept)
    }

    /// Keeps `transfer`, or returns it if the pool is full.
    fn keep(&mut self, transfer: EmptyTransfer<H>) -> Result<(), EmptyTransfer<H>> {
        let Some(budget) = self.budget.checked_sub(transfer.footprint()) else {
            return Err(transfer);
        };
        self.budget = budget;
        self.kept.push(transfer);
        Ok(())
    }
}
