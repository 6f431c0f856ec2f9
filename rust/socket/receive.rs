// SPDX-License-Identifier: GPL-2.0

//! Receiving frame after frame, each when all of it arrived.
//!
//! The head of a frame has its length, which the upper layer reads. A whole frame is examined where
//! it lies in the receive queue; one that exceeds the window is reassembled elsewhere
//! ([`Reassembly`]), and looks the same to the receiver. Octets that a peer calls urgent are in the
//! stream like all others.
//!
//! Reassembly is for a frame that does not fit in the receive buffer. It may be longer than the
//! window of its connection: nearly 64 KiB over loopback, while a system or an owner may keep
//! receive buffers small. In the receive queue it would never become complete. So its octets are
//! taken out, and the rest is when it arrives. Memory is allocated for octets that did arrive, not
//! for the length that the frame promises.

use crate::prelude::*;
use crate::queue::ReceiveQueue;
use ext::{
    borrowed::Piece,
    errno::eproto, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// The greatest length of a head in octets.
pub const MAX_HEAD: usize = 32;

/// The greatest length of a frame in octets: 16 bits of length, the octets that it does not count,
/// and markers.
pub const MAX_FRAME: usize = 66_560;

/// Octets after which the lock is released: packets that arrive meanwhile wait in a backlog, which
/// TCP limits.
const BUDGET_OCTETS: usize = 65_536;

/// The size of a block of memory for reassembly, in octets.
const REASSEMBLY_CHUNK: usize = 4096;

/// State that is kept from one call to the next.
pub(crate) struct ReceiveState {
    reassembly: Reassembly,
    /// The time since when part of a frame is there.
    since: Option<Instant<Monotonic>>,
    /// The size that the receive buffer was enlarged to, in octets.
    room: usize,
}

impl ReceiveState {
    pub(crate) const fn new() -> Self {
        Self {
            reassembly: Reassembly::new(),
            since: None,
            room: 0,
        }
    }

    #[inline]
    pub(crate) fn since(&self) -> Option<Instant<Monotonic>> {
        self.since
    }
}

/// The received octets, in frames. The socket's lock is held as long as this is there.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use socket::{
///     Events,
///     Next,
///     TcpConn, //
/// };
///
/// /// Takes the frames that have arrived, and returns their number. Each begins with its length in
/// /// two octets.
/// fn receive<E: Events>(connection: &mut TcpConn<E>) -> Result<usize> {
///     connection.receive(|frames| {
///         let mut count = 0;
///         let length = |head: &[u8]| {
///             let head = head.first_chunk().ok_or(EINVAL)?;
///             Ok(usize::from(u16::from_be_bytes(*head)))
///         };
///         while let Next::Whole(frame) = frames.next(2, length)? {
///             frame.take()?;
///             count += 1;
///         }
///         Ok(count)
///     })
/// }
/// ```
pub struct Frames<'s> {
    queue: ReceiveQueue<'s>,
    state: &'s mut ReceiveState,
    /// The number of octets of the frames that were taken.
    taken: usize,
}

/// The next frame, or the reason why there is none.
pub enum Next<'f, 's> {
    /// A complete frame.
    Whole(Frame<'f, 's>),
    /// Part of a frame. [`Event::Readable`](crate::Event::Readable) reports more.
    Part,
    /// Nothing. [`Event::Readable`](crate::Event::Readable) reports more.
    Nothing,
    /// No complete frame, and no more octets will come: the peer closed, or the connection failed.
    End {
        /// The stream ends within a frame.
        within_frame: bool,
    },
    /// The budget is used up. The lock is to be released before more is received.
    Budget,
}

impl<'s> Frames<'s> {
    pub(crate) fn new(queue: ReceiveQueue<'s>, state: &'s mut ReceiveState) -> Self {
        Self {
            queue,
            state,
            taken: 0,
        }
    }

    /// Returns the number of octets that arrived in order and are of no frame that was taken.
    pub fn available(&self) -> usize {
        let assembled = self.state.reassembly.filled();
        self.queue.available().saturating_add(assembled)
    }

    /// Returns the next frame. `length` reads from the first `head` octets the length of the frame
    /// in the stream.
    ///
    /// Errors of `length` are passed on: the octets are no frame, and nothing is taken. `EPROTO` if
    /// the frame is longer than [`MAX_FRAME`] or shorter than its head, [`EINVAL`] if `head` is 0
    /// or longer than [`MAX_HEAD`]. `ENOMEM` if the frame had to be reassembled and there was no
    /// memory: nothing is lost, and no event reports when to try again.
    pub fn next<'f>(
        &'f mut self,
        head: usize,
        length: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Next<'f, 's>> {
        if self.taken >= BUDGET_OCTETS {
            return Ok(Next::Budget);
        }
        if head == 0 || head > MAX_HEAD {
            return Err(EINVAL);
        }
        match self.state.reassembly.filled() {
            0 => self.next_in_queue(head, length),
            _ => self.next_assembled(head, length),
        }
    }

