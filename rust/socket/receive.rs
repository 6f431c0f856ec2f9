// SPDX-License-Identifier: GPL-2.0

//! Receiving: frame after frame, each seen when all of it arrived.
//!
//! The head of a frame tells its length, which the upper layer reads. A whole frame is looked at where it lies in the receive
//! queue; one that the window is too small for is put together elsewhere ([`Assembly`]), and looks the same to who
//! receives it. Octets that a peer calls urgent are in the stream like all others.

use crate::assembly::Assembly;
use crate::queue::Queue;
use iwraw::errno::eproto;
use iwraw::memory::Piece;
use kernel::error::code::EINVAL;
use kernel::error::Result;
use kernel::time::Instant;
use kernel::time::Monotonic;

/// Octets of a head at most.
pub const MAX_HEAD: usize = 32;

/// Octets of a frame at most: a length of 16 bits, what it does not count, and markers.
pub const MAX_FRAME: usize = 66_560;

/// Octets after which the lock is given back: what arrives meanwhile waits in a backlog, which TCP bounds.
const BUDGET: usize = 65_536;

/// What is kept from one look to the next.
pub(crate) struct Inbound {
    assembly: Assembly,
    /// Since when part of a frame is there.
    since: Option<Instant<Monotonic>>,
    /// Octets that room was asked for.
    room: usize,
}

impl Inbound {
    pub(crate) const fn new() -> Self {
        Self {
            assembly: Assembly::new(),
            since: None,
            room: 0,
        }
    }

    #[inline]
    pub(crate) fn since(&self) -> Option<Instant<Monotonic>> {
        self.since
    }
}

/// What arrived, in frames. The socket's lock is held as long as this is there.
pub struct Frames<'s> {
    queue: Queue<'s>,
    inbound: &'s mut Inbound,
    /// Octets of the frames that were taken.
    taken: usize,
}

/// What there is next.
pub enum Next<'f, 's> {
    /// A frame, all of it.
    Whole(Frame<'f, 's>),
    /// Part of a frame. [`Event::Readable`](crate::Event::Readable) tells of more.
    Part,
    /// Nothing. [`Event::Readable`](crate::Event::Readable) tells of more.
    Nothing,
    /// Nothing that is whole, and no more will come: the peer closed, or the connection failed.
    End {
        /// Whether the stream ends within a frame.
        within_frame: bool,
    },
    /// Much was taken. The lock is to be given back before more is looked at.
    Budget,
}

impl<'s> Frames<'s> {
    pub(crate) fn new(queue: Queue<'s>, inbound: &'s mut Inbound) -> Self {
        Self {
            queue,
            inbound,
            taken: 0,
        }
    }

    /// Octets that arrived in order and are of no frame that was taken.
    pub fn available(&self) -> usize {
        let assembled = self.inbound.assembly.filled();
        self.queue.available().saturating_add(assembled)
    }

    /// Looks for the next frame. `length` reads from the first `head` octets how many octets the frame has in the stream.
    ///
    /// Errors of `length` are passed on: what is there is no frame, and nothing is taken. `EPROTO` if it is longer than
    /// [`MAX_FRAME`] or shorter than its head, [`EINVAL`] if `head` is 0 or longer than [`MAX_HEAD`]. `ENOMEM` if the frame had to be put
    /// together and there was no memory: nothing is lost, and no event tells when to try again.
    pub fn next<'f>(
        &'f mut self,
        head: usize,
        length: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Next<'f, 's>> {
        if self.taken >= BUDGET {
            return Ok(Next::Budget);
        }
        if head == 0 || head > MAX_HEAD {
            return Err(EINVAL);
        }
        match self.inbound.assembly.filled() {
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
            self.queue.look();
            let read = |to: &mut [u8]| self.queue.copy_to_slice(0, to);
            len = Some(frame_len(head, read, length)?);
        }
        match len {
            Some(len) if available >= len => Ok(Next::Whole(Frame {
                frames: self,
                place: Place::Queue,
                len,
            })),
            _ if self.queue.is_finished() => Ok(Next::End {
                within_frame: available > 0,
            }),
            _ if available == 0 => Ok(Next::Nothing),
            _ => {
                self.wait_for(len.unwrap_or(head))?;
                Ok(Next::Part)
            }
        }
    }

