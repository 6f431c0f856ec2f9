// SPDX-License-Identifier: GPL-2.0

//! Connections, messages and registered memory, over librdmacm and libibverbs.
//!
//! Nothing here knows what is sent. A connection has one completion queue and is used by one
//! thread; nothing waits longer than it is told to. All unsafe code of the peer is here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ffi::c_void;
use std::io::Error;
use std::io::ErrorKind;
use std::io::Result;
use std::net::Ipv4Addr;
use std::net::SocketAddrV4;
use std::ptr;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[repr(C)]
        struct $name {
            _private: [u8; 0],
        }
    )* };
}

opaque!(RawChannel, RawId, RawContext, RawPd, RawCq, RawMr, RawMw);

/// What the connection manager says; `struct peer_event` of verbs.c.
#[repr(C)]
struct Event {
    kind: u32,
    status: i32,
    id: *mut RawId,
    private_len: u32,
    private_data: [u8; 256],
}

/// `struct peer_completion` of verbs.c.
#[repr(C)]
#[derive(Default)]
struct Completion {
    id: u64,
    status: u32,
    length: u32,
    received: u32,
    invalidates: u32,
    key: u32,
}

/// `struct peer_work` of verbs.c.
#[repr(C)]
struct RawWork {
    id: u64,
    opcode: u32,
    key: u32,
    remote: u64,
    local: u64,
    length: u32,
    lkey: u32,
}

/// `struct sockaddr_in`.
#[repr(C)]
struct SockAddr {
    family: u16,
    port: [u8; 2],
    address: [u8; 4],
    zero: [u8; 8],
}

impl SockAddr {
    fn new(address: SocketAddrV4) -> Self {
        Self {
            family: 2, // AF_INET
            port: address.port().to_be_bytes(),
            address: address.ip().octets(),
            zero: [0; 8],
        }
    }
}

extern "C" {
    fn rdma_create_event_channel() -> *mut RawChannel;
    fn rdma_destroy_event_channel(channel: *mut RawChannel);
    fn rdma_create_id(
        channel: *mut RawChannel,
        id: *mut *mut RawId,
        context: *mut c_void,
        space: c_int,
    ) -> c_int;
    fn rdma_destroy_id(id: *mut RawId) -> c_int;
    fn rdma_migrate_id(id: *mut RawId, channel: *mut RawChannel) -> c_int;
    fn rdma_bind_addr(id: *mut RawId, address: *const SockAddr) -> c_int;
    fn rdma_listen(id: *mut RawId, backlog: c_int) -> c_int;
    fn rdma_resolve_addr(
        id: *mut RawId,
        source: *const SockAddr,
        destination: *const SockAddr,
        timeout_ms: c_int,
    ) -> c_int;
    fn rdma_resolve_route(id: *mut RawId, timeout_ms: c_int) -> c_int;
    fn rdma_disconnect(id: *mut RawId) -> c_int;
    fn rdma_destroy_qp(id: *mut RawId);
    fn ibv_alloc_pd(context: *mut RawContext) -> *mut RawPd;
    fn ibv_dealloc_pd(pd: *mut RawPd) -> c_int;
    fn ibv_create_cq(
        context: *mut RawContext,
        entries: c_int,
        cookie: *mut c_void,
        channel: *mut c_void,
        vector: c_int,
    ) -> *mut RawCq;
    fn ibv_destroy_cq(cq: *mut RawCq) -> c_int;
    fn ibv_dereg_mr(mr: *mut RawMr) -> c_int;

    fn peer_event(channel: *mut RawChannel, timeout_ms: c_int, out: *mut Event) -> c_int;
    fn peer_context(id: *mut RawId) -> *mut RawContext;
    fn peer_create_qp(
        id: *mut RawId,
        pd: *mut RawPd,
        cq: *mut RawCq,
        sends: u32,
        receives: u32,
    ) -> c_int;
    fn peer_connect(
        id: *mut RawId,
        active: c_int,
        private_data: *const u8,
        private_len: u8,
        depth: u8,
        rnr_retries: u8,
    ) -> c_int;
    fn peer_post_receive(id: *mut RawId, wr: u64, address: u64, length: u32, lkey: u32) -> c_int;
    fn peer_post(id: *mut RawId, work: *const RawWork) -> c_int;
    fn peer_poll(cq: *mut RawCq, out: *mut Completion) -> c_int;
    fn peer_register(
        pd: *mut RawPd,
        address: *mut c_void,
        length: u64,
        access: c_int,
    ) -> *mut RawMr;
    fn peer_window(pd: *mut RawPd) -> *mut RawMw;
    fn peer_free_window(mw: *mut RawMw);
    fn peer_next_key(mw: *mut RawMw) -> u32;
    fn peer_bind(id: *mut RawId, mw: *mut RawMw, mr: *mut RawMr, wr: u64, key: u32) -> c_int;
    fn peer_lkey(mr: *mut RawMr) -> u32;
    fn peer_rkey(mr: *mut RawMr) -> u32;
}