    fn next_in_queue<'f>(
        &'f mut self,
        head: usize,
        length: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Next<'f, 's>> {
        let available = self.queue.available();
        let mut len = None;
        if available >= head {
            self.queue.find_next();
            let read = |to: &mut [u8]| self.queue.copy_to_slice(0, to);
            len = Some(frame_len(head, read, length)?);
        }
        match len {
            Some(len) if available >= len => Ok(Next::Whole(Frame {
                frames: self,
                source: FrameSource::Queue,
                len,
            })),
            _ if self.queue.is_finished() => Ok(Next::End {
                within_frame: available > 0,
            }),
            _ if available == 0 => Ok(Next::Nothing),
            _ => {
                self.await_rest(len.unwrap_or(head))?;
                Ok(Next::Part)
            }
        }
    }

    /// Makes it possible for the rest of a frame to arrive.
    fn await_rest(&mut self, wanted: usize) -> Result {
        self.state.since.get_or_insert_with(Instant::now);
        // Octets that were taken count against the window until they are given back.
        self.queue.give_back();
        if wanted > self.state.room {
            self.state.room = wanted;
            self.queue.enlarge_buffer(wanted);
        }
        match self.queue.is_full() {
            true => self.state.reassembly.fill(&mut self.queue, wanted),
            false => Ok(()),
        }
    }

    fn next_assembled<'f>(
        &'f mut self,
        head: usize,
        length: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Next<'f, 's>> {
        let reassembly = &mut self.state.reassembly;
        let len = match reassembly.len() {
            Some(len) => len,
            None => {
                reassembly.fill(&mut self.queue, head)?;
                if reassembly.filled() < head {
                    return Ok(self.incomplete());
                }
                let len = frame_len(head, |to| reassembly.copy_to_slice(0, to), length)?;
                reassembly.set_len(len);
                len
            }
        };
        reassembly.fill(&mut self.queue, len)?;
        if reassembly.filled() < len {
            return Ok(self.incomplete());
        }
        Ok(Next::Whole(Frame {
            frames: self,
            source: FrameSource::Reassembly,
            len,
        }))
    }

    fn incomplete<'f>(&self) -> Next<'f, 's> {
        match self.queue.is_finished() {
            true => Next::End { within_frame: true },
            false => Next::Part,
        }
    }

    /// Takes all octets that are there, so that closing tells the peer the end of the stream
    /// instead of resetting it. Returns their number.
    pub fn discard(&mut self) -> Result<usize> {
        let mut all = self.state.reassembly.filled();
        self.state.reassembly.clear();
        self.state.since = None;
        let there = self.queue.available();
        if there > 0 {
            self.queue.find_next();
            self.queue.take(there)?;
            self.queue.give_back();
            all = all.saturating_add(there);
        }
        Ok(all)
    }
}

/// Reads the length of a frame from its head.
fn frame_len(
    head: usize,
    read: impl FnOnce(&mut [u8]) -> Result,
    length: impl FnOnce(&[u8]) -> Result<usize>,
) -> Result<usize> {
    let mut octets = [0; MAX_HEAD];
    let octets = octets.get_mut(..head).ok_or(EINVAL)?;
    read(octets)?;
    match length(octets)? {
        len if (head..=MAX_FRAME).contains(&len) => Ok(len),
        _ => Err(eproto()),
    }
}

/// The location of a frame.
#[derive(Clone, Copy)]
enum FrameSource {
    Queue,
    Reassembly,
}

/// A complete frame. Offsets count from its first octet; one outside the frame is [`EINVAL`].
///
/// If it is not [taken](Self::take), it is the next one again.
pub struct Frame<'f, 's> {
    frames: &'f mut Frames<'s>,
    source: FrameSource,
    len: usize,
}

impl Frame<'_, '_> {
    /// Returns its length in the stream in octets.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a frame has at least its head")]
    pub fn len(&self) -> usize {
        self.len
    }

    fn check(&self, offset: usize, len: usize) -> Result {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(EINVAL),
        }
    }

    /// Copies octets from `offset` to the whole of `to`.
    pub fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        self.check(offset, to.len())?;
        match self.source {
            FrameSource::Queue => self.frames.queue.copy_to_slice(offset, to),
            FrameSource::Reassembly => self.frames.state.reassembly.copy_to_slice(offset, to),
        }
    }

    /// Copies octets from `offset` to the whole of `to`.
    pub fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        self.check(offset, usize::try_from(to.len())?)?;
        match self.source {
            FrameSource::Queue => self.frames.queue.copy_to(offset, to),
            FrameSource::Reassembly => self.frames.state.reassembly.copy_to(offset, to),
        }
    }

    /// Returns the CRC32C of `len` octets from `offset`, continued from `sum`, which begins as `!0`
    /// and is inverted in the end.
    pub fn crc32c(&self, sum: u32, offset: usize, len: usize) -> Result<u32> {
        self.check(offset, len)?;
        match self.source {
            FrameSource::Queue => self.frames.queue.crc32c(sum, offset, len),
            FrameSource::Reassembly => self.frames.state.reassembly.crc32c(sum, offset, len),
        }
    }

    /// Takes the frame. The next one is behind it.
    pub fn take(self) -> Result {
        match self.source {
            FrameSource::Queue => self.frames.queue.take(self.len)?,
            FrameSource::Reassembly => self.frames.state.reassembly.clear(),
        }
        self.frames.state.since = None;
        self.frames.taken = self.frames.taken.saturating_add(self.len);
        Ok(())
    }
}