    /// Sees to it that a frame of which there is a part can arrive.
    fn wait_for(&mut self, wanted: usize) -> Result {
        self.inbound.since.get_or_insert_with(Instant::now);
        // What was taken counts against the window until it is given back.
        self.queue.give_back();
        if wanted > self.inbound.room {
            self.inbound.room = wanted;
            self.queue.make_room(wanted);
        }
        match self.queue.is_full() {
            true => self.inbound.assembly.fill(&mut self.queue, wanted),
            false => Ok(()),
        }
    }

    fn next_assembled<'f>(
        &'f mut self,
        head: usize,
        length: impl FnOnce(&[u8]) -> Result<usize>,
    ) -> Result<Next<'f, 's>> {
        let assembly = &mut self.inbound.assembly;
        let len = match assembly.len() {
            Some(len) => len,
            None => {
                assembly.fill(&mut self.queue, head)?;
                if assembly.filled() < head {
                    return Ok(self.incomplete());
                }
                let len = frame_len(head, |to| assembly.copy_to_slice(0, to), length)?;
                assembly.set_len(len);
                len
            }
        };
        assembly.fill(&mut self.queue, len)?;
        if assembly.filled() < len {
            return Ok(self.incomplete());
        }
        Ok(Next::Whole(Frame {
            frames: self,
            place: Place::Assembly,
            len,
        }))
    }

    fn incomplete<'f>(&self) -> Next<'f, 's> {
        match self.queue.is_finished() {
            true => Next::End { within_frame: true },
            false => Next::Part,
        }
    }

    /// Takes all that is there, so that closing tells the peer the end of the stream instead of resetting it. Returns how many
    /// octets.
    pub fn discard(&mut self) -> Result<usize> {
        let mut all = self.inbound.assembly.filled();
        self.inbound.assembly.clear();
        self.inbound.since = None;
        let there = self.queue.available();
        if there > 0 {
            self.queue.look();
            self.queue.take(there)?;
            self.queue.give_back();
            all = all.saturating_add(there);
        }
        Ok(all)
    }
}

/// What the head says.
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

/// Where a frame is.
#[derive(Clone, Copy)]
enum Place {
    Queue,
    Assembly,
}

/// A whole frame. Offsets count from its first octet; what is not in the frame is [`EINVAL`].
///
/// If it is not [taken](Self::take), it is the next one again.
pub struct Frame<'f, 's> {
    frames: &'f mut Frames<'s>,
    place: Place,
    len: usize,
}

impl Frame<'_, '_> {
    /// Its octets in the stream.
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
        match self.place {
            Place::Queue => self.frames.queue.copy_to_slice(offset, to),
            Place::Assembly => self.frames.inbound.assembly.copy_to_slice(offset, to),
        }
    }

    /// Copies octets from `offset` to the whole of `to`.
    pub fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        self.check(offset, usize::try_from(to.len())?)?;
        match self.place {
            Place::Queue => self.frames.queue.copy_to(offset, to),
            Place::Assembly => self.frames.inbound.assembly.copy_to(offset, to),
        }
    }

    /// CRC32C of `len` octets from `offset`; goes on from `sum`, which begins as `!0` and is inverted in the end.
    pub fn crc32c(&self, sum: u32, offset: usize, len: usize) -> Result<u32> {
        self.check(offset, len)?;
        match self.place {
            Place::Queue => self.frames.queue.crc32c(sum, offset, len),
            Place::Assembly => self.frames.inbound.assembly.crc32c(sum, offset, len),
        }
    }

    /// Takes it. The next one is behind it.
    pub fn take(self) -> Result {
        match self.place {
            Place::Queue => self.frames.queue.take(self.len)?,
            Place::Assembly => self.frames.inbound.assembly.clear(),
        }
        self.frames.inbound.since = None;
        self.frames.taken = self.frames.taken.saturating_add(self.len);
        Ok(())
    }
}
