// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads of a call's Read chunks (RFC 8166, sections 3.4.5 and 3.5.3), the pages that they
//! fill, and the budget for these.
//!
//! # Pages
//!
//! A call with Read chunks takes as many pages as it needs. When its Reads have completed, an nfsd
//! thread takes the pages and returns as many of its own in exchange. So the pages in use are those
//! of the calls that are being read, each with a [`ReadPermit`]. The connections of a listener
//! share a pool.
//!
//! While the Reads are posted, the pages are part of them ([`rdma::transfer`]), and the call has
//! none. They come back to it when all Reads have succeeded. If too few SQ credits are free, they
//! go back to the pool, and the call waits without them. If a Read fails or cannot be posted, the
//! connection ends and they are dropped: freed at once, or on iWARP when no region can be valid.
//!
//! A pool keeps at most 8 MiB of idle pages, and frees them when the kernel runs short of memory.
//!
//! A pool has one lock, and no array per CPU or NUMA node. The lock is taken twice for a call,
//! whose Reads take at least a round trip to the client, and is held while pointers are copied; no
//! page is examined or freed under it. Arrays per CPU would be filled on one CPU and needed on
//! another, as any nfsd thread may serve a call. Arrays per node would need the node of each page:
//! those that come from a thread are from wherever it ran when it allocated them.
//!
//! # Budget
//!
//! All connections together have [`config::max_total_read_pages`]. Each connection may read one
//! call beyond that, so a client that does not answer RDMA Reads does not keep others from sending
//! calls. While a call waits for pages, another call of its connection is being read or about to
//! be, and retries it when its pages are freed.

use super::{
    call::{
        copy_in,
        zero_padding,
        CallLayout, //
    },
    work_queue::{
        Waiter,
        WaitingReads, //
    }, //
};
use crate::prelude::*;
use core::ops::Range;
use endpoint::UnpostedReads;
use proto::{
    call::{
        Call,
        Outline, //
    },
    chunk::{
        self,
        Segment, //
    },
    header::Body,
    waiting::Attempt, //
};
use rdma::{
    mr,
    transfer::{
        PreparedTransfer,
        Transfer, //
    },
    SqPermit, //
};
use sunrpc::shrinker::{
    Shrink,
    Shrinker, //
};

impl Responder {
    /// Posts the RDMA Reads of the call in `message`, or queues them for SQ credits or pages. The
    /// call is queued for a thread when they have completed. If there is nothing to read, returns
    /// the call. Sleeps.
    pub(super) fn read_chunks(
        &self,
        message: Message<ServerConn>,
        layout: CallLayout,
        outline: Outline,
    ) -> Option<WithMessage<ChunkedCall>> {
        let connection = &self.send_path.connection;
        // Waits behind other calls that wait for pages.
        let waits = connection.waits_for_pages();
        let reads = WithMessage {
            message,
            state: WaitingReads {
                layout,
                outline,
                // Fewer if pages are contiguous.
                requests: self.send_path.limits.reads_of(layout.pages()),
                registrations: 0,
                credits: None,
                waited_for_pages: waits,
            },
        };
        if waits {
            connection.wait_for_pages(reads, Attempt::NotTried);
            return None;
        }
        self.try_read(reads)
    }

    /// Does what [`Self::read_chunks`] does, for Reads that may have waited.
    pub(super) fn try_read(
        &self,
        waiting: WithMessage<WaitingReads>,
    ) -> Option<WithMessage<ChunkedCall>> {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let were_ready = waiting.state.credits.is_some();
        let complete = self.post_reads(waiting);
        if were_ready {
            connection.end_reads();
        }
        // Credits may be left for the next waiter.
        connection.recheck_waiters(queue);
        complete
    }

