// SPDX-License-Identifier: GPL-2.0

//! Tests that need a device: memory that the device or the peer may reach is kept, whatever fails,
//! until neither can.
//!
//! A soft RoCE device has the address 192.0.2.1. Two ends of a connection are made there.

use crate::{
    cm::{
        self,
        ConnectParameters,
        Id, //
    },
    error::timed_out,
    listener,
    mr,
    qp::{
        Parameters,
        Unposted,
        UnpostedReads, //
    },
    receive,
    send::{
        Buffer,
        Doorbell,
        Verb, //
    },
    transfer::{
        Attached,
        Inserted,
        Prepared,
        Pull,
        Puller,
        Transfer, //
    },
    Failure,
    Handler,
    ProtectionDomain,
    QueuePair, //
};
use core::ptr::NonNull;
use kernel::{
    new_condvar,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta, //
    }, //
};
use raw::{
    addr::{
        Net,
        SockAddr, //
    },
    memory::Page, //
};

/// True if it passed.
pub type Test = fn() -> Result<bool>;

/// Each with its name, which is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "data of a Send stays when the Send has arrived",
        data_stays_when_the_send_has_arrived,
    ),
    (
        "data of a Send goes with a later completion",
        data_goes_with_a_later_completion,
    ),
    (
        "a Send that cannot be posted leaves no region valid",
        unposted_send_leaves_no_region_valid,
    ),
    (
        "an invalidation that cannot be posted gives its regions back",
        unposted_invalidation_gives_back,
    ),
    (
        "an invalidation that fails does not free its regions",
        failed_invalidation_does_not_free,
    ),
    (
        "a Read that never completes goes with its queue pair",
        lost_read_goes_with_its_queue_pair,
    ),
    (
        "Reads go with no Send, and Writes are no Reads",
        reads_and_writes_are_not_mixed_up,
    ),
    (
        "nobody is answered who did not ask",
        nobody_is_answered_who_did_not_ask,
    ),
];

const PORT: u16 = 20_050;
const TIMEOUT_MS: u32 = 10_000;
const LEN: usize = 2_000;

const PARAMETERS: ConnectParameters<'static> = ConnectParameters {
    private_data: &[],
    responder_resources: 1,
    initiator_depth: 1,
    retry_count: 6,
    rnr_retry_count: 0,
};

/// One end of a connection.
#[pin_data]
struct End {
    #[pin]
    seen: SpinLock<Seen>,
    #[pin]
    news: CondVar,
}

/// What it has seen.
#[derive(Default)]
struct Seen {
    resolved: bool,
    routed: bool,
    established: bool,
    received: usize,
    /// Regions whose invalidation failed.
    broken: Option<mr::Registered<End>>,
    /// Who wants to connect.
    door: Option<Arc<Id<End>>>,
}

impl End {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                seen <- new_spinlock!(Seen::default(), "rdma::selftest"),
                news <- new_condvar!("rdma::selftest"),
            }),
            GFP_KERNEL,
        )
    }

    fn note(&self, f: impl FnOnce(&mut Seen)) {
        f(&mut self.seen.lock());
        self.news.notify_all();
    }

    fn wait<R>(&self, mut f: impl FnMut(&mut Seen) -> Option<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(TIMEOUT_MS);
        let mut seen = self.seen.lock();
        loop {
            if let Some(found) = f(&mut seen) {
                return Ok(found);
            }
            use kernel::sync::CondVarTimeoutResult as Wait;
            left = match self.news.wait_interruptible_timeout(&mut seen, left) {
                Wait::Timeout => return Err(timed_out()),
                Wait::Woken { jiffies } | Wait::Signal { jiffies } => jiffies,
            };
        }
    }
}

impl Handler for End {
    type Fenced = ();

    fn cm_event(&self, event: cm::Event<'_>) {
        self.note(|seen| match event {
            cm::Event::AddrResolved => seen.resolved = true,
            cm::Event::RouteResolved => seen.routed = true,
            cm::Event::Established { .. } => seen.established = true,
            _ => (),
        });
    }

    fn received(
        &self,
        _queue: &QueuePair<Self>,
        message: receive::Message<Self>,
        _invalidated: Option<receive::Invalidated<'_, Self>>,
    ) {
        drop(message);
        self.note(|seen| seen.received += 1);
    }

    fn receive_failed(&self, buffer: receive::Buffer<Self>, _failure: Failure) {
        drop(buffer);
    }

    fn request_failed(&self, _failure: Failure) {}

    fn send_resumed(&self) {}

