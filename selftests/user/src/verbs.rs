// SPDX-License-Identifier: GPL-2.0

//! Contexts, queues and regions, with the rings in this process's memory.

use std::fs;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::entry;
use crate::entry::Sge;
use crate::kernel::page_size;
use crate::kernel::Memory;
use crate::kernel::RawCq;
use crate::kernel::RawMr;
use crate::kernel::RawQp;
use crate::kernel::RawRing;
use crate::kernel::RawSrq;
use crate::kernel::Uverbs;
use crate::kernel::READ;
use crate::kernel::SHARED;
use crate::kernel::WRITE;

/// Access flags of regions.
pub const LOCAL_WRITE: u32 = 1;
pub const REMOTE_WRITE: u32 = 2;
pub const REMOTE_READ: u32 = 4;

/// How long a completion or an event may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Opens the file of a device.
pub fn open_file(name: &str) -> Result<File, String> {
    let devices = fs::read_dir("/sys/class/infiniband_verbs").map_err(|error| error.to_string())?;
    let mut devices = devices.flatten().map(|entry| entry.path());
    let device = devices.find(|path| {
        fs::read_to_string(path.join("ibdev")).is_ok_and(|ibdev| ibdev.trim() == name)
    });
    let device = device.ok_or(format!("no uverbs device is of {name}"))?;
    let path = format!(
        "/dev/infiniband/{}",
        device.file_name().unwrap_or_default().to_string_lossy()
    );
    let mut options = File::options();
    let file = options.read(true).write(true).open(&path);
    file.map_err(|error| format!("{path}: {error}"))
}

/// Opens a device by its name.
pub fn open(name: &str) -> Result<Uverbs, String> {
    Uverbs::new(open_file(name)?).map_err(|errno| format!("GET_CONTEXT: errno {errno}"))
}

/// A context with a protection domain.
#[derive(Clone)]
pub struct Context {
    pub uverbs: Arc<Uverbs>,
    pub pd: u32,
}

impl Context {
    /// Opens a device by its name.
    pub fn open(name: &str) -> Result<Self, String> {
        let uverbs = open(name)?;
        let pd = uverbs
            .alloc_pd()
            .map_err(|errno| format!("ALLOC_PD: errno {errno}"))?;
        Ok(Self {
            uverbs: Arc::new(uverbs),
            pd,
        })
    }

    /// Registers memory.
    pub fn register(&self, memory: &Memory, access: u32) -> Result<RawMr, i32> {
        self.uverbs
            .reg_mr(self.pd, memory.address(), memory.len() as u64, access)
    }

    /// Allocates and registers memory.
    pub fn buffer(&self, len: usize, access: u32) -> Result<Buffer, String> {
        let memory =
            Memory::anonymous(len, READ | WRITE).map_err(|errno| format!("mmap: errno {errno}"))?;
        memory.fill(0);
        let mr = self
            .register(&memory, access)
            .map_err(|errno| format!("REG_MR: errno {errno}"))?;
        Ok(Buffer { memory, mr })
    }
}

/// Registered memory.
pub struct Buffer {
    pub memory: Memory,
    pub mr: RawMr,
}

impl Buffer {
    /// Returns the list entry of octets.
    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge {
            address: self.memory.address() + offset as u64,
            length,
            lkey: self.mr.lkey,
        }
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub id: u64,
    pub opcode: u8,
    pub status: u16,
    pub length: u32,
    /// The words with the invalidated STag and with the queue pair.
    pub rest: [u64; 2],
}

/// `IBV_WC_SUCCESS`, and the statuses of the format.
pub const SUCCESS: u16 = 0;
pub const LOC_LEN: u16 = 1;
pub const LOC_PROT: u16 = 2;
pub const LOC_QP_OP: u16 = 3;
pub const FLUSHED: u16 = 4;
pub const REM_ACCESS: u16 = 7;

/// A completion queue.
pub struct Cq {
    pub raw: RawCq,
    pub ring: Arc<Memory>,
    next: u32,
}

impl Cq {
    pub const LEN: usize = 32;

    /// Creates a queue.
    pub fn new(context: &Context, entries: u32) -> Result<Self, String> {
        Self::with_channel(context, entries, None)
    }

    /// Creates a queue whose events go to a channel.
    pub fn with_channel(
        context: &Context,
        entries: u32,
        channel: Option<&File>,
    ) -> Result<Self, String> {
        let raw = context
            .uverbs
            .create_cq(entries, channel)
            .map_err(|errno| format!("CREATE_CQ: errno {errno}"))?;
        let ring = map(&context.uverbs, raw.ring, Self::LEN, 8)?;
        Ok(Self { raw, ring, next: 0 })
    }

