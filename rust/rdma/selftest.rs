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
    outstanding::Entry,
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
        Puller,
        Transfer, //
    },
    underway::{
        Then,
        Underway, //
    },
    Failure,
    Handler,
    ProtectionDomain,
    QueuePair, //
};
use core::ptr::{
    null_mut,
    NonNull, //
};
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
        "an invalidation that never completes gives its regions back",
        lost_invalidation_is_given_back,
    ),
    (
        "a portion has the elements of its own requests, and one completion",
        portion_has_its_own,
    ),
    (
        "Reads that are more than a portion bring all",
        reads_go_in_portions,
    ),
    (
        "Writes that are more than a portion are there before their Send",
        writes_go_in_portions,
    ),
    (
        "a Read that is denied fails all of them, whatever portion it is of",
        denied_read_fails_all,
    ),
    (
        "a Write that is denied fails its message, whatever portion it is of",
        denied_write_fails_its_message,
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

/// RDMA Reads and Writes of a [`Station`] at the same time.
const TRANSFERS: usize = 4;

/// More than a [`Station`] posts at once, and no multiple of that.
const SEGMENTS: u32 = 5;

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
    /// Transfers that have completed.
    pulled: usize,
    /// Whether one was denied memory.
    denied: bool,
    /// The message whose Writes failed.
    unwritten: Option<[u8; 4]>,
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

    fn write_failed(&self, message: [u8; 4], failure: Failure) {
        self.note(|seen| {
            seen.denied |= failure.is_denial();
            seen.unwritten = Some(message);
        });
    }

    fn send_resumed(&self) {}

    fn invalidated(&self, _queue: &QueuePair<Self>, _regions: mr::Idle<Self>, (): ()) {}

    fn invalidate_failed(&self, regions: mr::Registered<Self>, (): ()) {
        self.note(|seen| seen.broken = Some(regions));
    }
}

impl Puller for End {
    type Pulled = ();

    fn pulled(&self, _queue: &QueuePair<Self>, (): ()) {
        self.note(|seen| seen.pulled += 1);
    }

    fn pull_failed(&self, (): (), failure: Failure) {
        self.note(|seen| seen.denied |= failure.is_denial());
    }
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
                transfers: TRANSFERS as u32,
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

    /// The device flushes a request after all, that it seemed to have lost when its queue pair was drained.
    fn come_up_with(&self, lost: NonNull<Entry>) {
        let mut completion = raw::ib_wc {
            status: raw::ib_wc_status_IB_WC_WR_FLUSH_ERR,
            ..Default::default()
        };
        // SAFETY: What is lost lives as long as the queue pair.
        completion.__bindgen_anon_1.wr_cqe = unsafe { &raw mut (*lost.as_ptr()).cqe };
        // SAFETY: As above; the id has its queue pair, and that its completion queue.
        let (done, cq) = unsafe {
            let queue = (*self.queue.id().as_raw()).qp;
            ((*lost.as_ptr()).cqe.done, (*queue).send_cq)
        };
        if let Some(done) = done {
            // SAFETY: It is called as the core would.
            unsafe { done(cq, &mut completion) };
        }
    }

    /// Whether all the room for transfers is there, and no more.
    fn has_room(&self) -> bool {
        self.queue.sends().lock().room == TRANSFERS
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
        let (_, registered, result) = self.offer(page, mr::Access::Read)?;
        Ok((registered, result))
    }

    /// The same for `access`, and how the peer names it.
    fn offer(
        &self,
        page: &Page,
        access: mr::Access,
    ) -> Result<(mr::Handle, mr::Registered<End>, Result)> {
        let mut idle = mr::Idle::new();
        idle.allocate(self.queue.pd(), 1)?;
        let mut regions = mr::Prepared::new();
        let mut pieces = [page.piece(0, LEN)].into_iter().peekable();
        let handle = regions.map(&mut idle, &mut pieces, access, 1)?;
        let (registered, result) =
            self.queue
                .post_send(regions, self.buffer()?, 20, None, Doorbell::Ring);
        Ok((handle, registered, result))
    }