    fn invalidated(&self, _queue: &QueuePair<Self>, _regions: mr::Idle<Self>, (): ()) {}

    fn invalidate_failed(&self, regions: mr::Registered<Self>, (): ()) {
        self.note(|seen| seen.broken = Some(regions));
    }
}

impl Puller for End {
    type Pulled = ();

    fn pulled(&self, _queue: &QueuePair<Self>, (): ()) {}

    fn pull_failed(&self, (): (), _failure: Failure) {}
}

impl listener::Listen for End {
    type Connection = Self;

    fn connect_request(&self, request: &listener::Request<'_, Self>) {
        let adopted = End::new().and_then(|end| request.adopt(end));
        self.note(|seen| seen.door = adopted.ok());
    }

    fn moved(&self) {}

    fn deaf(&self) {}
}

/// An end with its queue pair.
struct Station {
    queue: Arc<QueuePair<End>>,
    end: Arc<End>,
}

impl Station {
    fn new(id: Arc<Id<End>>) -> Result<Self> {
        let pd = ProtectionDomain::new(id.clone())?;
        let end = id.context().clone();
        let queue = QueuePair::new(
            id,
            pd,
            &Parameters {
                receives: 32,
                send_buffers: 32,
                first_send_buffers: 32,
                send_bytes: 4_096,
                send_elements: 4,
                regions_per_send: 1,
                transfers: 4,
            },
        )?;
        let mut receives = receive::Buffers::new();
        for _ in 0..32 {
            receives.allocate(queue.pd(), 4_096, GFP_KERNEL)?;
        }
        queue.post_receives(&mut receives)?;
        Ok(Self { queue, end })
    }

    /// One that knows its device, and has no peer.
    fn alone(port: u16) -> Result<Self> {
        let end = End::new()?;
        let id = Id::new(&net(), end.clone())?;
        id.resolve_address(&address(port)?, TIMEOUT_MS)?;
        end.wait(|seen| seen.resolved.then_some(()))?;
        Self::new(id)
    }

    /// `transfer` between the first bytes of `page` and memory that the peer does not have.
    fn prepare(&self, mut transfer: Transfer<End>, page: &Page) -> Result<Prepared<End>> {
        transfer.add_remote(mr::Handle {
            rkey: 1,
            len: u32::try_from(LEN)?,
            iova: 0,
        })?;
        transfer.add_local(page.piece(0, LEN)?)?;
        transfer.prepare()
    }

    fn buffer(&self) -> Result<Buffer<End>> {
        self.queue.take_send_buffer().ok_or(ENOMEM)
    }

    /// Sends a few bytes, and `inserted` among them.
    fn send(&self, inserted: Option<Inserted<End>>) -> Result {
        let regions = mr::Prepared::new();
        let (_, result) =
            self.queue
                .post_send(regions, self.buffer()?, 20, inserted, Doorbell::Ring);
        result
    }

    /// The first bytes of `page` as a part of a Send.
    fn insert(&self, page: &Page) -> Result<Inserted<End>> {
        let mut memory = Transfer::writes(&self.queue, GFP_KERNEL)?;
        memory.add_local(page.piece(0, LEN)?)?;
        memory.insert(10)
    }

    /// Sends a few bytes with a registration of `page`. Returns how that went.
    fn register(&self, page: &Page) -> Result<(mr::Registered<End>, Result)> {
        let mut idle = mr::Idle::new();
        idle.allocate(self.queue.pd(), 1)?;
        let mut regions = mr::Prepared::new();
        let mut pieces = [page.piece(0, LEN)].into_iter().peekable();
        regions.map(&mut idle, &mut pieces, mr::Access::Read, 1)?;
        Ok(self
            .queue
            .post_send(regions, self.buffer()?, 20, None, Doorbell::Ring))
    }
}

/// A connection.
struct Pair {
    near: Station,
    far: Station,
}

impl Pair {
    fn new() -> Result<Self> {
        let door = End::new()?;
        let listener = listener::Listener::new(&net(), &address(PORT)?, 4, door.clone())?;
        let near = Station::alone(PORT)?;
        near.queue.id().resolve_route(TIMEOUT_MS)?;
        near.end.wait(|seen| seen.routed.then_some(()))?;
        near.queue.id().connect(&PARAMETERS)?;
        let id = door.wait(|seen| seen.door.take())?;
        drop(listener);
        let far = Station::new(id)?;
        far.queue.id().accept(&PARAMETERS)?;
        for end in [&near.end, &far.end] {
            end.wait(|seen| seen.established.then_some(()))?;
        }
        Ok(Self { near, far })
    }

