// SPDX-License-Identifier: GPL-2.0

//! System calls and write commands as safe functions. All unsafe code of this program is here.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A ring, as the device answers where it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRing {
    /// The offset for `mmap`.
    pub offset: u64,
    /// The number of its slots.
    pub slots: u32,
    reserved: u32,
}

/// A completion queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCq {
    /// Its ring.
    pub ring: RawRing,
    /// Its handle.
    pub handle: u32,
    reserved: u32,
}

/// A queue pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawQp {
    /// The ring of its Send Queue.
    pub send: RawRing,
    /// The ring of its Receive Queue.
    pub receive: RawRing,
    /// Its handle.
    pub handle: u32,
    /// Its number.
    pub number: u32,
}

/// A shared receive queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSrq {
    /// Its ring.
    pub ring: RawRing,
    /// Its handle.
    pub handle: u32,
    /// The number of Receives, as it is told.
    pub max_wr: u32,
    /// The number of entries of a list, as it is told.
    pub max_sge: u32,
    reserved: u32,
}

/// An event of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawAsync {
    /// The tag that the object was created with.
    pub tag: u64,
    /// Its kind.
    pub kind: u32,
    reserved: u32,
}

/// A memory region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawMr {
    /// Its handle.
    pub handle: u32,
    /// Its key for requests of its owner.
    pub lkey: u32,
    /// Its key for a peer.
    pub rkey: u32,
}

/// An event of the connection manager.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawEvent {
    /// The id that it is of.
    pub id: u32,
    /// Its kind.
    pub kind: u32,
    /// Its status.
    pub status: i32,
}

extern "C" {
    fn user_context(fd: c_int, async_fd: *mut i32) -> c_int;
    fn user_alloc_pd(fd: c_int, pd: *mut u32) -> c_int;
    fn user_dealloc_pd(fd: c_int, pd: u32) -> c_int;
    fn user_create_channel(fd: c_int, channel: *mut i32) -> c_int;
    fn user_create_cq(fd: c_int, entries: u32, channel: i32, out: *mut RawCq) -> c_int;
    fn user_destroy_cq(fd: c_int, cq: u32) -> c_int;
    fn user_create_qp(fd: c_int, pd: u32, cq: u32, s: u32, r: u32, out: *mut RawQp) -> c_int;
    fn user_create_shared_qp(
        fd: c_int,
        pd: u32,
        cq: u32,
        sends: u32,
        srq: u32,
        out: *mut RawQp,
    ) -> c_int;
    fn user_create_srq(
        fd: c_int,
        pd: u32,
        receives: u32,
        max_sge: u32,
        limit: u32,
        tag: u64,
        out: *mut RawSrq,
    ) -> c_int;
    fn user_create_tag_srq(fd: c_int, pd: u32, cq: u32) -> c_int;
    fn user_modify_srq(fd: c_int, srq: u32, mask: u32, receives: u32, limit: u32) -> c_int;
    fn user_query_srq(fd: c_int, srq: u32, limit: *mut u32) -> c_int;
    fn user_destroy_srq(fd: c_int, srq: u32) -> c_int;
    fn user_async_event(fd: c_int, timeout_ms: c_int, out: *mut RawAsync) -> c_int;
    fn user_init_qp(fd: c_int, qp: u32, access: u32) -> c_int;
    fn user_fail_qp(fd: c_int, qp: u32) -> c_int;
    fn user_destroy_qp(fd: c_int, qp: u32) -> c_int;
    fn user_reg_mr(fd: c_int, pd: u32, at: u64, len: u64, access: u32, out: *mut RawMr) -> c_int;
    fn user_dereg_mr(fd: c_int, mr: u32) -> c_int;
    fn user_doorbell(fd: c_int, qp: u32) -> c_int;
    fn user_post_send(fd: c_int, qp: u32, address: u64, length: u32, lkey: u32) -> c_int;
    fn user_post_recv(fd: c_int, qp: u32, address: u64, length: u32, lkey: u32) -> c_int;
    fn user_post_srq_recv(fd: c_int, srq: u32, address: u64, length: u32, lkey: u32) -> c_int;
    fn user_poll_cq(fd: c_int, cq: u32) -> c_int;
    fn user_req_notify_cq(fd: c_int, cq: u32) -> c_int;
    fn user_cm_create(fd: c_int, id: *mut u32) -> c_int;
    fn user_cm_destroy(fd: c_int, id: u32) -> c_int;
    fn user_cm_listen(fd: c_int, id: u32, ip: *const c_char, port: u16) -> c_int;
    fn user_cm_resolve_address(fd: c_int, id: u32, ip: *const c_char, port: u16) -> c_int;
    fn user_cm_resolve_route(fd: c_int, id: u32) -> c_int;
    fn user_cm_connect(fd: c_int, id: u32, qp: u32) -> c_int;
    fn user_cm_accept(fd: c_int, id: u32, qp: u32) -> c_int;
    fn user_cm_disconnect(fd: c_int, id: u32) -> c_int;
    fn user_cm_event(fd: c_int, timeout_ms: c_int, out: *mut RawEvent) -> c_int;

    fn user_readable(fd: c_int, timeout_ms: c_int) -> c_int;
    fn user_secret_file() -> c_int;
    fn user_child_writes(at: *mut c_void, len: usize) -> c_int;
    fn getpagesize() -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: i64, len: i64) -> c_int;
    fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn mprotect(at: *mut c_void, len: usize, prot: c_int) -> c_int;
    fn mremap(at: *mut c_void, old: usize, new: usize, flags: c_int, ...) -> *mut c_void;
}