    /// `transfer` between the first bytes of `page` and the peer's memory `whole`, in more requests than
    /// are posted at once. One may have another key, and so be `denied`.
    fn prepare_many(
        &self,
        mut transfer: Transfer<End>,
        page: &Page,
        whole: mr::Handle,
        denied: Option<u32>,
    ) -> Result<Prepared<End>> {
        for place in 0..SEGMENTS {
            transfer.add_remote(mr::Handle {
                rkey: whole.rkey ^ u32::from(denied == Some(place)),
                len: whole.len / SEGMENTS,
                iova: whole.iova + u64::from(place * (whole.len / SEGMENTS)),
            })?;
        }
        transfer.add_local(page.piece(0, LEN)?)?;
        transfer.prepare()
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
    let lost = Underway::new(reads.0, Then::Pulled(()), &station.queue)?;
    let lost = lost.give_up();
    // SAFETY: It was never posted, which is as good as a device that forgot it.
    unsafe { station.queue.sends().lock().underway.add(lost) };
    let stayed = kept(&page);
    station.queue.shut_down();
    station.come_up_with(lost);
    let still = kept(&page);
    drop(station);
    Ok(stayed && still && !kept(&page))
}

fn lost_invalidation_is_given_back() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, _) = station.register(&page)?;
    let Ok((lost, _)) = registered.into_fence(&station.queue, null_mut(), ()) else {
        return Ok(false);
    };
    // SAFETY: It was never posted, which is as good as a device that forgot it.
    unsafe { station.queue.sends().lock().fences.add(lost) };
    station.queue.shut_down();
    let Some(registered) = station.end.seen.lock().broken.take() else {
        return Ok(false);
    };
    let given_back = registered.len() == 1 && kept(&page);
    drop(registered);
    station.come_up_with(lost);
    // It is where a device that is even later finds it, and brought nothing back.
    let stays = station.queue.sends().lock().fences.iter().eq([lost]);
    let given_back = given_back && stays && station.end.seen.lock().broken.is_none();
    Ok(given_back && !kept(&page))
}

/// A page with bytes that differ from those of other `seed`s.
fn filled(seed: u8) -> Result<Page> {
    let page = Page::new(GFP_KERNEL)?;
    let bytes: [u8; LEN] = core::array::from_fn(|at| (at as u8).wrapping_mul(7) ^ seed);
    page.copy_in(0, &bytes)?;
    Ok(page)
}

fn same(one: &Page, other: &Page) -> Result<bool> {
    let (mut these, mut those) = ([0; LEN], [0; LEN]);
    one.copy_out(0, &mut these)?;
    other.copy_out(0, &mut those)?;
    Ok(these == those)
}

fn reads_go_in_portions() -> Result<bool> {
    let pair = Pair::new()?;
    let (near, far) = (&pair.near, &pair.far);
    // More often than there is room for, if it did not come back.
    for round in 1..=4 {
        let (theirs, ours) = (filled(0x10 + round)?, Page::new(GFP_KERNEL)?);
        let (handle, registered, result) = far.offer(&theirs, mr::Access::Read)?;
        result?;
        let round = usize::from(round);
        near.end
            .wait(|seen| (seen.received >= round).then_some(()))?;
        let reads = Transfer::reads(&near.queue, GFP_KERNEL)?;
        let reads = near.prepare_many(reads, &ours, handle, None)?;
        if near.queue.post_reads(reads, ()).is_err() {
            return Ok(false);
        }
        near.end.wait(|seen| (seen.pulled >= round).then_some(()))?;
        if !same(&ours, &theirs)? || kept(&ours) {
            return Ok(false);
        }
        drop(registered);
    }
    Ok(near.has_room())
}

fn writes_go_in_portions() -> Result<bool> {
    let pair = Pair::new()?;
    let (near, far) = (&pair.near, &pair.far);
    for round in 1..=4 {
        let (theirs, ours) = (Page::new(GFP_KERNEL)?, filled(0x20 + round)?);
        let (handle, registered, result) = far.offer(&theirs, mr::Access::Write)?;
        result?;
        let round = usize::from(round);
        near.end
            .wait(|seen| (seen.received >= round).then_some(()))?;
        let writes = Transfer::writes(&near.queue, GFP_KERNEL)?;
        let writes = Attached::Writes(near.prepare_many(writes, &ours, handle, None)?);
        if near
            .queue
            .post_reply(writes, near.buffer()?, 20, Verb::Send)
            .is_err()
        {
            return Ok(false);
        }
        pair.arrived(round)?;
        if !same(&ours, &theirs)? {
            return Ok(false);
        }
        drop(registered);
    }
    near.queue.shut_down();
    Ok(near.has_room())
}