/// The first octets of a frame.
pub(crate) struct Reassembly {
    /// All but the last are full.
    chunks: KVec<KBox<[u8; REASSEMBLY_CHUNK]>>,
    filled: usize,
    /// The length of the frame, once its head is there.
    len: Option<usize>,
}

impl Reassembly {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: KVec::new(),
            filled: 0,
            len: None,
        }
    }

    /// Returns the number of octets that are here.
    #[inline]
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    #[inline]
    pub(crate) fn len(&self) -> Option<usize> {
        self.len
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = Some(len);
    }

    /// Drops the frame, and frees its memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Takes octets from `queue` until there are `wanted` or no more arrived. Sleeps for memory.
    /// After an error the octets that it could not take are still in the queue.
    pub(crate) fn fill(&mut self, queue: &mut ReceiveQueue<'_>, wanted: usize) -> Result {
        loop {
            let missing = wanted.saturating_sub(self.filled);
            let now = missing.min(queue.available());
            if now == 0 {
                break;
            }
            let (at, offset) = (
                self.filled / REASSEMBLY_CHUNK,
                self.filled % REASSEMBLY_CHUNK,
            );
            if at == self.chunks.len() {
                #[cfg(RPCRDMA_SELFTEST)]
                crate::selftest::Shortage::strike()?;
                let chunk = KBox::zeroed(GFP_KERNEL_ACCOUNT)?;
                self.chunks.push(chunk, GFP_KERNEL_ACCOUNT)?;
            }
            let chunk = self.chunks.get_mut(at).ok_or(EINVAL)?;
            let room = chunk.get_mut(offset..).ok_or(EINVAL)?;
            let len = now.min(room.len());
            queue.find_next();
            queue.copy_to_slice(0, room.get_mut(..len).ok_or(EINVAL)?)?;
            queue.take(len)?;
            self.filled = self.filled.saturating_add(len);
        }
        // The window opens again.
        queue.give_back();
        Ok(())
    }

    pub(crate) fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        let mut rest = to;
        self.visit(offset, rest.len(), |run| {
            let (here, behind) = core::mem::take(&mut rest)
                .split_at_mut_checked(run.len())
                .ok_or(EINVAL)?;
            here.copy_from_slice(run);
            rest = behind;
            Ok(())
        })
    }

    pub(crate) fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        let mut done = 0;
        self.visit(offset, usize::try_from(to.len())?, |run| {
            let here = to.slice(done, u32::try_from(run.len())?).ok_or(EINVAL)?;
            // SAFETY: By its type invariants a piece is writable as long as it is there, and this
            // one is as long as `run`. The helper is compiled apart, so others may write there
            // meanwhile; nobody creates a reference to such memory, so it does not overlap `run`.
            unsafe {
                cbindings::memcpy(
                    here.address().as_ptr().cast(),
                    run.as_ptr().cast(),
                    run.len(),
                )
            };
            done = done.saturating_add(here.len());
            Ok(())
        })
    }

    pub(crate) fn crc32c(&self, mut sum: u32, offset: usize, len: usize) -> Result<u32> {
        self.visit(offset, len, |run| {
            // SAFETY: A slice is valid for reads of its length.
            sum = unsafe { cbindings::crc32c(sum, run.as_ptr().cast(), run.len()) };
            Ok(())
        })?;
        Ok(sum)
    }

    /// Calls `show` with `len` octets from `offset`, chunk by chunk. [`EINVAL`] if they are not
    /// here.
    fn visit(&self, offset: usize, len: usize, mut show: impl FnMut(&[u8]) -> Result) -> Result {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.filled {
            return Err(EINVAL);
        }
        let mut at = offset;
        while at < end {
            let chunk = self.chunks.get(at / REASSEMBLY_CHUNK).ok_or(EINVAL)?;
            let from = at % REASSEMBLY_CHUNK;
            let here = (end - at).min(REASSEMBLY_CHUNK - from);
            show(chunk.get(from..from + here).ok_or(EINVAL)?)?;
            at += here;
        }
        Ok(())
    }
}