/// Numbers of errors.
pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const EACCES: i32 = 13;
pub const EFAULT: i32 = 14;
pub const EBUSY: i32 = 16;
pub const EINVAL: i32 = 22;
pub const ENOSYS: i32 = 38;
pub const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;

/// The number of an error.
pub type Errno = i32;

fn check(result: c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        error => Err(-error),
    }
}

/// `/dev/infiniband/uverbs*`, with a context.
#[derive(Debug)]
pub struct Uverbs {
    file: File,
    events: OwnedFd,
}

impl Uverbs {
    /// Allocates the context of a device that was opened.
    pub fn new(file: File) -> Result<Self, Errno> {
        let mut events = -1;
        // SAFETY: The file is open, and the function writes a number.
        check(unsafe { user_context(file.as_raw_fd(), &mut events) })?;
        // SAFETY: The kernel has opened it for this process, and nobody else knows it.
        let events = unsafe { OwnedFd::from_raw_fd(events) };
        Ok(Self { file, events })
    }

    fn fd(&self) -> c_int {
        self.file.as_raw_fd()
    }

    /// `ALLOC_PD`.
    pub fn alloc_pd(&self) -> Result<u32, Errno> {
        let mut pd = 0;
        // SAFETY: The file is open, and the function writes a number.
        check(unsafe { user_alloc_pd(self.fd(), &mut pd) })?;
        Ok(pd)
    }

