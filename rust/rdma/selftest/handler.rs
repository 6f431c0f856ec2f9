// SPDX-License-Identifier: GPL-2.0

//! The context of a connection in the tests, which records its events.

use super::policy::TestPolicy;
use crate::prelude::*;
use crate::{
    cm,
    errno::etimedout,
    listener,
    receive,
    Completing,
    Invalidated,
    QueueEvent,
    QueuePair,
    ReadHandler, //
};
use ext::memory::Page;
use kernel::{
    new_condvar,
    new_spinlock,
    sync::{
        CondVar,
        SpinLock, //
    },
    time::msecs_to_jiffies, //
};

/// The timeout of an event.
pub(super) const TIMEOUT_MS: u32 = 10_000;

/// The context of an end of a connection.
#[pin_data]
pub(super) struct TestHandler {
    #[pin]
    pub(super) seen: SpinLock<EventLog>,
    #[pin]
    news: CondVar,
    /// The numbers of events of the queue pair. Atomic, as events may come in an interrupt.
    pub(super) fatal_events: Atomic<usize>,
    pub(super) harmless_events: Atomic<usize>,
}

/// The events that it has recorded.
#[derive(Default)]
pub(super) struct EventLog {
    pub(super) resolved: bool,
    pub(super) routed: bool,
    pub(super) established: bool,
    pub(super) received: usize,
    /// Whether to keep the next message, and the message.
    pub(super) keeps: bool,
    pub(super) message: Option<receive::Message<TestHandler>>,
    /// The number of transfers that have completed.
    pub(super) reads_done: usize,
    /// The pages that came back from the last of these.
    pub(super) pages: Option<KVec<Page>>,
    /// The number of calls of [`ReadHandler::batch_not_posted`].
    pub(super) unposted_batches: usize,
    /// Whether the peer denied access to memory.
    pub(super) denied: bool,
    /// The tag of the Send whose Writes failed.
    pub(super) unwritten: Option<u32>,
    /// Whether a request failed.
    pub(super) failed: bool,
    /// The number of chains of invalidations that succeeded.
    pub(super) invalidations_done: usize,
    /// Whether one of them was reported while its page was still referenced.
    pub(super) early: bool,
    /// The regions whose invalidation failed.
    pub(super) broken: Option<mr::Registered<TestHandler>>,
    /// The id of a connection request.
    pub(super) connect_request: Option<Arc<Id<TestHandler>>>,
}

impl TestHandler {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                seen <- new_spinlock!(EventLog::default(), "rdma::selftest"),
                news <- new_condvar!("rdma::selftest"),
                fatal_events: Atomic::new(0),
                harmless_events: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    fn note(&self, f: impl FnOnce(&mut EventLog)) {
        f(&mut self.seen.lock());
        self.news.notify_all();
    }

    pub(super) fn wait<R>(&self, mut f: impl FnMut(&mut EventLog) -> Option<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(TIMEOUT_MS);
        let mut seen = self.seen.lock();
        loop {
            if let Some(found) = f(&mut seen) {
                return Ok(found);
            }
            use kernel::sync::CondVarTimeoutResult as Wait;
            left = match self.news.wait_interruptible_timeout(&mut seen, left) {
                Wait::Timeout => return Err(etimedout()),
                Wait::Woken { jiffies } | Wait::Signal { jiffies } => jiffies,
            };
        }
    }
}

impl Context for TestHandler {
    /// A page that must be released before [`Handler::invalidated`].
    type InvalidateContext = Option<Arc<Page>>;
    type MessageContext = ();
    type SendTag = u32;

    fn cm_event(&self, event: cm::Event<'_>, _id: &cm::EventId<'_>) {
        self.note(|seen| match event {
            cm::Event::AddrResolved => seen.resolved = true,
            cm::Event::RouteResolved => seen.routed = true,
            cm::Event::Established { .. } => seen.established = true,
            _ => (),
        });
    }

    fn queue_event(&self, event: &QueueEvent<'_>) {
        let count = if event.is_fatal() {
            &self.fatal_events
        } else {
            &self.harmless_events
        };
        count.add(1, Relaxed);
    }
}

impl Handler for TestHandler {
    type SendPolicy = TestPolicy<Self>;

    fn received(
        &self,
        _queue: &mut Completing<'_, Self>,
        message: receive::Message<Self>,
        _invalidated: Option<Invalidated<'_, Self>>,
    ) {
        self.note(|seen| {
            seen.received += 1;
            if seen.keeps && seen.message.is_none() {
                seen.message = Some(message);
            }
        });
    }

    fn receive_failed(
        &self,
        _queue: &mut Completing<'_, Self>,
        buffer: receive::Buffer<Self>,
        _failure: WcStatus,
    ) {
        drop(buffer);
    }

    fn request_failed(&self, _failure: WcStatus) {
        self.note(|seen| seen.failed = true);
    }

    fn write_failed(&self, tag: u32, failure: WcStatus) {
        self.note(|seen| {
            seen.denied |= failure.is_denial();
            seen.unwritten = Some(tag);
        });
    }

    fn send_space_freed(&self, _queue: &QueuePair<Self>) {}

    fn invalidated(
        &self,
        _queue: &mut Completing<'_, Self>,
        _regions: mr::Idle<Self>,
        page: Self::InvalidateContext,
    ) {
        let early = page.is_some_and(|page| kept(&page));
        self.note(|seen| {
            seen.invalidations_done += 1;
            seen.early |= early;
        });
    }

    fn invalidate_failed(&self, regions: mr::Registered<Self>, _page: Self::InvalidateContext) {
        self.note(|seen| seen.broken = Some(regions));
    }
}

impl ReadHandler for TestHandler {
    type ReadDone = u32;

    fn read_done(&self, _queue: &QueuePair<Self>, _tag: u32, pages: KVec<Page>) {
        self.note(|seen| {
            seen.reads_done += 1;
            seen.pages = Some(pages);
        });
    }

    fn read_failed(&self, _queue: &QueuePair<Self>, _tag: u32, failure: WcStatus) {
        self.note(|seen| seen.denied |= failure.is_denial());
    }

    fn batch_not_posted(&self) {
        self.note(|seen| seen.unposted_batches += 1);
    }
}

impl listener::Listen for TestHandler {
    type Connection = Self;

    fn connect_request(&self, request: &listener::Request<'_, Self>) {
        let adopted = TestHandler::new().and_then(|end| request.adopt(end));
        self.note(|seen| seen.connect_request = adopted.ok());
    }

    fn address_changed(&self) {}

    fn listener_lost(&self) {}
}

/// Returns whether the device, or anybody else, still has a reference to `page`.
pub(super) fn kept(page: &Page) -> bool {
    !page.is_unique()
}
