// SPDX-License-Identifier: GPL-2.0

//! A connection between two ends.

use super::{
    handler::{
        TestHandler,
        TIMEOUT_MS, //
    },
    policy::TestPolicy, //
};
use crate::prelude::*;
use crate::{
    cm::ConnectParameters,
    errno::eopnotsupp,
    listener,
    qp::Parameters,
    receive,
    send::{
        Buffer,
        Doorbell,
        SendKind,
        UnpostedSend, //
    },
    transfer::{
        Attached,
        Gathered,
        PreparedTransfer,
        Transfer, //
    },
    BatchMemory,
    NotPosted,
    QueuePair, //
};
use core::iter::Peekable;
use ext::{
    addr::SockAddr,
    memory::Page,
    net::Net, //
};

pub(super) const PORT: u16 = 20_050;
pub(super) const LEN: usize = 2_000;

/// The RDMA Reads and Writes of a [`Fixture`] at the same time.
pub(super) const TRANSFERS: usize = 4;

/// The offset in a Send at which memory is gathered.
pub(super) const GATHER_AT: usize = 10;

/// The most regions that are registered for one Send.
pub(super) const REGIONS: usize = 3;

/// The registrations, and the invalidations, of a [`Fixture`] at the same time.
pub(super) const REGISTRATIONS: usize = 96;

pub(super) const PARAMETERS: ConnectParameters<'static> = ConnectParameters {
    private_data: &[],
    responder_resources: 1,
    initiator_depth: 1,
    retry_count: 6,
    rnr_retry_count: 0,
};

/// An end of a connection with its queue pair.
pub(super) struct Fixture {
    pub(super) queue: Arc<QueuePair<TestHandler>>,
    pub(super) end: Arc<TestHandler>,
}

impl Fixture {
    pub(super) fn new(id: Arc<Id<TestHandler>>) -> Result<Self> {
        let pd = ProtectionDomain::new(id.clone())?;
        let end = id.context().clone();
        let policy = TestPolicy::new(&pd, 32, TRANSFERS)?;
        let queue = QueuePair::new(
            id,
            pd,
            &Parameters {
                receives: 32,
                sends: 32,
                send_elements: 4,
                regions_per_send: REGIONS as u32,
                registrations: REGISTRATIONS as u32,
                invalidations: REGISTRATIONS as u32,
                transfers: TRANSFERS as u32,
            },
            policy,
        )?;
        let mut receives = receive::Buffers::new();
        for _ in 0..32 {
            receives.allocate(queue.pd(), 4_096, GFP_KERNEL)?;
        }
        queue.post_receives(&mut receives)?;
        Ok(Self { queue, end })
    }

    /// Creates an end that is bound to a device and has no peer.
    pub(super) fn alone(port: u16) -> Result<Self> {
        let end = TestHandler::new()?;
        let id = Id::new(&net(), end.clone())?;
        id.resolve_address(&address(port)?, TIMEOUT_MS)?;
        end.wait(|seen| seen.resolved.then_some(()))?;
        Self::new(id)
    }

    /// Returns `EOPNOTSUPP` on iWARP, where a Write completes before the peer has seen it, all
    /// requests are flushed if the peer denies one, and the destination of a Read is registered.
    pub(super) fn need_roce(&self) -> Result {
        if self.queue.id().is_iwarp() {
            Err(eopnotsupp())
        } else {
            Ok(())
        }
    }

    /// Prepares `transfer` between the first bytes of `page` and memory that the peer does not
    /// have.
    pub(super) fn prepare(
        &self,
        mut transfer: Transfer<TestHandler>,
        page: &Page,
    ) -> Result<PreparedTransfer<TestHandler>> {
        transfer.add_remote(mr::Segment {
            rkey: 1,
            len: u32::try_from(LEN)?,
            iova: 0,
        })?;
        transfer.add_local(page.piece(0, LEN)?)?;
        transfer.prepare()
    }

    /// Prepares RDMA Reads of memory that the peer does not have, into a page that is moved into
    /// the transfer. Returns a reference to that page as well.
    pub(super) fn prepare_own(&self) -> Result<(PreparedTransfer<TestHandler>, Page)> {
        let (pages, watched) = own_pages(1)?;
        let mut reads = Transfer::reads(&self.queue, None, GFP_KERNEL)?;
        reads.set_pages(pages)?;
        reads.add_remote(mr::Segment {
            rkey: 1,
            len: u32::try_from(LEN)?,
            iova: 0,
        })?;
        reads.add_own(0..LEN)?;
        Ok((reads.prepare()?, watched))
    }