    /// `DEALLOC_PD`.
    pub fn dealloc_pd(&self, pd: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_dealloc_pd(self.fd(), pd) })
    }

    /// `CREATE_COMP_CHANNEL`.
    pub fn create_channel(&self) -> Result<File, Errno> {
        let mut channel = -1;
        // SAFETY: The file is open, and the function writes a number.
        check(unsafe { user_create_channel(self.fd(), &mut channel) })?;
        // SAFETY: The kernel has opened it for this process, and nobody else knows it.
        Ok(unsafe { File::from_raw_fd(channel) })
    }

    /// `CREATE_CQ`.
    pub fn create_cq(&self, entries: u32, channel: Option<&File>) -> Result<RawCq, Errno> {
        let mut cq = RawCq::default();
        let channel = channel.map_or(-1, File::as_raw_fd);
        // SAFETY: The files are open, and the function writes what `cq` is.
        check(unsafe { user_create_cq(self.fd(), entries, channel, &mut cq) })?;
        Ok(cq)
    }

    /// `DESTROY_CQ`.
    pub fn destroy_cq(&self, cq: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_destroy_cq(self.fd(), cq) })
    }

    /// `CREATE_QP`. The tag of its events is the handle of its completion queue.
    pub fn create_qp(&self, pd: u32, cq: u32, sends: u32, receives: u32) -> Result<RawQp, Errno> {
        let mut qp = RawQp::default();
        // SAFETY: The file is open, and the function writes what `qp` is.
        check(unsafe { user_create_qp(self.fd(), pd, cq, sends, receives, &mut qp) })?;
        Ok(qp)
    }

    /// `CREATE_QP` with a shared receive queue.
    pub fn create_shared_qp(&self, pd: u32, cq: u32, sends: u32, srq: u32) -> Result<RawQp, Errno> {
        let mut qp = RawQp::default();
        // SAFETY: The file is open, and the function writes what `qp` is.
        check(unsafe { user_create_shared_qp(self.fd(), pd, cq, sends, srq, &mut qp) })?;
        Ok(qp)
    }

    /// `CREATE_SRQ`. Its events have the tag.
    pub fn create_srq(
        &self,
        pd: u32,
        receives: u32,
        max_sge: u32,
        limit: u32,
        tag: u64,
    ) -> Result<RawSrq, Errno> {
        let mut srq = RawSrq::default();
        // SAFETY: The file is open, and the function writes what `srq` is.
        check(unsafe { user_create_srq(self.fd(), pd, receives, max_sge, limit, tag, &mut srq) })?;
        Ok(srq)
    }

    /// `CREATE_XSRQ` of a queue for tag matching.
    pub fn create_tag_srq(&self, pd: u32, cq: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_create_tag_srq(self.fd(), pd, cq) })
    }

    /// `MODIFY_SRQ` of what the mask says.
    pub fn modify_srq(&self, srq: u32, mask: u32, receives: u32, limit: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_modify_srq(self.fd(), srq, mask, receives, limit) })
    }

    /// `QUERY_SRQ`: the limit.
    pub fn query_srq(&self, srq: u32) -> Result<u32, Errno> {
        let mut limit = 0;
        // SAFETY: The file is open, and the function writes a number.
        check(unsafe { user_query_srq(self.fd(), srq, &mut limit) })?;
        Ok(limit)
    }

    /// `DESTROY_SRQ`.
    pub fn destroy_srq(&self, srq: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_destroy_srq(self.fd(), srq) })
    }

    /// Waits for the next event of an object of this context. `None` if none comes.
    pub fn async_event(&self, limit: Duration) -> Result<Option<RawAsync>, Errno> {
        let mut event = RawAsync::default();
        let fd = self.events.as_raw_fd();
        let timeout_ms = limit.as_millis() as c_int;
        // SAFETY: The file is open, and the function writes what `event` is.
        match unsafe { user_async_event(fd, timeout_ms, &mut event) } {
            0 => Ok(Some(event)),
            error if -error == ETIMEDOUT => Ok(None),
            error => Err(-error),
        }
    }

    /// `MODIFY_QP` to the state INIT.
    pub fn init_qp(&self, qp: u32, access: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_init_qp(self.fd(), qp, access) })
    }

    /// `MODIFY_QP` to the state ERR.
    pub fn fail_qp(&self, qp: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_fail_qp(self.fd(), qp) })
    }

    /// `DESTROY_QP`.
    pub fn destroy_qp(&self, qp: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_destroy_qp(self.fd(), qp) })
    }

    /// `REG_MR`, of any addresses: the kernel looks at them, not this process.
    pub fn reg_mr(&self, pd: u32, start: u64, length: u64, access: u32) -> Result<RawMr, Errno> {
        let mut mr = RawMr::default();
        // SAFETY: The file is open, and the function writes what `mr` is. What the device then
        // writes to the memory is seen by atomic or volatile accesses only.
        check(unsafe { user_reg_mr(self.fd(), pd, start, length, access, &mut mr) })?;
        Ok(mr)
    }

    /// `DEREG_MR`.
    pub fn dereg_mr(&self, mr: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_dereg_mr(self.fd(), mr) })
    }

    /// `POST_SEND` of nothing.
    pub fn doorbell(&self, qp: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_doorbell(self.fd(), qp) })
    }

    /// `POST_SEND` of a request.
    pub fn post_send(&self, qp: u32, address: u64, length: u32, lkey: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_post_send(self.fd(), qp, address, length, lkey) })
    }

    /// `POST_RECV` of a request.
    pub fn post_recv(&self, qp: u32, address: u64, length: u32, lkey: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_post_recv(self.fd(), qp, address, length, lkey) })
    }

    /// `POST_SRQ_RECV` of a request.
    pub fn post_srq_recv(
        &self,
        srq: u32,
        address: u64,
        length: u32,
        lkey: u32,
    ) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_post_srq_recv(self.fd(), srq, address, length, lkey) })
    }

    /// `POLL_CQ`.
    pub fn poll_cq(&self, cq: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_poll_cq(self.fd(), cq) })
    }

    /// `REQ_NOTIFY_CQ`.
    pub fn req_notify_cq(&self, cq: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_req_notify_cq(self.fd(), cq) })
    }
}

/// Waits until there is something to read.
pub fn readable(file: &File, timeout_ms: i32) -> bool {
    // SAFETY: The file is open.
    unsafe { user_readable(file.as_raw_fd(), timeout_ms) > 0 }
}

