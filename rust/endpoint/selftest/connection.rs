// SPDX-License-Identifier: GPL-2.0

//! A connection between two ends whose Send queues have this module's policy.

use super::super::{
    Parameters,
    SendPolicy, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use rdma::{
    cm::{
        self,
        ConnectParameters,
        Id, //
    },
    errno::etimedout,
    listener,
    memory::Page,
    mr,
    receive,
    selftest::{
        address,
        net, //
    },
    send,
    Completing,
    Context,
    Handler,
    Invalidated,
    ProtectionDomain,
    QueuePair,
    ReadHandler,
    WcStatus, //
};

/// The port of the tests.
pub const PORT: u16 = 20_051;
const TIMEOUT_MS: u32 = 10_000;

/// The length of a Send buffer, and of a Receive.
pub(super) const BUFFER_BYTES: usize = 4_096;

const CONNECT_PARAMETERS: ConnectParameters<'static> = ConnectParameters {
    private_data: &[],
    responder_resources: 1,
    initiator_depth: 1,
    retry_count: 6,
    rnr_retry_count: 0,
};

/// The context of one end of a connection.
#[pin_data]
pub struct End {
    #[pin]
    seen: SpinLock<Seen>,
}

/// The events at one end.
#[derive(Default)]
pub(super) struct Seen {
    resolved: bool,
    routed: bool,
    established: bool,
    connect_request: Option<(Arc<Id<End>>, Arc<End>)>,
    /// The number of messages received.
    pub(super) received: usize,
    /// The number of calls of [`Handler::send_space_freed`].
    pub(super) resumed: usize,
    /// The number of transfers that failed.
    pub(super) reads_failed: usize,
}

impl End {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                seen <- new_spinlock!(Seen::default(), "rpcrdma::selftest"),
            }),
            GFP_KERNEL,
        )
    }

    /// Calls `f` with the events, under their lock.
    pub(super) fn get<R>(&self, f: impl FnOnce(&mut Seen) -> R) -> R {
        f(&mut self.seen.lock())
    }

    /// Waits until `f` returns a value.
    fn wait<R>(&self, mut f: impl FnMut(&mut Seen) -> Option<R>) -> Result<R> {
        wait(|| self.get(&mut f))
    }
}

/// Waits until `f` returns a value.
pub fn wait<R>(mut f: impl FnMut() -> Option<R>) -> Result<R> {
    for _ in 0..TIMEOUT_MS / 10 {
        if let Some(found) = f() {
            return Ok(found);
        }
        fsleep(Delta::from_millis(10));
    }
    Err(etimedout())
}

impl Context for End {
    type InvalidateContext = ();
    type MessageContext = ();
    type SendTag = u32;

    fn cm_event(&self, event: cm::Event<'_>, _id: &cm::EventId<'_>) {
        self.get(|seen| match event {
            cm::Event::AddrResolved => seen.resolved = true,
            cm::Event::RouteResolved => seen.routed = true,
            cm::Event::Established { .. } => seen.established = true,
            _ => (),
        });
    }
}

impl Handler for End {
    type SendPolicy = SendPolicy<Self>;

    fn received(
        &self,
        _queue: &mut Completing<'_, Self>,
        message: receive::Message<Self>,
        _invalidated: Option<Invalidated<'_, Self>>,
    ) {
        drop(message);
        self.get(|seen| seen.received += 1);
    }

    fn receive_failed(
        &self,
        _queue: &mut Completing<'_, Self>,
        buffer: receive::Buffer<Self>,
        _status: WcStatus,
    ) {
        drop(buffer);
    }

    fn request_failed(&self, _status: WcStatus) {}

    fn send_space_freed(&self, _queue: &QueuePair<Self>) {
        self.get(|seen| seen.resumed += 1);
    }