/// `RDMA_PS_TCP`.
const PORT_SPACE: c_int = 0x0106;

/// `RDMA_CM_EVENT_...`, as far as they are told apart here.
mod event {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const TIMEWAIT_EXIT: u32 = 15;
}

/// What a work request does.
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
    fn opcode(self) -> u32 {
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

/// What a peer may do with registered memory (`enum ibv_access_flags`).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Access {
    Local = 1,
    Write = 1 | 2,
    Read = 4,
    Both = 1 | 2 | 4,
    Window = 1 | 16,
}

/// How long anything of the connection manager may take. Emulated machines are slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Marks the work requests that are Receives.
const RECEIVE: u64 = 1 << 63;

/// Slots that messages are sent from.
const SLOTS: usize = 64;

fn check(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(Error::last_os_error()),
        negative => Err(Error::from_raw_os_error(-negative)),
    }
}

fn made<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(Error::last_os_error)
}

struct Channel(NonNull<RawChannel>);

impl Channel {
    fn new() -> Result<Self> {
        // SAFETY: It takes nothing.
        made(unsafe { rdma_create_event_channel() }).map(Self)
    }

    /// The next event, if it comes in time.
    fn next(&self, timeout: Duration) -> Result<Option<Event>> {
        let mut event = Event {
            kind: 0,
            status: 0,
            id: ptr::null_mut(),
            private_len: 0,
            private_data: [0; 256],
        };
        let timeout = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: The channel lives as long as `self`, and `event` is what C fills in.
        match check(unsafe { peer_event(self.0.as_ptr(), timeout, &mut event) }) {
            Ok(()) => Ok(Some(event)),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for an event of `kind`.
    fn expect(&self, kind: u32) -> Result<Event> {
        match self.next(PATIENCE)? {
            Some(event) if event.kind == kind => Ok(event),
            Some(event) if event.kind == event::REJECTED => {
                Err(ErrorKind::ConnectionRefused.into())
            }
            Some(event) => Err(Error::other(format!(
                "event {} with status {} instead of {kind}",
                event.kind, event.status
            ))),
            None => Err(ErrorKind::TimedOut.into()),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: Each id of the channel is gone: those that own it have it as a later field.
        unsafe { rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

struct Id(NonNull<RawId>);

impl Id {
    fn new(channel: &Channel) -> Result<Self> {
        let mut id = ptr::null_mut();
        // SAFETY: The channel is live, and the id is written to `id`.
        check(unsafe { rdma_create_id(channel.0.as_ptr(), &mut id, ptr::null_mut(), PORT_SPACE) })?;
        made(id).map(Self)
    }

    fn raw(&self) -> *mut RawId {
        self.0.as_ptr()
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: Nobody uses the id any more, and its events are all acknowledged.
        unsafe { rdma_destroy_id(self.raw()) };
    }
}

struct Pd(NonNull<RawPd>);

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: Regions and connections each hold a reference, so there are none left.
        unsafe { ibv_dealloc_pd(self.0.as_ptr()) };
    }
}

struct Cq(NonNull<RawCq>);

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: The queue pair is gone, see `Connection::drop`.
        unsafe { ibv_destroy_cq(self.0.as_ptr()) };
    }
}

/// Registered memory.
pub struct Region {
    mr: NonNull<RawMr>,
    /// Only touched through its pointer: the peer's device writes to it.
    memory: NonNull<[u8]>,
    _pd: Rc<Pd>,
}

impl Region {
    fn new(pd: &Rc<Pd>, length: usize, access: Access) -> Result<Self> {
        // Whole words, so that it can also be a target of atomics.
        let words = vec![0_u64; length.div_ceil(8).max(1)].into_boxed_slice();
        let words = Box::into_raw(words).cast::<u8>();
        let memory =
            NonNull::new(ptr::slice_from_raw_parts_mut(words, length)).expect("a box is not null");
        // SAFETY: The memory is registered until `drop`, which frees it afterwards.
        let mr = unsafe {
            peer_register(
                pd.0.as_ptr(),
                words.cast(),
                length.max(1) as u64,
                access as c_int,
            )
        };
        Ok(Self {
            mr: made(mr)?,
            memory,
            _pd: pd.clone(),
        })
    }

    /// What the peer names it by.
    pub fn key(&self) -> u32 {
        // SAFETY: The region is registered as long as it lives.
        unsafe { peer_rkey(self.mr.as_ptr()) }
    }

    fn local_key(&self) -> u32 {
        // SAFETY: As above.
        unsafe { peer_lkey(self.mr.as_ptr()) }
    }

    /// Where it starts.
    pub fn address(&self) -> u64 {
        self.memory.cast::<u8>().as_ptr() as u64
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Puts `bytes` at `offset`.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len());
        // SAFETY: It is in bounds, and nobody holds a reference to the memory.
        unsafe {
            let place = self.memory.cast::<u8>().as_ptr().add(offset);
            ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
    }

    /// Copies `length` bytes at `offset` out.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.len());
        let mut out = vec![0; length];
        // SAFETY: As in `put`.
        unsafe {
            let place = self.memory.cast::<u8>().as_ptr().add(offset);
            ptr::copy_nonoverlapping(place, out.as_mut_ptr(), length);
        }
        out
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: It was registered by `new`, and the memory came from a box of whole words.
        unsafe {
            ibv_dereg_mr(self.mr.as_ptr());
            let words = self.len().div_ceil(8).max(1);
            let words = ptr::slice_from_raw_parts_mut(self.memory.cast::<u64>().as_ptr(), words);
            drop(Box::from_raw(words));
        }
    }
}

/// A window over memory, through which the peer may write, and which it may invalidate.
pub struct Window {
    mw: NonNull<RawMw>,
    region: Region,
    /// What the peer names it by.
    pub key: u32,
}

impl Window {
    /// The memory.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: It was made by `Connection::window`; the memory is dropped after it.
        unsafe { peer_free_window(self.mw.as_ptr()) };
    }
}

