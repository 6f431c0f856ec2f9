// SPDX-License-Identifier: GPL-2.0

//! Connections, either end: messages, and RDMA operations.

use super::ffi::*;
use super::memory::Access;
use super::memory::Region;
use super::memory::Window;
use super::resources::cm_timeout;
use super::resources::Channel;
use super::resources::Cq;
use super::resources::Id;
use super::resources::Pd;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::env;
use std::ffi::c_int;
use std::io::Error;
use std::io::ErrorKind;
use std::io::Result;
use std::net::Ipv4Addr;
use std::net::SocketAddrV4;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Verb {
    Write,
    WriteWithImmediate(u32),
    Send,
    SendWithImmediate(u32),
    Read,
    FetchAndAdd,
    SendWithInvalidate(u32),
}

impl Verb {
    /// `enum ibv_wr_opcode`.
    pub(super) fn opcode(self) -> u32 {
        match self {
            Self::Write => 0,
            Self::WriteWithImmediate(_) => 1,
            Self::Send => 2,
            Self::SendWithImmediate(_) => 3,
            Self::Read => 4,
            Self::FetchAndAdd => 6,
            Self::SendWithInvalidate(_) => 9,
        }
    }
}

/// The bit in a work request's id that says that it is a Receive.
const RECEIVE: u64 = 1 << 63;

/// The properties of one end of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// CM private data.
    pub private: Vec<u8>,
    /// How many Receives are posted.
    pub receives: usize,
    /// The length of each Receive.
    pub receive_len: usize,
    /// Whether only [`Connection::post_receives`] or [`Connection::post_receive`] posts the Receives.
    pub delay_receives: bool,
    /// Whether a Receive that has completed is posted again.
    pub repost: bool,
    /// How many Send buffers there are.
    pub sends: usize,
    /// The length of each Send buffer.
    pub send_len: usize,
    /// The RNR retry count: how often either device sends again if the other has no Receive. 7 is for ever.
    pub rnr_retries: u8,
    /// How long the other device is asked to wait for an acknowledgement, as the exponent in the request to connect. 31 is hours.
    pub ack_timeout: Option<u8>,
}

impl Options {
    /// The same with another number of Receives.
    pub fn with_receives(self, receives: usize) -> Self {
        Self { receives, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            private: Vec::new(),
            receives: 32,
            receive_len: 4096,
            delay_receives: false,
            repost: true,
            sends: 64,
            send_len: 70_000,
            rnr_retries: 7,
            ack_timeout: None,
        }
    }
}

/// The address of this machine that clients have, if it is to be another one than that of its mounts.
pub fn own_address() -> Option<Ipv4Addr> {
    env::var("PEER_ADDR").ok()?.parse().ok()
}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// The handle that its Send invalidated.
    pub invalidates: Option<u32>,
}

/// A completed work request: its number and its status.
type Completed = (u64, u32);

/// The events of the completion queue and of the connection manager, and the posted requests.
struct State {
    messages: VecDeque<Message>,
    /// How many have arrived.
    arrived: usize,
    completed: VecDeque<Completed>,
    lost: Option<String>,
    /// Whether the other end has disconnected.
    disconnected: bool,
    /// Whether the device ignores what arrives, so that it takes no Receives either.
    silent: bool,
    /// The number of the last work request that was posted to the Send queue.
    posted: u64,
    /// The number of the last one that has completed; they complete in order.
    last_completed: u64,
    /// The last work request of each Send buffer.
    buffers: Vec<u64>,
    next_buffer: usize,
}

/// One end of a connection.
pub struct Connection {
    state: RefCell<State>,
    options: Options,
    receives: Region,
    sends: Region,
    cq: Cq,
    pd: Rc<Pd>,
    /// The CM private data of the other end.
    pub private: Vec<u8>,
    id: Id,
    channel: Channel,
}