fn denied_read_fails_all() -> Result<bool> {
    for denied in 0..SEGMENTS {
        if !fails_all(denied)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fails_all(denied: u32) -> Result<bool> {
    let pair = Pair::new()?;
    let (near, far) = (&pair.near, &pair.far);
    let (theirs, ours) = (filled(0x30)?, Page::new(GFP_KERNEL)?);
    let (handle, _registered, result) = far.offer(&theirs, mr::Access::Read)?;
    result?;
    near.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    let reads = Transfer::reads(&near.queue, GFP_KERNEL)?;
    let reads = near.prepare_many(reads, &ours, handle, Some(denied))?;
    if near.queue.post_reads(reads, ()).is_err() {
        return Ok(false);
    }
    near.end.wait(|seen| seen.denied.then_some(()))?;
    near.queue.shut_down();
    Ok(near.end.seen.lock().pulled == 0 && !kept(&ours))
}

fn denied_write_fails_its_message() -> Result<bool> {
    for denied in 0..SEGMENTS {
        if !fails_its_message(denied)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fails_its_message(denied: u32) -> Result<bool> {
    let pair = Pair::new()?;
    let (near, far) = (&pair.near, &pair.far);
    let (theirs, ours) = (Page::new(GFP_KERNEL)?, filled(0x40)?);
    let (handle, _registered, result) = far.offer(&theirs, mr::Access::Write)?;
    result?;
    near.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    let writes = Transfer::writes(&near.queue, GFP_KERNEL)?;
    let writes = Attached::Writes(near.prepare_many(writes, &ours, handle, Some(denied))?);
    let mut buffer = near.buffer()?;
    let head = buffer.bytes_mut().first_chunk_mut::<4>().ok_or(EINVAL)?;
    *head = *b"head";
    if near
        .queue
        .post_reply(writes, buffer, 20, Verb::Send)
        .is_err()
    {
        return Ok(false);
    }
    let unwritten = near.end.wait(|seen| seen.unwritten.take())?;
    near.queue.shut_down();
    let denied = near.end.seen.lock().denied;
    let arrived = far.end.seen.lock().received;
    Ok(denied && unwritten == *b"head" && arrived == 0 && !kept(&ours))
}

/// Lengths of what five requests go to, and where the memory for that is: neither begins nor ends with the other.
fn portion_has_its_own() -> Result<bool> {
    const REMOTE: [u32; 5] = [100, 300, 50, 250, 100];
    const LOCAL: [(usize, usize); 4] = [(0, 150), (200, 200), (600, 300), (1000, 150)];
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let mut transfer = Transfer::writes(&station.queue, GFP_KERNEL)?;
    for len in REMOTE {
        transfer.add_remote(mr::Handle {
            rkey: len,
            len,
            iova: 0,
        })?;
    }
    for (offset, len) in LOCAL {
        transfer.add_local(page.piece(offset, len)?)?;
    }
    let mut inner = transfer.prepare()?.0;
    let mut lengths = [0; 5];
    let mut elements = [0; 5];
    for portion in [0..2, 2..4, 4..5] {
        let places = portion.clone();
        let mut next = inner.link(portion, null_mut(), null_mut());
        for place in places {
            // SAFETY: The list was just made, of requests that `inner` has.
            let Some(wr) = (unsafe { next.as_ref() }) else {
                return Ok(false);
            };
            for element in 0..usize::try_from(wr.num_sge)? {
                // SAFETY: The request has so many.
                lengths[place] += unsafe { (*wr.sg_list.add(element)).length };
                elements[place] += 1;
            }
            next = wr.next;
        }
        if !next.is_null() {
            return Ok(false);
        }
    }
    Ok(lengths == REMOTE && elements == [1, 3, 1, 2, 1])
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