/// What one end of a connection is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sent along with the request or its answer.
    pub private: Vec<u8>,
    /// How many Receives are posted, each again when it was used.
    pub receives: usize,
    /// How long each is.
    pub receive_len: usize,
    /// How often the other end's lack of a Receive is forgiven; 7 is for ever.
    pub rnr_retries: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            private: Vec::new(),
            receives: 32,
            receive_len: 4096,
            rnr_retries: 7,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// All of it.
    pub bytes: Vec<u8>,
    /// The key that it invalidates.
    pub invalidates: Option<u32>,
}

/// A work request that is over: its number and its status, which is zero if it went well.
type Done = (u64, u32);

struct Inbox {
    messages: VecDeque<Message>,
    done: VecDeque<Done>,
    lost: Option<String>,
    sent: u64,
    /// The last work request that is over; they end in order.
    over: u64,
    /// The last work request of each slot.
    slots: [u64; SLOTS],
    next_slot: usize,
}

/// One end of a connection.
pub struct Connection {
    inbox: RefCell<Inbox>,
    options: Options,
    receives: Region,
    sends: Region,
    cq: Cq,
    pd: Rc<Pd>,
    /// What the other end sent along when it connected.
    pub private: Vec<u8>,
    id: Id,
    channel: Channel,
}