impl Connection {
    /// Connects to `address`.
    pub fn connect(address: SocketAddrV4, options: &Options) -> Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        if let Some(timeout) = options.ack_timeout {
            // SAFETY: The id is live.
            check(unsafe { peer_ask_ack_timeout(id.raw(), timeout) })?;
        }
        resolve(&id, &channel, address)?;
        let mut connection = Self::prepare(id, channel, options, Vec::new())?;
        connection.establish(true)?;
        Ok(connection)
    }

    fn prepare(id: Id, channel: Channel, options: &Options, private: Vec<u8>) -> Result<Self> {
        // SAFETY: The id has a device since its address is resolved, or it came with a request.
        let context = unsafe { peer_context(id.raw()) };
        // SAFETY: librdmacm keeps the device open.
        let pd = Rc::new(Pd(made(unsafe { ibv_alloc_pd(context) })?));
        let receives = options.receives.max(1);
        // RDMA operations and what binds windows have no buffers.
        let posted = 4 * options.sends;
        let entries = c_int::try_from(receives + posted).map_err(Error::other)?;
        // SAFETY: As above. There is neither a context nor a completion channel.
        let cq = unsafe { ibv_create_cq(context, entries, ptr::null_mut(), ptr::null_mut(), 0) };
        let cq = Cq(made(cq)?);
        let depth = u32::try_from(receives).map_err(Error::other)?;
        let (raw_pd, raw_cq) = (pd.0.as_ptr(), cq.0.as_ptr());
        // SAFETY: All three are live, and outlive the queue pair, which `drop` destroys.
        check(unsafe { peer_create_qp(id.raw(), raw_pd, raw_cq, posted as u32, depth) })?;
        let connection = Self {
            state: RefCell::new(State {
                messages: VecDeque::new(),
                arrived: 0,
                completed: VecDeque::new(),
                lost: None,
                disconnected: false,
                silent: false,
                posted: 0,
                last_completed: 0,
                buffers: vec![0; options.sends],
                next_buffer: 0,
            }),
            options: options.clone(),
            receives: Region::new(&pd, receives * options.receive_len, Access::Local)?,
            sends: Region::new(&pd, options.sends * options.send_len, Access::Local)?,
            cq,
            pd,
            private,
            id,
            channel,
        };
        if !options.delay_receives {
            connection.post_receives()?;
        }
        Ok(connection)
    }

    fn establish(&mut self, active: bool) -> Result<()> {
        let private = &self.options.private;
        let length = u8::try_from(private.len()).map_err(Error::other)?;
        // SAFETY: The id has its queue pair, and the data is read before the call returns.
        check(unsafe {
            peer_connect(
                self.id.raw(),
                active.into(),
                private.as_ptr(),
                length,
                16,
                self.options.rnr_retries,
            )
        })?;
        let event = self.channel.expect(event::ESTABLISHED)?;
        if active {
            self.private = event.private_data[..event.private_len as usize].to_vec();
        }
        Ok(())
    }

    /// Memory that the other end may use as `access` says.
    pub fn region(&self, length: usize, access: Access) -> Result<Region> {
        Region::new(&self.pd, length, access)
    }

    /// The same, at `address` for the other end: the start of a page.
    pub fn region_at(&self, address: u64, length: usize, access: Access) -> Result<Region> {
        Region::at(&self.pd, length, Some(address), access)
    }

    /// Memory with a memory window over it.
    pub fn window(&self, length: usize) -> Result<Window> {
        let region = self.region(length, Access::Window)?;
        // SAFETY: The protection domain is live.
        let mw = made(unsafe { peer_window(self.pd.0.as_ptr()) })?;
        // SAFETY: The window was just made.
        let key = unsafe { peer_next_key(mw.as_ptr()) };
        let window = Window {
            mw,
            region,
            rkey: key,
        };
        let number = {
            let mut state = self.state.borrow_mut();
            state.posted += 1;
            state.posted
        };
        let (id, mw, mr) = (self.id.raw(), mw.as_ptr(), window.region.mr.as_ptr());
        // SAFETY: All three are live, and the window owns its memory.
        check(unsafe { peer_bind(id, mw, mr, number, key) })?;
        match self.wait_for(number)? {
            0 => Ok(window),
            status => Err(Error::other(format!("bind completed with status {status}"))),
        }
    }

    /// From now on the device ignores all that arrives. The connection manager goes on.
    pub fn fall_silent(&self) -> Result<()> {
        self.state.borrow_mut().silent = true;
        // SAFETY: The queue pair is live.
        check(unsafe { peer_fall_silent(self.id.raw()) })
    }

    /// Posts all Receives.
    pub fn post_receives(&self) -> Result<()> {
        (0..self.options.receives).try_for_each(|index| self.post_receive(index as u64))
    }

    /// Posts the Receive with this index.
    pub fn post_receive(&self, index: u64) -> Result<()> {
        let length = self.options.receive_len;
        let address = self.receives.address() + index * length as u64;
        // SAFETY: The queue pair is live, and each index has its own part of the region.
        check(unsafe {
            let key = self.receives.lkey();
            peer_post_receive(self.id.raw(), index | RECEIVE, address, length as u32, key)
        })
    }

    /// Posts a work request on `length` bytes at `local`. Returns its number.
    fn post(
        &self,
        verb: Verb,
        remote: (u32, u64),
        local: (u64, u32),
        length: usize,
    ) -> Result<u64> {
        let mut state = self.state.borrow_mut();
        state.posted += 1;
        let work = RawWork {
            id: state.posted,
            opcode: verb.opcode(),
            key: match verb {
                Verb::SendWithInvalidate(key) | Verb::SendWithImmediate(key) => key,
                _ => remote.0,
            },
            remote: remote.1,
            local: local.0,
            length: u32::try_from(length).map_err(Error::other)?,
            lkey: local.1,
        };
        // SAFETY: The queue pair is live; the caller owns the local memory until the completion.
        check(unsafe { peer_post(self.id.raw(), &work) })?;
        Ok(work.id)
    }

    /// Sends `bytes`, and does not wait for the completion.
    pub fn send(&self, bytes: &[u8]) -> Result<()> {
        self.send_as(Verb::Send, bytes)
    }

    /// As [`Self::send`], with another verb.
    pub fn send_as(&self, verb: Verb, bytes: &[u8]) -> Result<()> {
        let buffer = {
            let mut state = self.state.borrow_mut();
            state.next_buffer = (state.next_buffer + 1) % self.options.sends;
            state.next_buffer
        };
        let last = self.state.borrow().buffers[buffer];
        self.wait(|state| (state.last_completed >= last || state.lost.is_some()).then_some(()))?;
        let at = buffer * self.options.send_len;
        assert!(bytes.len() <= self.options.send_len);
        self.sends.put(at, bytes);
        let start = self.sends.address() + at as u64;
        let number = self.post(verb, (0, 0), (start, self.sends.lkey()), bytes.len())?;
        self.state.borrow_mut().buffers[buffer] = number;
        Ok(())
    }

    /// Sends all of `local` and what follows it, `length` bytes together, which fails.
    pub fn send_beyond(&self, local: &Region, length: usize) -> Result<()> {
        let mine = (local.address(), local.lkey());
        self.post(Verb::Send, (0, 0), mine, length).map(|_| ())
    }

    /// Carries out `verb` between all of `local` and the other end's memory. Waits for the completion,
    /// and returns its status.
    pub fn transfer(&self, verb: Verb, key: u32, address: u64, local: &Region) -> Result<u32> {
        let mine = (local.address(), local.lkey());
        let number = self.post(verb, (key, address), mine, local.len())?;
        self.wait_for(number)
    }

    /// As [`Self::transfer`], of no bytes, which needs no memory.
    pub fn transfer_nothing(&self, verb: Verb) -> Result<u32> {
        let number = self.post(verb, (0, 0), (0, 0), 0)?;
        self.wait_for(number)
    }

    /// Waits until all that was sent is acknowledged.
    pub fn flush(&self) -> Result<()> {
        self.wait(|state| {
            let done = state.last_completed == state.posted || state.lost.is_some();
            done.then_some(())
        })
    }

    /// Waits for the completion of work request `number`, and returns its status.
    fn wait_for(&self, number: u64) -> Result<u32> {
        self.wait(|state| {
            let at = state.completed.iter().position(|(id, _)| *id == number)?;
            state.completed.remove(at).map(|(_, status)| status)
        })
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T> {
        let end = Instant::now() + cm_timeout();
        loop {
            self.poll();
            if let Some(value) = ready(&mut self.state.borrow_mut()) {
                return Ok(value);
            }
            if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Polls the completion queue and the connection manager.
    fn poll(&self) {
        let mut state = self.state.borrow_mut();
        let mut completion = Completion::default();
        // SAFETY: The queue is live, and C fills in `completion`.
        while unsafe { peer_poll(self.cq.0.as_ptr(), &mut completion) } == 1 {
            if completion.status != 0 {
                let status = completion.status;
                let what = if completion.id & RECEIVE == 0 {
                    "send"
                } else {
                    "receive"
                };
                let lost = || format!("{what} completed with status {status}");
                state.lost.get_or_insert_with(lost);
            }
            if completion.id & RECEIVE == 0 {
                state.last_completed = completion.id;
                state
                    .completed
                    .push_back((completion.id, completion.status));
                if state.completed.len() > 4 * self.options.sends {
                    state.completed.pop_front();
                }
            } else if completion.status == 0 {
                let index = completion.id & !RECEIVE;
                let at = index as usize * self.options.receive_len;
                let bytes = self.receives.bytes(at, completion.length as usize);
                let invalidates = (completion.invalidates != 0).then_some(completion.key);
                state.messages.push_back(Message { bytes, invalidates });
                state.arrived += 1;
                if self.options.repost && !state.silent {
                    if let Err(error) = self.post_receive(index) {
                        state.lost.get_or_insert_with(|| error.to_string());
                    }
                }
            }
        }
        match self.channel.next(Duration::ZERO) {
            Ok(None) => (),
            Ok(Some(event)) if event.kind == event::DISCONNECTED => {
                state.disconnected = true;
                state.lost.get_or_insert_with(|| "disconnected".into());
            }
            Ok(Some(event)) if event.kind == event::TIMEWAIT_EXIT => (),
            Ok(Some(event)) => {
                let what = || format!("event {} ({})", event.kind, event.status);
                state.lost.get_or_insert_with(what);
            }
            Err(error) => {
                state.lost.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// The next message, if one arrives in time and before the connection is lost.
    pub fn receive(&self, timeout: Duration) -> Option<Message> {
        let end = Instant::now() + timeout;
        loop {
            self.poll();
            let mut state = self.state.borrow_mut();
            if let Some(message) = state.messages.pop_front() {
                return Some(message);
            }
            if state.lost.is_some() || Instant::now() >= end {
                return None;
            }
            drop(state);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How many messages have arrived.
    pub fn arrived(&self) -> usize {
        self.state.borrow().arrived
    }

    /// Why the connection is lost, if it is.
    pub fn lost(&self) -> Option<String> {
        self.poll();
        self.state.borrow().lost.clone()
    }

    /// Whether the other end disconnects within `timeout`, whatever else has failed.
    pub fn is_disconnected_within(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            self.poll();
            if self.state.borrow().disconnected {
                return true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Whether the connection is lost within `timeout`.
    pub fn is_lost_within(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            if self.lost().is_some() {
                return true;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }
}

/// Finds the device and the route by which an id reaches `address`.
pub(super) fn resolve(id: &Id, channel: &Channel, address: SocketAddrV4) -> Result<()> {
    let to = SockAddr::new(address);
    let from = own_address().map(|own| SockAddr::new(SocketAddrV4::new(own, 0)));
    let from = from.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: The id is live, and the addresses are read before the call returns.
    check(unsafe { rdma_resolve_addr(id.raw(), from, &to, 5000) })?;
    channel.expect(event::ADDR_RESOLVED)?;
    // SAFETY: The id is live.
    check(unsafe { rdma_resolve_route(id.raw(), 5000) })?;
    channel.expect(event::ROUTE_RESOLVED)?;
    Ok(())
}

/// The time between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(300);

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: The id is live. Disconnecting what is not connected fails and does no harm. The
        // queue pair is the last user of completion queue and regions, which are dropped later.
        unsafe {
            rdma_disconnect(self.id.raw());
            rdma_destroy_qp(self.id.raw());
        }
    }
}

/// Waits for connections.
pub struct Listener {
    _id: Id,
    channel: Channel,
}

impl Listener {
    /// Listens on `port` of all addresses.
    pub fn new(port: u16) -> Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        let any = SockAddr::new(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
        // SAFETY: The id is live, and the address is read before the call returns.
        check(unsafe { rdma_bind_addr(id.raw(), &any) })?;
        // SAFETY: As above.
        check(unsafe { rdma_listen(id.raw(), 16) })?;
        Ok(Self { _id: id, channel })
    }

    /// Takes the next request, if one comes in time: its id, and the CM private data of the other end.
    pub(super) fn request(&self, timeout: Duration) -> Result<Option<(Id, Channel, Vec<u8>)>> {
        let Some(request) = self.channel.next(timeout)? else {
            return Ok(None);
        };
        if request.kind != event::CONNECT_REQUEST {
            return Err(Error::other(format!(
                "event {} on a listening id",
                request.kind
            )));
        }
        let id = Id(made(request.id)?);
        let channel = Channel::new()?;
        // SAFETY: Both are live, and the request's event is acknowledged.
        check(unsafe { rdma_migrate_id(id.raw(), channel.0.as_ptr()) })?;
        let private = request.private_data[..request.private_len as usize].to_vec();
        Ok(Some((id, channel, private)))
    }

    /// Accepts the next connection, if one comes in time.
    pub fn accept(&self, options: &Options, timeout: Duration) -> Result<Option<Connection>> {
        let Some((id, channel, private)) = self.request(timeout)? else {
            return Ok(None);
        };
        let mut connection = Connection::prepare(id, channel, options, private)?;
        connection.establish(false)?;
        Ok(Some(connection))
    }
}
