// SPDX-License-Identifier: GPL-2.0

//! Connections with both ends in one thread, and objects beside them, whose cost is measured.
//!
//! Who waits sleeps until an event comes, so that only what is done is counted.

use super::connection::resolve;
use super::connection::Listener;
use super::connection::Verb;
use super::ffi::*;
use super::memory::Access;
use super::memory::Region;
use super::resources::cm_timeout;
use super::resources::Channel;
use super::resources::Cq;
use super::resources::CqEvents;
use super::resources::Id;
use super::resources::Pd;
use std::ffi::c_int;
use std::io::Error;
use std::io::ErrorKind;
use std::io::Result;
use std::net::SocketAddrV4;
use std::ptr;
use std::ptr::NonNull;
use std::rc::Rc;

/// The entries of each queue.
const ENTRIES: u32 = 16;
/// How long a request may take, in milliseconds: 1 GiB over a slow device.
const TIMEOUT_MS: c_int = 600_000;

/// A completion queue with entries for a queue pair.
fn new_cq(context: *mut RawContext, events: *mut RawCqEvents) -> Result<Cq> {
    // SAFETY: The device is open, and there is no context. The events are null, or of this device and
    // live longer.
    let cq = unsafe { ibv_create_cq(context, 2 * ENTRIES as c_int, ptr::null_mut(), events, 0) };
    Ok(Cq(made(cq)?))
}

/// The device that is open, and a protection domain: all objects here share them.
#[derive(Clone)]
pub struct Shared {
    context: NonNull<RawContext>,
    pd: Rc<Pd>,
}

impl Shared {
    /// That of the device by which an id reaches its peer.
    fn new(id: &Id) -> Result<Self> {
        // SAFETY: The id has a device since its address is resolved.
        let context = made(unsafe { peer_context(id.raw()) })?;
        // SAFETY: librdmacm keeps the device open.
        let pd = Rc::new(Pd(made(unsafe { ibv_alloc_pd(context.as_ptr()) })?));
        Ok(Self { context, pd })
    }

    /// Memory that both ends may use.
    pub fn region(&self, length: usize) -> Result<Region> {
        Region::new(&self.pd, length, Access::Both)
    }
}

/// A queue pair that is not connected, with a completion queue of its own or that of another one.
pub struct LoneQp {
    raw: Option<NonNull<RawQp>>,
    cq: Rc<Cq>,
    _shared: Shared,
}

impl LoneQp {
    /// A completion queue only.
    pub fn cq_only(shared: &Shared) -> Result<Self> {
        Ok(Self {
            raw: None,
            cq: Rc::new(new_cq(shared.context.as_ptr(), ptr::null_mut())?),
            _shared: shared.clone(),
        })
    }

    /// A queue pair with the completion queue of `other`.
    pub fn beside(other: &Self) -> Result<Self> {
        let (shared, cq) = (other._shared.clone(), other.cq.clone());
        let (raw_pd, raw_cq) = (shared.pd.0.as_ptr(), cq.0.as_ptr());
        // SAFETY: Both are live, and are dropped after the queue pair.
        let raw = made(unsafe { peer_lone_qp(raw_pd, raw_cq, ENTRIES, ENTRIES) })?;
        Ok(Self {
            raw: Some(raw),
            cq,
            _shared: shared,
        })
    }
}

impl Drop for LoneQp {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: It was made by `beside`, and nobody uses it any more.
            unsafe { ibv_destroy_qp(raw.as_ptr()) };
        }
    }
}

/// One end.
struct End {
    cq: Cq,
    events: CqEvents,
    shared: Shared,
    id: Id,
    channel: Channel,
}