    pub(super) fn buffer(&self) -> Result<Buffer<TestHandler>> {
        self.queue.send_queue().policy().take().ok_or(ENOMEM)
    }

    /// Posts a Send of a few bytes with `attached`, in batches of half of the credits.
    pub(super) fn post_reply(
        &self,
        attached: Attached<TestHandler>,
        buffer: Buffer<TestHandler>,
        tag: u32,
    ) -> Result {
        self.post_reply_of(attached, buffer, 20, tag)
    }

    /// Posts as [`Self::post_reply`] does, a Send of `len` bytes.
    pub(super) fn post_reply_of(
        &self,
        attached: Attached<TestHandler>,
        buffer: Buffer<TestHandler>,
        len: usize,
        tag: u32,
    ) -> Result {
        let memory = BatchMemory::new(GFP_KERNEL)?;
        let mut sends = self.queue.send_queue();
        let permit = sends.policy().reserve(attached.requests())?;
        let send = UnpostedSend {
            buffer,
            len,
            kind: SendKind::Plain,
            tag,
        };
        sends.post_reply(attached, permit, send, Some(memory))
    }

    /// Posts `reads`, in batches of half of the credits.
    pub(super) fn post_reads(&self, reads: PreparedTransfer<TestHandler>) -> Result {
        Ok(self.post_reads_for(reads, 0)?)
    }

    /// Posts as [`Self::post_reads`] does. `tag` comes back.
    pub(super) fn post_reads_for(
        &self,
        reads: PreparedTransfer<TestHandler>,
        tag: u32,
    ) -> Result<(), NotPosted<u32>> {
        let mut sends = self.queue.send_queue();
        let permit = match sends.policy().reserve(reads.len()) {
            Ok(permit) => permit,
            Err(error) => {
                return Err(NotPosted {
                    error,
                    context: Some(tag),
                })
            }
        };
        sends.post_reads(reads, permit, tag)
    }

    /// Moves the queue pair to the error state, which flushes posted requests. The upper layer can
    /// still post.
    pub(super) fn enter_error_state(&self) {
        // SAFETY: `queue` keeps the id live, and was not drained, so its queue pair exists and has
        // room for the request of a drain.
        unsafe { cbindings::ib_drain_sq((*self.queue.id().as_raw()).qp) };
    }

    /// Sends a few bytes, with `gathered` among them.
    pub(super) fn send(&self, gathered: Option<Gathered<TestHandler>>) -> Result {
        let regions = mr::Prepared::new();
        let (_, result) = self.queue.post_send(
            regions,
            self.buffer()?,
            20,
            gathered,
            Doorbell::Ring,
            |_| (),
        );
        result
    }

    /// Maps the first bytes of `page` as part of a Send.
    pub(super) fn gather(&self, page: &Page) -> Result<Gathered<TestHandler>> {
        let mut memory = Transfer::writes(&self.queue, None, GFP_KERNEL)?;
        memory.add_local(page.piece(0, LEN)?)?;
        memory.gather(GATHER_AT)
    }

    /// Sends a few bytes with a registration of `page`. Returns the region and the result.
    pub(super) fn register(&self, page: &Page) -> Result<(mr::Registered<TestHandler>, Result)> {
        let (_, registered, result) = self.offer(page, mr::Access::Read)?;
        Ok((registered, result))
    }

    /// Sends a few bytes with a registration of `page` for `access`. Returns the peer's name for
    /// the region, too.
    pub(super) fn offer(
        &self,
        page: &Page,
        access: mr::Access,
    ) -> Result<(mr::Segment, mr::Registered<TestHandler>, Result)> {
        let (segment, regions) = self.cover(page, access)?;
        let (registered, result) = self.advertise(regions)?;
        Ok((segment, registered, result))
    }

    /// Covers the first bytes of `page` with a region, to be registered with a Send.
    pub(super) fn cover(
        &self,
        page: &Page,
        access: mr::Access,
    ) -> Result<(mr::Segment, mr::Prepared<TestHandler>)> {
        let mut regions = mr::Prepared::new();
        let segment = self.cover_more(&mut regions, page, access)?;
        Ok((segment, regions))
    }

    /// Covers each of `pages` with a region.
    pub(super) fn cover_all(&self, pages: &[Page]) -> Result<mr::Prepared<TestHandler>> {
        let mut regions = mr::Prepared::new();
        for page in pages {
            self.cover_more(&mut regions, page, mr::Access::Read)?;
        }
        Ok(regions)
    }