    fn post_reads(
        &self,
        mut waiting: WithMessage<WaitingReads>,
    ) -> Option<WithMessage<ChunkedCall>> {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let (space_seq, pages_seq) = (connection.space_seq(), connection.pages_seq());
        let ready = waiting.state.credits.take();
        if !connection.state.is_open() {
            // Nobody is left to answer them.
            if let Some(credits) = ready {
                self.release_credits(credits);
            }
            return None;
        }
        // SQ credits come before pages, so that no page is held while waiting for credits.
        let was_ready = ready.is_some();
        let (credits, attempt) = match ready {
            Some(credits) => (Some(credits), Attempt::Requeued(space_seq)),
            // Earlier waiters for credits come first.
            None if connection.waits_for_credits() => (None, Attempt::NotTried),
            None => (
                queue.reserve_reads(waiting.state.requests, waiting.state.registrations),
                Attempt::New(space_seq),
            ),
        };
        let Some(credits) = credits else {
            ServerConn::trace_full(queue, waiting.message.id(queue).completion);
            connection.wait_for_credits(Waiter::Reads(waiting), attempt);
            return None;
        };
        let Some(permit) = ReadPermit::new(connection, waiting.state.layout.pages()) else {
            self.release_credits(credits);
            // If it has waited for credits since, others may be before it.
            let was_first = !was_ready && waiting.state.waited_for_pages;
            let attempt = if was_first {
                Attempt::Requeued(pages_seq)
            } else {
                Attempt::New(pages_seq)
            };
            waiting.state.waited_for_pages = true;
            connection.wait_for_pages(waiting, attempt);
            return None;
        };
        let WithMessage { message, state } = waiting;
        let (layout, outline) = (state.layout, state.outline);
        let reads = self.page_pool.take(layout.pages()).and_then(|pages| {
            let call = outline.call(message.bytes()).ok_or(EINVAL)?;
            self.prepare_reads(&call, layout, pages)
        });
        let Ok(reads) = reads else {
            self.close_unanswered(message);
            return None;
        };
        let mut call = WithMessage {
            message,
            state: ChunkedCall {
                layout,
                outline,
                pages: KVec::new(),
                permit,
                reads_posted: None,
            },
        };
        if reads.is_empty() {
            call.state.pages = reads.into_pages();
            self.release_credits(credits);
            return Some(call);
        }
        let requests = reads.len();
        trace::event!(svcrdma_post_read_chunk(call.message.id(queue), requests));
        if trace::svcrdma_wc_read::is_on() {
            call.state.reads_posted = Some(Instant::now());
        }
        let reserved = credits.credits();
        match queue.post_reads(reads, credits, call) {
            Ok(()) => {
                config::READS.add(requests);
                connection.start_watchdog();
                if requests < reserved {
                    connection.note_space_freed();
                }
            }
            Err(UnpostedReads::Full(reads, call)) => {
                ServerConn::trace_full(queue, call.message.id(queue).completion);
                let registrations = reads.registrations();
                self.page_pool.keep(reads.into_pages());
                call.state.permit.cancel();
                let waiting = WithMessage {
                    message: call.message,
                    state: WaitingReads {
                        requests,
                        registrations,
                        ..state
                    },
                };
                // Their credits are free now. They are tried once more, too, with the number that
                // they need.
                connection.note_space_freed();
                connection.wait_for_credits(Waiter::Reads(waiting), attempt);
            }
            Err(UnpostedReads::Lost(call)) => {
                connection.end(Cause::ReadsNotPosted);
                // Only now, so that its pages wake no thread for another call.
                drop(call);
            }
        }
        None
    }

    /// Gives the SQ credits of Reads that are not posted now back, and serves other waiters, as no
    /// completion will.
    fn release_credits(&self, credits: SqPermit) {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        drop(credits);
        connection.on_space_freed(queue);
    }

    /// Prepares the RDMA Reads of the chunks of `call` into `pages`, which are part of them until
    /// they have completed. Copies the inline parts of a Payload stream there.
    fn prepare_reads(
        &self,
        call: &Call<'_>,
        layout: CallLayout,
        pages: KVec<Page>,
    ) -> Result<PreparedTransfer<ServerConn>> {
        let mut reads = self.send_path.queue.reads(GFP_KERNEL)?;
        reads.set_pages(pages)?;
        if let CallLayout::ReadChunk { position, len } = layout {
            let position = u32::try_from(position)?;
            let segments = call.lists.read.chunk(position);
            let length = usize::try_from(chunk::total(segments.clone()))?;
            add_read(&mut reads, segments, 0..length)?;
            zero_padding(reads.pages()?, length, len)?;
            return reads.prepare();
        }
        let mut at = 0_usize;
        for part in call.parts() {
            let end = match part {
                call::Part::Payload { from, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    match call.body {
                        Body::Msg => {
                            let inline = usize::try_from(from)?
                                ..usize::try_from(from.saturating_add(length))?;
                            let inline = call.payload.get(inline).ok_or(EINVAL)?;
                            copy_in(reads.pages()?, at, inline)?;
                        }
                        Body::NoMsg => {
                            // The Position Zero Read chunk.
                            let part = chunk::slice(call.lists.read.chunk(0), from, length);
                            add_read(&mut reads, part, at..end)?;
                        }
                    }
                    end
                }
                call::Part::Chunk { position, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    add_read(&mut reads, call.lists.read.chunk(position), at..end)?;
                    end
                }
                call::Part::Padding(length) => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    zero_padding(reads.pages()?, at, end)?;
                    end
                }
            };
            at = end;
        }
        reads.prepare()
    }
}