    fn invalidated(&self, _queue: &mut Completing<'_, Self>, _regions: mr::Idle<Self>, (): ()) {}

    fn invalidate_failed(&self, _regions: mr::Registered<Self>, (): ()) {}
}

impl ReadHandler for End {
    type ReadDone = ();

    fn read_done(&self, _queue: &QueuePair<Self>, (): (), _pages: KVec<Page>) {}

    fn read_failed(&self, _queue: &QueuePair<Self>, (): (), _status: WcStatus) {
        self.get(|seen| seen.reads_failed += 1);
    }

    fn batch_not_posted(&self) {}
}

impl listener::Listen for End {
    type Connection = Self;

    fn connect_request(&self, request: &listener::Request<'_, Self>) {
        let adopted = End::new().and_then(|end| Ok((request.adopt(end.clone())?, end)));
        self.get(|seen| seen.connect_request = adopted.ok());
    }

    fn address_changed(&self) {}

    fn listener_lost(&self) {}
}

/// Returns the parameters of an end that has at most `send_buffers`, of which `first` are allocated
/// at once.
pub fn parameters(send_buffers: usize, first: usize) -> Parameters {
    Parameters {
        receives: 32,
        send_buffers,
        first_send_buffers: first,
        reserved_send_buffers: 1,
        send_bytes: BUFFER_BYTES,
        send_elements: 4,
        regions_per_send: 1,
        registrations: 2,
        invalidations: 2,
        transfers: 4,
    }
}

/// An end with its queue pair.
pub struct Side {
    /// The queue pair.
    pub queue: Arc<QueuePair<End>>,
    pub(super) end: Arc<End>,
}

impl Side {
    fn new(id: Arc<Id<End>>, end: Arc<End>, parameters: &Parameters) -> Result<Self> {
        let pd = ProtectionDomain::new(id.clone())?;
        let queue = parameters.make(id, pd, &mut send::Buffers::new())?;
        let mut receives = receive::Buffers::new();
        for _ in 0..parameters.receives {
            receives.allocate(queue.pd(), BUFFER_BYTES, GFP_KERNEL)?;
        }
        queue.post_receives(&mut receives)?;
        Ok(Self { queue, end })
    }

    /// Creates an end that is bound to a device and has no peer.
    pub(super) fn alone(parameters: &Parameters) -> Result<Self> {
        let end = End::new()?;
        let id = Id::new(&net(), end.clone())?;
        id.resolve_address(&address(PORT)?, TIMEOUT_MS)?;
        end.wait(|seen| seen.resolved.then_some(()))?;
        Self::new(id, end, parameters)
    }

    /// Creates an end that has requested a connection from the listener at [`PORT`].
    pub fn asking(parameters: &Parameters) -> Result<Self> {
        let side = Self::alone(parameters)?;
        side.queue.id().resolve_route(TIMEOUT_MS)?;
        side.end.wait(|seen| seen.routed.then_some(()))?;
        side.queue.connect(&CONNECT_PARAMETERS)?;
        Ok(side)
    }
}

/// A connection with both ends.
pub(super) struct Connection {
    pub(super) near: Side,
    pub(super) far: Side,
}

impl Connection {
    /// Creates a connection whose near end has these `parameters`.
    pub(super) fn new(parameters: &Parameters) -> Result<Self> {
        let listening = End::new()?;
        let listener = listener::CmListener::new(&net(), &address(PORT)?, 4, listening.clone())?;
        let near = Side::asking(parameters)?;
        let (id, end) = listening.wait(|seen| seen.connect_request.take())?;
        drop(listener);
        let far = Side::new(id, end, parameters)?;
        far.queue.accept(&CONNECT_PARAMETERS)?;
        for side in [&near, &far] {
            side.end.wait(|seen| seen.established.then_some(()))?;
        }
        Ok(Self { near, far })
    }

    /// Waits until the far end has received `count` messages.
    pub(super) fn arrived(&self, count: usize) -> Result {
        self.far
            .end
            .wait(|seen| (seen.received >= count).then_some(()))
    }
}