    fn cover_more(
        &self,
        regions: &mut mr::Prepared<TestHandler>,
        page: &Page,
        access: mr::Access,
    ) -> Result<mr::Segment> {
        let mut idle = mr::Idle::new();
        idle.allocate(self.queue.pd(), 1, GFP_KERNEL)?;
        regions.map(&mut idle, &mut pieces(page), access, 1)
    }

    /// Sends a few bytes with the registration of `regions`. Returns the regions and the result.
    pub(super) fn advertise(
        &self,
        regions: mr::Prepared<TestHandler>,
    ) -> Result<(mr::Registered<TestHandler>, Result)> {
        let buffer = self.buffer()?;
        let sent = self
            .queue
            .post_send(regions, buffer, 20, None, Doorbell::Ring, |_| ());
        Ok(sent)
    }
}

/// Covers the first bytes of `page` with a region of `idle`. Returns its key, too.
pub(super) fn cover_with(
    idle: &mut mr::Idle<TestHandler>,
    page: &Page,
) -> Result<(u32, mr::Prepared<TestHandler>)> {
    let mut regions = mr::Prepared::new();
    let segment = regions.map(idle, &mut pieces(page), mr::Access::Read, 1)?;
    Ok((segment.rkey, regions))
}

/// Allocates `count` pages to be moved into a transfer. Returns a reference to the last one as
/// well, which tells whether it is kept.
pub(super) fn own_pages(count: usize) -> Result<(KVec<Page>, Page)> {
    let mut pages = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        pages.push(Page::new(GFP_KERNEL)?, GFP_KERNEL)?;
    }
    let last = pages.last().and_then(|page| NonNull::new(page.as_ptr()));
    // SAFETY: The page was just allocated as one of order 0, and `pages` has it.
    let watched = unsafe { Page::share(last.ok_or(EINVAL)?) };
    Ok((pages, watched))
}

/// Returns the first bytes of `page`.
fn pieces(page: &Page) -> Peekable<impl Iterator<Item = Result<Piece>>> {
    [page.piece(0, LEN)].into_iter().peekable()
}

/// A connection with both ends.
pub(super) struct Pair {
    pub(super) near: Fixture,
    pub(super) far: Fixture,
}

impl Pair {
    pub(super) fn new() -> Result<Self> {
        let listening = TestHandler::new()?;
        let listener = listener::CmListener::new(&net(), &address(PORT)?, 4, listening.clone())?;
        let near = Fixture::alone(PORT)?;
        near.queue.id().resolve_route(TIMEOUT_MS)?;
        near.end.wait(|seen| seen.routed.then_some(()))?;
        near.queue.connect(&PARAMETERS)?;
        let id = listening.wait(|seen| seen.connect_request.take())?;
        drop(listener);
        let far = Fixture::new(id)?;
        far.queue.accept(&PARAMETERS)?;
        for end in [&near.end, &far.end] {
            end.wait(|seen| seen.established.then_some(()))?;
        }
        Ok(Self { near, far })
    }

    /// Waits until `count` messages have arrived at the far end.
    pub(super) fn arrived(&self, count: usize) -> Result {
        self.far
            .end
            .wait(|seen| (seen.received >= count).then_some(()))
    }
}

/// Returns the network namespace of the tests.
pub fn net() -> Net {
    // SAFETY: `init_net` is a static, which is never freed.
    unsafe { Net::from_raw(NonNull::new_unchecked(&raw mut cbindings::init_net)) }
}

/// Returns the address of the device, with `port`.
pub fn address(port: u16) -> Result<SockAddr> {
    let address = cbindings::sockaddr_in {
        sin_family: u16::try_from(cbindings::AF_INET)?,
        sin_port: port.to_be(),
        sin_addr: cbindings::in_addr {
            s_addr: u32::from_ne_bytes([192, 0, 2, 1]),
        },
        ..Default::default()
    };
    // SAFETY: `address` is a local variable, valid for reads of its size.
    unsafe { SockAddr::from_raw((&raw const address).cast(), size_of_val(&address)) }
}

/// Returns whether `test` passes for each of `cases`.
pub(super) fn each<T>(
    cases: impl IntoIterator<Item = T>,
    test: impl Fn(T) -> Result<bool>,
) -> Result<bool> {
    for case in cases {
        if !test(case)? {
            return Ok(false);
        }
    }
    Ok(true)
}