/// Adds RDMA Reads of `segments` into the bytes `range` of the pages of `reads`.
fn add_read(
    reads: &mut Transfer<ServerConn>,
    segments: impl Iterator<Item = Segment>,
    range: Range<usize>,
) -> Result {
    for segment in segments {
        reads.add_remote(mr::Segment {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    reads.add_own(range)
}

/// A pool of idle pages.
pub(crate) struct PagePool {
    idle: Shrinker<IdlePages>,
}

/// The idle pages. Any allocation may call the shrinker, so nothing is allocated under the lock.
#[pin_data]
struct IdlePages {
    #[pin]
    pages: SpinLock<KVec<Page>>,
}

impl PagePool {
    /// The largest number of idle pages: 8 MiB, enough for eight NFS WRITEs of 1 MiB.
    pub(super) const MAX: usize = 2048;

    /// Creates an empty pool. Sleeps, and so does dropping it.
    pub(super) fn new() -> Result<Arc<Self>> {
        let pages = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        let idle = Arc::pin_init(
            pin_init!(IdlePages {
                pages <- new_spinlock!(pages, "rpcrdma::page_pool"),
            }),
            GFP_KERNEL,
        )?;
        let idle = Shrinker::new(c"svcrdma-read-pages", idle)?;
        Ok(Arc::new(Self { idle }, GFP_KERNEL)?)
    }

    /// Takes `count` pages, allocating those that the pool lacks. Sleeps.
    pub(super) fn take(&self, count: usize) -> Result<KVec<Page>> {
        let mut pages = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut idle = self.idle.pages.lock();
        while pages.len() < count {
            let Some(page) = idle.pop() else { break };
            pages.push_within_capacity(page).map_err(|_| EINVAL)?;
        }
        drop(idle);
        while pages.len() < count {
            pages.push(Page::new(GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(pages)
    }

    /// Puts those of `pages` without another reference into the pool, up to [`Self::MAX`].
    pub(super) fn keep(&self, mut pages: KVec<Page>) {
        // A page that is unique now stays so: a scan by page frame number takes a reference for a
        // moment only, and reads nothing.
        pages.retain(|page| page.is_unique());
        let mut idle = self.idle.pages.lock();
        while idle.len() < Self::MAX {
            let Some(page) = pages.pop() else { break };
            let _ = idle.push_within_capacity(page);
        }
        // The other pages are freed without the lock.
        drop(idle);
    }

    /// Makes the kernel reclaim `wanted` pages. Returns the numbers of pages found and freed.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn reclaim(&self, wanted: usize) -> Result<(usize, usize)> {
        self.idle.reclaim(wanted)
    }
}

impl Shrink for IdlePages {
    fn count(&self) -> usize {
        self.pages.lock().len()
    }

    fn shrink(&self, count: usize) -> usize {
        let mut freed = 0;
        while freed < count {
            // The lock is held for this statement only: the page is freed without it.
            let page = self.pages.lock().pop();
            let Some(page) = page else { break };
            drop(page);
            freed += 1;
        }
        freed
    }
}

/// The pages of all calls that are being read.
static TOTAL: Atomic<usize> = Atomic::new(0);

/// The calls of one connection that are being read.
pub(super) struct ReadBudget {
    count: Atomic<u32>,
    /// Whether another call waits for their pages.
    waits: Atomic<bool>,
}

impl ReadBudget {
    /// Creates the state of a connection that reads no call.
    pub(super) fn new() -> Self {
        Self {
            count: Atomic::new(0),
            waits: Atomic::new(false),
        }
    }

    /// Counts a call that `fits`, or that is the only one. If it must wait, notes that, and the
    /// next call that has been read retries it.
    fn begin(&self, fits: bool) -> bool {
        if self.add(fits) {
            return true;
        }
        // Any later [`Self::take_waiter`] sees this, and an earlier end of a call is seen here.
        self.waits.xchg(true, Full);
        self.add(fits)
    }

    /// Counts a call that `fits`, or that is the only one. A call that must wait is never counted,
    /// not even for a moment: another one might wait for it.
    fn add(&self, fits: bool) -> bool {
        let mut count = self.count.load(Relaxed);
        while count == 0 || fits {
            match self.count.cmpxchg(count, count.saturating_add(1), Full) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Returns whether to retry the call that waits.
    fn take_waiter(&self) -> bool {
        self.waits.load(Relaxed) && self.waits.xchg(false, Full)
    }
}

/// The right to read a call of a connection into a number of pages, until it is dropped. That has
/// an nfsd thread retry the call of this connection that waits for pages, if there is one; it does
/// not sleep, but takes the lock of the work queue.
pub(crate) struct ReadPermit {
    connection: Arc<ServerConn>,
    pages: usize,
    /// Whether a call that waits for pages is retried.
    wakes: bool,
}

impl ReadPermit {
    /// Begins to read a call of `connection` into `pages` pages. [`None`] if it must wait until
    /// another call of this connection has been read. Does not sleep.
    pub(super) fn new(connection: &Arc<ServerConn>, pages: usize) -> Option<Self> {
        let total = TOTAL.fetch_add(pages, Relaxed).saturating_add(pages);
        if !connection
            .read_budget
            .begin(total <= config::max_total_read_pages())
        {
            TOTAL.fetch_sub(pages, Relaxed);
            return None;
        }
        Some(Self {
            connection: connection.clone(),
            pages,
            wakes: true,
        })
    }

    /// Gives the pages back because the call is not read now but waits for SQ credits. The call
    /// that waits for pages is retried when this one has been read.
    pub(super) fn cancel(mut self) {
        self.wakes = false;
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.pages, Relaxed);
        let budget = &self.connection.read_budget;
        budget.count.fetch_sub(1, Full);
        if self.wakes && budget.take_waiter() {
            self.connection.on_pages_freed();
        }
    }
}