    /// Asks for an event at the next completion, or at the next solicited one.
    pub fn arm(&self, solicited_only: bool) {
        let control = self.raw.ring.slots as usize * Self::LEN;
        let asked = if solicited_only { 1 } else { 3 };
        self.ring.word(control).store(asked, Ordering::SeqCst);
    }

    /// Takes the next completion, if there is one.
    pub fn poll(&mut self) -> Option<Completion> {
        let slot = (self.next % self.raw.ring.slots) as usize * Self::LEN;
        let word = |at| self.ring.word(slot + at);
        let head = word(8).load(Ordering::Acquire).to_le_bytes();
        if head[0] & 1 == 0 {
            return None;
        }
        let completion = Completion {
            id: word(0).load(Ordering::Relaxed),
            opcode: head[1],
            status: u16::from_le_bytes([head[2], head[3]]),
            length: u32::from_le_bytes([head[4], head[5], head[6], head[7]]),
            rest: [
                word(16).load(Ordering::Relaxed),
                word(24).load(Ordering::Relaxed),
            ],
        };
        word(8).store(0, Ordering::SeqCst);
        self.next = self.next.wrapping_add(1);
        Some(completion)
    }

    /// Waits for the next completion.
    pub fn wait(&mut self) -> Result<Completion, String> {
        self.wait_for(PATIENCE)
            .ok_or("there is no completion".into())
    }

