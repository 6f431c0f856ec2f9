// SPDX-License-Identifier: GPL-2.0

//! Connections, both ends, and what goes over them.

use super::ffi::*;
use super::memory::Access;
use super::memory::Region;
use super::memory::Window;
use super::resources::patience;
use super::resources::Channel;
use super::resources::Cq;
use super::resources::Id;
use super::resources::Pd;
use std::cell::RefCell;
use std::collections::VecDeque;
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

/// Marks the work requests that are Receives.
const RECEIVE: u64 = 1 << 63;

/// Slots that messages are sent from.
const SLOTS: usize = 64;

/// What one end of a connection is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sent along with the request or its answer.
    pub private: Vec<u8>,
    /// How many Receives are posted, each again when it was used.
    pub receives: usize,
    /// How long each is.
    pub receive_len: usize,
    /// Whether they are only posted by [`Connection::post_receives`].
    pub late: bool,
    /// How often the other end's lack of a Receive is forgiven; 7 is for ever.
    pub rnr_retries: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            private: Vec::new(),
            receives: 32,
            receive_len: 4096,
            late: false,
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
        if !options.late {
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

    /// Memory that the peer may use as `access` says.
    pub fn region(&self, length: usize, access: Access) -> Result<Region> {
        Region::new(&self.pd, length, access)
    }

    /// The same, with the address of a page for it to start at.
    pub fn region_at(&self, address: u64, length: usize, access: Access) -> Result<Region> {
        Region::at(&self.pd, length, Some(address), access)
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

    /// Posts all Receives, for the first time.
    pub fn post_receives(&self) -> Result<()> {
        (0..self.options.receives).try_for_each(|index| self.post_receive(index as u64))
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
    /// Its status.
    pub fn transfer(&self, verb: Verb, key: u32, address: u64, local: &Region) -> Result<u32> {
        let mine = (local.address(), local.local_key());
        let number = self.post(verb, (key, address), mine, local.len())?;
        self.wait_done(number)
    }

    /// As [`Self::transfer`], of no byte, for which no memory need be named.
    pub fn transfer_nothing(&self, verb: Verb) -> Result<u32> {
        let number = self.post(verb, (0, 0), (0, 0), 0)?;
        self.wait_done(number)
    }

    /// Waits until work request `number` is over. Its status.
    pub fn wait_done(&self, number: u64) -> Result<u32> {
        self.wait(|inbox| {
            let at = inbox.done.iter().position(|(id, _)| *id == number)?;
            inbox.done.remove(at).map(|(_, status)| status)
        })
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut Inbox) -> Option<T>) -> Result<T> {
        let end = Instant::now() + patience();
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