/// Opens a file in memory that the kernel cannot access itself. `ENOSYS` if it has none.
pub fn secret_file() -> Result<File, Errno> {
    // SAFETY: The function has no preconditions.
    let fd = unsafe { user_secret_file() };
    match fd {
        0.. => {
            // SAFETY: The kernel has opened it for this process, and nobody else knows it.
            Ok(unsafe { File::from_raw_fd(fd) })
        }
        error => Err(-error),
    }
}

/// Frees the pages of a part of a file, whose length stays.
pub fn punch_hole(file: &File, offset: usize, len: usize) -> Result<(), Errno> {
    const KEEP_SIZE: c_int = 1;
    const PUNCH_HOLE: c_int = 2;
    let mode = PUNCH_HOLE | KEEP_SIZE;
    // SAFETY: The file is open.
    match unsafe { fallocate(file.as_raw_fd(), mode, offset as i64, len as i64) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// `/dev/infiniband/rdma_cm`.
#[derive(Debug)]
pub struct Cm(File);

impl Cm {
    /// Opens the device.
    pub fn open() -> io::Result<Self> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .open("/dev/infiniband/rdma_cm")?;
        Ok(Self(file))
    }

    fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// Creates an id.
    pub fn create(&self) -> Result<u32, Errno> {
        let mut id = 0;
        // SAFETY: The file is open, and the function writes a number.
        check(unsafe { user_cm_create(self.fd(), &mut id) })?;
        Ok(id)
    }

    /// Destroys an id.
    pub fn destroy(&self, id: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_cm_destroy(self.fd(), id) })
    }

    /// Listens.
    pub fn listen(&self, id: u32, ip: &str, port: u16) -> Result<(), Errno> {
        let ip = CString::new(ip).map_err(|_| EINVAL)?;
        // SAFETY: The file is open, and `ip` is a string.
        check(unsafe { user_cm_listen(self.fd(), id, ip.as_ptr(), port) })
    }

    /// Resolves an address; an event says when that is done.
    pub fn resolve_address(&self, id: u32, ip: &str, port: u16) -> Result<(), Errno> {
        let ip = CString::new(ip).map_err(|_| EINVAL)?;
        // SAFETY: The file is open, and `ip` is a string.
        check(unsafe { user_cm_resolve_address(self.fd(), id, ip.as_ptr(), port) })
    }

    /// Resolves the route; an event says when that is done.
    pub fn resolve_route(&self, id: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_cm_resolve_route(self.fd(), id) })
    }

    /// Connects the queue pair of this number; an event says when that is done.
    pub fn connect(&self, id: u32, qp: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_cm_connect(self.fd(), id, qp) })
    }

    /// Accepts a connection with the queue pair of this number.
    pub fn accept(&self, id: u32, qp: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_cm_accept(self.fd(), id, qp) })
    }

    /// Ends a connection.
    pub fn disconnect(&self, id: u32) -> Result<(), Errno> {
        // SAFETY: The file is open.
        check(unsafe { user_cm_disconnect(self.fd(), id) })
    }

    /// Waits for the next event. `ETIMEDOUT` if none comes.
    pub fn event(&self, timeout_ms: i32) -> Result<RawEvent, Errno> {
        let mut event = RawEvent::default();
        // SAFETY: The file is open, and the function writes what `event` is.
        check(unsafe { user_cm_event(self.fd(), timeout_ms, &mut event) })?;
        Ok(event)
    }
}

/// Bits of `prot` and `flags`.
pub const READ: c_int = 1;
pub const WRITE: c_int = 2;
pub const EXEC: c_int = 4;
pub const SHARED: c_int = 1;
pub const PRIVATE: c_int = 2;
pub const NOTHING: c_int = 0;
const ANONYMOUS: c_int = 0x20;
// Of 2 MiB, which machines with pages of 4 and of 16 KiB have.
const HUGE: c_int = 0x4_0000 | 21 << 26;

/// The length of a page of this machine.
pub fn page_size() -> usize {
    // SAFETY: The function has no preconditions.
    unsafe { getpagesize() as usize }
}

fn last_errno() -> Errno {
    io::Error::last_os_error().raw_os_error().unwrap_or(EINVAL)
}

/// Memory that others may write at any time: only whole words are loaded and stored, atomically.
// INVARIANT: A mapping of `len` octets, readable, which is this type's own until it is dropped.
#[derive(Debug)]
pub struct Memory {
    start: *mut c_void,
    len: usize,
}