    /// Waits until `count` messages have arrived at the far end.
    fn arrived(&self, count: usize) -> Result {
        self.far
            .end
            .wait(|seen| (seen.received >= count).then_some(()))
    }
}

fn net() -> Net {
    // SAFETY: The first namespace is never freed.
    unsafe { Net::from_raw(NonNull::new_unchecked(&raw mut raw::init_net)) }
}

fn address(port: u16) -> Result<SockAddr> {
    let address = raw::sockaddr_in {
        sin_family: u16::try_from(raw::AF_INET)?,
        sin_port: port.to_be(),
        sin_addr: raw::in_addr {
            s_addr: u32::from_ne_bytes([192, 0, 2, 1]),
        },
        ..Default::default()
    };
    // SAFETY: The address is valid for its size.
    unsafe { SockAddr::from_raw((&raw const address).cast(), size_of_val(&address)) }
}

/// Whether the device, or who else, still has a reference to `page`.
fn kept(page: &Page) -> bool {
    !page.is_unique()
}

fn data_stays_when_the_send_has_arrived() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.insert(&page)?))?;
    pair.arrived(1)?;
    let stayed = kept(&page);
    pair.near.queue.shut_down();
    Ok(stayed && !kept(&page))
}

fn data_goes_with_a_later_completion() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.insert(&page)?))?;
    for _ in 0..16 {
        pair.near.send(None)?;
    }
    pair.arrived(17)?;
    // The completion comes when the device has heard that the Send arrived.
    for _ in 0..TIMEOUT_MS / 10 {
        if !kept(&page) {
            return Ok(true);
        }
        fsleep(Delta::from_millis(10));
    }
    Ok(false)
}

fn unposted_send_leaves_no_region_valid() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, result) = station.register(&page)?;
    // Some of the chain may have been posted, so the region counts as valid.
    let counted = result.is_err() && registered.len() == 1;
    drop(registered);
    let stayed = kept(&page);
    station.queue.shut_down();
    Ok(counted && stayed && !kept(&page))
}

fn unposted_invalidation_gives_back() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, _) = station.register(&page)?;
    let Err((registered, ())) = station.queue.post_invalidate(registered, ()) else {
        return Ok(false);
    };
    let stayed = registered.len() == 1 && kept(&page);
    station.queue.shut_down();
    let still = kept(&page);
    drop(registered);
    Ok(stayed && still && !kept(&page))
}

fn failed_invalidation_does_not_free() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, result) = pair.near.register(&page)?;
    result?;
    pair.arrived(1)?;
    pair.near.queue.drain_sends();
    if pair.near.queue.post_invalidate(registered, ()).is_err() {
        return Ok(false);
    }
    let broken = pair.near.end.wait(|seen| seen.broken.take())?;
    let given_back = broken.len() == 1 && kept(&page);
    drop(broken);
    let stayed = kept(&page);
    pair.near.queue.shut_down();
    Ok(given_back && stayed && !kept(&page))
}

fn lost_read_goes_with_its_queue_pair() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let reads = Transfer::reads(&station.queue, GFP_KERNEL)?;
    let reads = station.prepare(reads, &page)?;
    let pull = Pull::new(reads, (), &station.queue)?;
    // SAFETY: It was never posted, which is as good as a device that forgot it.
    unsafe { station.queue.sends().lock().pulls.add(pull.give_up()) };
    let stayed = kept(&page);
    station.queue.shut_down();
    Ok(stayed && !kept(&page))
}

fn reads_and_writes_are_not_mixed_up() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let queue = &station.queue;
    let page = Page::new(GFP_KERNEL)?;
    let reads = station.prepare(Transfer::reads(queue, GFP_KERNEL)?, &page)?;
    let sent = queue.post_reply(Attached::Writes(reads), station.buffer()?, 20, Verb::Send);
    let writes = station.prepare(Transfer::writes(queue, GFP_KERNEL)?, &page)?;
    let read = queue.post_reads(writes, ());
    let nothing = queue.post_reads(Transfer::reads(queue, GFP_KERNEL)?.prepare()?, ());
    let refused = matches!(sent, Err(Unposted::Lost(EINVAL)))
        && matches!(read, Err(UnpostedReads::Lost(EINVAL)))
        && matches!(nothing, Err(UnpostedReads::Lost(EINVAL)));
    Ok(refused && !kept(&page))
}

fn nobody_is_answered_who_did_not_ask() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let id = station.queue.id();
    id.disconnect();
    id.reject();
    Ok(id.accept(&PARAMETERS) == Err(EINVAL))
}