    /// Waits that long for the next completion.
    pub fn wait_for(&mut self, limit: Duration) -> Option<Completion> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(completion) = self.poll() {
                return Some(completion);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Maps a ring whose slots have that length, with something behind.
fn map(uverbs: &Uverbs, ring: RawRing, slot: usize, behind: usize) -> Result<Arc<Memory>, String> {
    let len = ring.slots as usize * slot + behind;
    let memory = Memory::of_device(uverbs, len, READ | WRITE, SHARED, ring.offset);
    let memory = memory.map_err(|errno| format!("mmap of a ring: errno {errno}"))?;
    Ok(Arc::new(memory))
}

/// A shared receive queue.
pub struct Srq {
    pub context: Context,
    pub raw: RawSrq,
    pub ring: Arc<Memory>,
    next: u32,
    // Its memory may be written while a queue pair uses it.
    keeps: Vec<Arc<Buffer>>,
}

impl Srq {
    /// The tag of its events.
    pub const TAG: u64 = 0x5254_5152_5352_5155;

    /// Creates a queue with an event when fewer than `limit` Receives are left.
    pub fn new(context: &Context, receives: u32, limit: u32) -> Result<Self, String> {
        let raw = context
            .uverbs
            .create_srq(context.pd, receives, 6, limit, Self::TAG);
        let raw = raw.map_err(|errno| format!("CREATE_SRQ: errno {errno}"))?;
        Ok(Self {
            context: context.clone(),
            raw,
            ring: map(&context.uverbs, raw.ring, entry::RQE_LEN, 0)?,
            next: 0,
            keeps: Vec::new(),
        })
    }

    /// Puts an entry into the queue.
    pub fn post(&mut self, words: [u64; 14]) {
        let slot = (self.next % self.raw.ring.slots) as usize * entry::RQE_LEN;
        put(&self.ring, slot, &words);
        self.next = self.next.wrapping_add(1);
    }

    /// Posts a Receive into a buffer that stays until this is dropped.
    pub fn receive_into(&mut self, id: u64, buffer: &Arc<Buffer>, offset: usize, length: u32) {
        self.post(entry::receive(id, &[buffer.sge(offset, length)]));
        self.keeps.push(buffer.clone());
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // It may be gone already, or still be used.
        let _ = self.context.uverbs.destroy_srq(self.raw.handle);
    }
}

/// A queue pair with its completion queue, of both kinds of requests.
pub struct Qp {
    pub context: Context,
    pub raw: RawQp,
    pub cq: Cq,
    pub send: Arc<Memory>,
    // Of nothing, if its Receives are those of a shared queue.
    pub receive: Arc<Memory>,
    next_send: u32,
    next_receive: u32,
    // Its memory may be written while it is connected.
    pub keeps: Vec<Arc<Buffer>>,
}

impl Qp {
    /// Creates a queue pair in state INIT, with this number of entries in each queue.
    pub fn new(context: &Context, entries: u32) -> Result<Self, String> {
        Self::with_cq(context, entries, Cq::new(context, 2 * entries)?)
    }

    /// Creates a queue pair that uses this completion queue.
    pub fn with_cq(context: &Context, entries: u32, cq: Cq) -> Result<Self, String> {
        let raw = context
            .uverbs
            .create_qp(context.pd, cq.raw.handle, entries, entries);
        let raw = raw.map_err(|errno| format!("CREATE_QP: errno {errno}"))?;
        let receive = map(&context.uverbs, raw.receive, entry::RQE_LEN, 0)?;
        Self::of(context, cq, raw, receive)
    }

    /// Creates a queue pair with this number of sends, whose Receives are those of a shared queue.
    pub fn sharing(context: &Context, entries: u32, srq: &Srq) -> Result<Self, String> {
        let cq = Cq::new(context, 2 * entries)?;
        let raw =
            context
                .uverbs
                .create_shared_qp(context.pd, cq.raw.handle, entries, srq.raw.handle);
        let raw = raw.map_err(|errno| format!("CREATE_QP: errno {errno}"))?;
        let none =
            Memory::anonymous(page_size(), READ).map_err(|errno| format!("mmap: errno {errno}"))?;
        Self::of(context, cq, raw, Arc::new(none))
    }

    fn of(context: &Context, cq: Cq, raw: RawQp, receive: Arc<Memory>) -> Result<Self, String> {
        let send = map(&context.uverbs, raw.send, entry::SQE_LEN, 0)?;
        let access = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
        context
            .uverbs
            .init_qp(raw.handle, access)
            .map_err(|errno| format!("MODIFY_QP: errno {errno}"))?;
        Ok(Self {
            context: context.clone(),
            raw,
            cq,
            send,
            receive,
            next_send: 0,
            next_receive: 0,
            keeps: Vec::new(),
        })
    }

    /// Puts an entry into the Send Queue, without a doorbell.
    pub fn put(&mut self, words: [u64; 15]) {
        let slot = (self.next_send % self.raw.send.slots) as usize * entry::SQE_LEN;
        put(&self.send, slot, &words);
        self.next_send = self.next_send.wrapping_add(1);
    }

    /// Says whether the device took the entry before the last one that was put.
    pub fn entry_before_is_taken(&self) -> bool {
        self.is_taken(2)
    }

    /// Says whether the device took the last entry that was put.
    pub fn last_entry_is_taken(&self) -> bool {
        self.is_taken(1)
    }

    /// Says whether the device took the last entry but `back - 1`.
    fn is_taken(&self, back: u32) -> bool {
        let slot = self.next_send.wrapping_sub(back) % self.raw.send.slots;
        let head = self.send.word(slot as usize * entry::SQE_LEN + 8);
        head.load(Ordering::SeqCst) & u64::from(entry::VALID) == 0
    }

    /// Rings the doorbell.
    pub fn doorbell(&self) -> Result<(), i32> {
        self.context.uverbs.doorbell(self.raw.handle)
    }

    /// Puts an entry into the Send Queue, and rings the doorbell.
    pub fn post(&mut self, words: [u64; 15]) -> Result<(), String> {
        self.put(words);
        self.doorbell()
            .map_err(|errno| format!("the doorbell: errno {errno}"))
    }

    /// Puts an entry into the Receive Queue.
    pub fn post_receive(&mut self, words: [u64; 14]) {
        let slot = (self.next_receive % self.raw.receive.slots) as usize * entry::RQE_LEN;
        put(&self.receive, slot, &words);
        self.next_receive = self.next_receive.wrapping_add(1);
    }

    /// Posts a Receive into a buffer that stays until this is dropped.
    pub fn receive_into(&mut self, id: u64, buffer: &Arc<Buffer>, offset: usize, length: u32) {
        self.post_receive(entry::receive(id, &[buffer.sge(offset, length)]));
        self.keeps.push(buffer.clone());
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // It may be gone already, or still be used by a connection.
        let _ = self.context.uverbs.destroy_qp(self.raw.handle);
        let _ = self.context.uverbs.destroy_cq(self.cq.raw.handle);
    }
}

/// Writes an entry: its flags come last.
fn put(ring: &Memory, slot: usize, words: &[u64]) {
    for (at, word) in words.iter().enumerate().filter(|(at, _)| *at != 1) {
        ring.word(slot + 8 * at).store(*word, Ordering::Relaxed);
    }
    ring.word(slot + 8).store(words[1], Ordering::SeqCst);
}

/// Returns the length of a ring in pages.
pub fn pages(ring: RawRing, slot: usize, behind: usize) -> usize {
    (ring.slots as usize * slot + behind).div_ceil(page_size())
}