impl Connection {
    /// Connects to `address`.
    pub fn connect(address: SocketAddrV4, options: &Options) -> Result<Self> {
        let channel = Channel::new()?;
        let id = Id::new(&channel)?;
        let to = SockAddr::new(address);
        // SAFETY: The id is live, and the address is read before the call returns.
        check(unsafe { rdma_resolve_addr(id.raw(), ptr::null(), &to, 5000) })?;
        channel.expect(event::ADDR_RESOLVED)?;
        // SAFETY: The id is live.
        check(unsafe { rdma_resolve_route(id.raw(), 5000) })?;
        channel.expect(event::ROUTE_RESOLVED)?;
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
        let entries = c_int::try_from(receives + 4 * SLOTS).map_err(Error::other)?;
        // SAFETY: As above. There is neither cookie nor channel.
        let cq = unsafe { ibv_create_cq(context, entries, ptr::null_mut(), ptr::null_mut(), 0) };
        let cq = Cq(made(cq)?);
        let depth = u32::try_from(receives).map_err(Error::other)?;
        let (raw_pd, raw_cq) = (pd.0.as_ptr(), cq.0.as_ptr());
        // SAFETY: All three are live, and outlive the queue pair, which `drop` destroys.
        check(unsafe { peer_create_qp(id.raw(), raw_pd, raw_cq, 4 * SLOTS as u32, depth) })?;
        let connection = Self {
            inbox: RefCell::new(Inbox {
                messages: VecDeque::new(),
                done: VecDeque::new(),
                lost: None,
                sent: 0,
                over: 0,
                slots: [0; SLOTS],
                next_slot: 0,
            }),
            options: options.clone(),
            receives: Region::new(&pd, receives * options.receive_len, Access::Local)?,
            sends: Region::new(&pd, SLOTS * SLOT_LEN, Access::Local)?,
            cq,
            pd,
            private,
            id,
            channel,
        };
        for index in 0..options.receives {
            connection.post_receive(index as u64)?;
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

    /// Memory that the peer may use as `access` says.
    pub fn region(&self, length: usize, access: Access) -> Result<Region> {
        Region::new(&self.pd, length, access)
    }

    /// Memory behind a window.
    pub fn window(&self, length: usize) -> Result<Window> {
        let region = self.region(length, Access::Window)?;
        // SAFETY: The protection domain is live.
        let mw = made(unsafe { peer_window(self.pd.0.as_ptr()) })?;
        // SAFETY: The window was just made.
        let key = unsafe { peer_next_key(mw.as_ptr()) };
        let window = Window { mw, region, key };
        let number = {
            let mut inbox = self.inbox.borrow_mut();
            inbox.sent += 1;
            inbox.sent
        };
        let (id, mw, mr) = (self.id.raw(), mw.as_ptr(), window.region.mr.as_ptr());
        // SAFETY: All three are live, and the window owns its memory.
        check(unsafe { peer_bind(id, mw, mr, number, key) })?;
        match self.wait_done(number)? {
            0 => Ok(window),
            status => Err(Error::other(format!("bind ended with status {status}"))),
        }
    }

    /// Posts the Receive with this index.
    fn post_receive(&self, index: u64) -> Result<()> {
        let length = self.options.receive_len;
        let address = self.receives.address() + index * length as u64;
        // SAFETY: The queue pair is live, and each index has its own part of the region.
        check(unsafe {
            let key = self.receives.local_key();
            peer_post_receive(self.id.raw(), index | RECEIVE, address, length as u32, key)
        })
    }

    /// Posts a work request on `length` bytes at `local`. Gives its number.
    fn post(
        &self,
        verb: Verb,
        remote: (u32, u64),
        local: (u64, u32),
        length: usize,
    ) -> Result<u64> {
        let mut inbox = self.inbox.borrow_mut();
        inbox.sent += 1;
        let work = RawWork {
            id: inbox.sent,
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

    /// Sends `bytes` and does not wait for them to arrive.
    pub fn send(&self, bytes: &[u8]) -> Result<u64> {
        self.send_as(Verb::Send, bytes)
    }

    /// As [`Self::send`], with another verb.
    pub fn send_as(&self, verb: Verb, bytes: &[u8]) -> Result<u64> {
        let slot = {
            let mut inbox = self.inbox.borrow_mut();
            inbox.next_slot = (inbox.next_slot + 1) % SLOTS;
            inbox.next_slot
        };
        let last = self.inbox.borrow().slots[slot];
        self.wait(|inbox| (inbox.over >= last || inbox.lost.is_some()).then_some(()))?;
        assert!(bytes.len() <= SLOT_LEN);
        self.sends.put(slot * SLOT_LEN, bytes);
        let start = self.sends.address() + (slot * SLOT_LEN) as u64;
        let number = self.post(verb, (0, 0), (start, self.sends.local_key()), bytes.len())?;
        self.inbox.borrow_mut().slots[slot] = number;
        Ok(number)
    }

    /// Has `verb` done between all of `local` and the peer's memory, and waits until it is done.
    /// Whether it went well.
    pub fn transfer(&self, verb: Verb, key: u32, address: u64, local: &Region) -> Result<bool> {
        let mine = (local.address(), local.local_key());
        let number = self.post(verb, (key, address), mine, local.len())?;
        Ok(self.wait_done(number)? == 0)
    }

    /// Waits until work request `number` is over. Its status.
    pub fn wait_done(&self, number: u64) -> Result<u32> {
        self.wait(|inbox| {
            let at = inbox.done.iter().position(|(id, _)| *id == number)?;
            inbox.done.remove(at).map(|(_, status)| status)
        })
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut Inbox) -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.pump();
            if let Some(value) = ready(&mut self.inbox.borrow_mut()) {
                return Ok(value);
            }
            if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(TICK);
        }
    }

    /// Takes in what has happened.
    fn pump(&self) {
        let mut inbox = self.inbox.borrow_mut();
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
                let lost = || format!("{what} ended with status {status}");
                inbox.lost.get_or_insert_with(lost);
            }
            if completion.id & RECEIVE == 0 {
                inbox.over = completion.id;
                inbox.done.push_back((completion.id, completion.status));
                if inbox.done.len() > 4 * SLOTS {
                    inbox.done.pop_front();
                }
            } else if completion.status == 0 {
                let index = completion.id & !RECEIVE;
                let at = index as usize * self.options.receive_len;
                let bytes = self.receives.bytes(at, completion.length as usize);
                let invalidates = (completion.invalidates != 0).then_some(completion.key);
                inbox.messages.push_back(Message { bytes, invalidates });
                if let Err(error) = self.post_receive(index) {
                    inbox.lost.get_or_insert_with(|| error.to_string());
                }
            }
        }
        match self.channel.next(Duration::ZERO) {
            Ok(None) => (),
            Ok(Some(event)) if event.kind == event::DISCONNECTED => {
                inbox.lost.get_or_insert_with(|| "disconnected".into());
            }
            Ok(Some(event)) if event.kind == event::TIMEWAIT_EXIT => (),
            Ok(Some(event)) => {
                let what = || format!("event {} ({})", event.kind, event.status);
                inbox.lost.get_or_insert_with(what);
            }
            Err(error) => {
                inbox.lost.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// The next message, if one comes in time and the connection lasts so long.
    pub fn receive(&self, timeout: Duration) -> Option<Message> {
        let end = Instant::now() + timeout;
        loop {
            self.pump();
            let mut inbox = self.inbox.borrow_mut();
            if let Some(message) = inbox.messages.pop_front() {
                return Some(message);
            }
            if inbox.lost.is_some() || Instant::now() >= end {
                return None;
            }
            drop(inbox);
            std::thread::sleep(TICK);
        }
    }

    /// Why there is no connection any more, if that is so.
    pub fn lost(&self) -> Option<String> {
        self.pump();
        self.inbox.borrow().lost.clone()
    }

    /// Whether the connection is lost within `timeout`.
    pub fn is_lost_within(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            if self.lost().is_some() {
                return true;
            }
            std::thread::sleep(TICK);
        }
        false
    }
}

/// Between two looks at the completion queue.
const TICK: Duration = Duration::from_micros(300);

/// No message is longer.
const SLOT_LEN: usize = 70_000;

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

    /// Accepts the next connection, if one comes in time.
    pub fn accept(&self, options: &Options, timeout: Duration) -> Result<Option<Connection>> {
        let Some(request) = self.channel.next(timeout)? else {
            return Ok(None);
        };
        if request.kind != event::CONNECT_REQUEST {
            return Err(Error::other(format!(
                "event {} at a listener",
                request.kind
            )));
        }
        let id = Id(made(request.id)?);
        let channel = Channel::new()?;
        // SAFETY: Both are live, and the request's event is acknowledged.
        check(unsafe { rdma_migrate_id(id.raw(), channel.0.as_ptr()) })?;
        let private = request.private_data[..request.private_len as usize].to_vec();
        let mut connection = Connection::prepare(id, channel, options, private)?;
        connection.establish(false)?;
        Ok(Some(connection))
    }
}