impl End {
    fn new(id: Id, channel: Channel, shared: &Shared) -> Result<Self> {
        let context = shared.context.as_ptr();
        // SAFETY: librdmacm keeps the device open.
        let events = CqEvents(made(unsafe { ibv_create_comp_channel(context) })?);
        let cq = new_cq(context, events.0.as_ptr())?;
        let (raw_pd, raw_cq) = (shared.pd.0.as_ptr(), cq.0.as_ptr());
        // SAFETY: All three are live, and outlive the queue pair, which `drop` destroys.
        check(unsafe { peer_create_qp(id.raw(), raw_pd, raw_cq, ENTRIES, ENTRIES) })?;
        Ok(Self {
            cq,
            events,
            shared: shared.clone(),
            id,
            channel,
        })
    }

    /// Asks for the connection, or accepts it.
    fn connect(&self, active: bool) -> Result<()> {
        // SAFETY: The id has its queue pair, and there is no data.
        check(unsafe { peer_connect(self.id.raw(), active.into(), ptr::null(), 0, 16, 7) })
    }

    fn post(&self, verb: Verb, local: &Region, remote: Option<&Region>) -> Result<()> {
        let work = RawWork {
            id: 1,
            opcode: verb.opcode(),
            key: remote.map_or(0, Region::rkey),
            remote: remote.map_or(0, Region::address),
            local: local.address(),
            length: u32::try_from(local.len()).map_err(Error::other)?,
            lkey: local.lkey(),
        };
        // SAFETY: The queue pair is live; the caller keeps the memory until the completion.
        check(unsafe { peer_post(self.id.raw(), &work) })
    }

    fn post_receive(&self, room: &Region) -> Result<()> {
        let length = u32::try_from(room.len()).map_err(Error::other)?;
        // SAFETY: As above.
        check(unsafe { peer_post_receive(self.id.raw(), 2, room.address(), length, room.lkey()) })
    }

    /// Sleeps until the next request is complete.
    fn wait(&self) -> Result<()> {
        let mut completion = Completion::default();
        let (cq, events) = (self.cq.0.as_ptr(), self.events.0.as_ptr());
        // SAFETY: Both are live, and C fills in `completion`.
        match unsafe { peer_wait(cq, events, TIMEOUT_MS, &mut completion) } {
            1 if completion.status == 0 => Ok(()),
            1 => Err(Error::other(format!("status {}", completion.status))),
            error => check(error),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: The id is live. Disconnecting what is not connected fails and does no harm. The
        // queue pair is the last user of the completion queue, which is dropped later.
        unsafe {
            rdma_disconnect(self.id.raw());
            rdma_destroy_qp(self.id.raw());
        }
    }
}

/// A connection with both ends in this thread.
pub struct Pair {
    client: End,
    server: End,
}

impl Pair {
    /// Connects to a listener of this process, which is reached at that address.
    pub fn new(listener: &Listener, to: SocketAddrV4, shared: Option<&Shared>) -> Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        resolve(&id, &channel, to)?;
        let shared = match shared {
            Some(shared) => shared.clone(),
            None => Shared::new(&id)?,
        };
        let client = End::new(id, channel, &shared)?;
        client.connect(true)?;
        let request = listener.request(cm_timeout())?;
        let (id, channel, _) = request.ok_or(ErrorKind::TimedOut)?;
        let server = End::new(id, channel, &shared)?;
        server.connect(false)?;
        // In this order: over RoCE librdmacm tells the server of it when it has this event.
        client.channel.expect(event::ESTABLISHED)?;
        server.channel.expect(event::ESTABLISHED)?;
        Ok(Self { client, server })
    }

    /// The device, and the protection domain of its objects.
    pub fn shared(&self) -> &Shared {
        &self.client.shared
    }

    /// Carries out an RDMA operation between all of `local` and the other end's memory.
    pub fn transfer(&self, verb: Verb, local: &Region, remote: &Region) -> Result<()> {
        self.client.post(verb, local, Some(remote))?;
        self.client.wait()
    }

    /// Sends all of `local`, and waits until it is in `room`.
    pub fn send(&self, local: &Region, room: &Region) -> Result<()> {
        self.server.post_receive(room)?;
        self.client.post(Verb::Send, local, None)?;
        self.server.wait()?;
        self.client.wait()
    }
}