// SAFETY: All accesses are atomic.
unsafe impl Send for Memory {}
// SAFETY: All accesses are atomic.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(len: usize, prot: c_int, flags: c_int, fd: c_int, offset: u64) -> Result<Self, Errno> {
        // SAFETY: The kernel chooses where, so nothing that is mapped is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, prot, flags, fd, offset as i64) };
        match start.addr() {
            usize::MAX => Err(last_errno()),
            // INVARIANT: It was mapped here.
            _ => Ok(Self { start, len }),
        }
    }

    /// Maps a file.
    pub fn of_file(file: &File, len: usize, prot: c_int) -> Result<Self, Errno> {
        Self::map(len, prot, SHARED, file.as_raw_fd(), 0)
    }

    /// Maps memory of no file.
    pub fn anonymous(len: usize, prot: c_int) -> Result<Self, Errno> {
        Self::map(len, prot, PRIVATE | ANONYMOUS, -1, 0)
    }

    /// Maps huge pages of 2 MiB. `ENOMEM` if there are none, and `EINVAL` if the kernel knows none.
    pub fn huge(len: usize) -> Result<Self, Errno> {
        Self::map(len, READ | WRITE, PRIVATE | ANONYMOUS | HUGE, -1, 0)
    }

    /// Maps a part of a device.
    pub fn of_device(
        device: &Uverbs,
        len: usize,
        prot: c_int,
        flags: c_int,
        offset: u64,
    ) -> Result<Self, Errno> {
        Self::map(len, prot, flags, device.fd(), offset)
    }

    /// Returns the address.
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// Returns the length in octets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the word at this offset.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.len.next_multiple_of(page_size()));
        // SAFETY: By the invariant it lies in the mapping, whose last page is whole, and it is
        // aligned. All accesses of this process are atomic. A store to memory that is not writable
        // ends this process.
        unsafe { AtomicU64::from_ptr(self.start.byte_add(offset).cast()) }
    }

    /// Loads octets.
    pub fn octets(&self, offset: usize, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).map(|word| self.word(offset + 8 * word));
        let octets = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        octets.take(len).collect()
    }

    /// Stores the octet in all octets.
    pub fn fill(&self, octet: u8) {
        for offset in (0..self.len).step_by(8) {
            let word = u64::from_ne_bytes([octet; 8]);
            self.word(offset).store(word, Ordering::Relaxed);
        }
    }

    /// `mprotect` of all of it.
    pub fn protect(&self, prot: c_int) -> Result<(), Errno> {
        // SAFETY: By the invariant it is this type's. Who then accesses it may end this process.
        match unsafe { mprotect(self.start, self.len, prot) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Gives the pages back to the kernel: what is read next is zero.
    pub fn discard(&self) -> Result<(), Errno> {
        const DONTNEED: c_int = 4;
        // SAFETY: By the invariant it is this type's, and its octets may change at any time.
        match unsafe { madvise(self.start, self.len, DONTNEED) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Asks the kernel to swap it out.
    pub fn page_out(&self) -> Result<(), Errno> {
        const PAGEOUT: c_int = 21;
        // SAFETY: By the invariant it is this type's, and its octets stay.
        match unsafe { madvise(self.start, self.len, PAGEOUT) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Lets a child write its copy of all of it.
    pub fn written_by_a_child(&self) -> Result<(), Errno> {
        // SAFETY: By the invariant it is this type's. The child has a copy, and does nothing else.
        check(unsafe { user_child_writes(self.start, self.len) })
    }

    /// `mremap` to another length, wherever that fits. Returns what it is then, or was.
    pub fn resize(self, len: usize) -> Result<Self, (Self, Errno)> {
        const MAY_MOVE: c_int = 1;
        // SAFETY: By the invariant it is this type's, and nobody borrows it.
        let start = unsafe { mremap(self.start, self.len, len, MAY_MOVE) };
        if start.addr() == usize::MAX {
            return Err((self, last_errno()));
        }
        std::mem::forget(self);
        // INVARIANT: It was mapped here, instead of the old one.
        Ok(Self { start, len })
    }

    /// Unmaps the first page and keeps the others, of which there is one at least.
    pub fn without_first_page(self) -> Self {
        assert!(self.len > page_size());
        // SAFETY: By the invariant it is this type's, and nobody borrows it.
        unsafe { munmap(self.start, page_size()) };
        // SAFETY: There is more than one page.
        let start = unsafe { self.start.byte_add(page_size()) };
        let len = self.len - page_size();
        std::mem::forget(self);
        // INVARIANT: What is left of the mapping.
        Self { start, len }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is this type's, and nobody borrows it.
        unsafe { munmap(self.start, self.len) };
    }
}
