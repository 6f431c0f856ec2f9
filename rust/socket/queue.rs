// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a socket, examined without taking anything from it.
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h)
//!
//! `tcp_recv_skb` finds the first octet that was not taken; asked for a later one it would free the
//! packets before that. So it is asked for that one only, and from there the list of packets is
//! walked. Packets of the list may overlap, as TCP keeps a segment that repeats some octets: each
//! is entered at the sequence number that follows.
//!
//! While the socket's lock is held nobody else changes the list: packets that arrive wait in the
//! backlog. Octets are given back to TCP together, when the owner is done. Until then a position in
//! a packet stays valid.

use crate::prelude::*;
use crate::socket::Locked;
use ext::borrowed::Piece;

/// The receive queue of a socket whose lock is held.
///
/// # Invariants
///
/// The packet of `at` is in the queue: only [`Self::find_next`] and [`Self::give_back`] let C free
/// packets, the first only if there is no `at`, and the second clears it.
pub(crate) struct ReceiveQueue<'s> {
    locked: Locked<'s>,
    at: Option<Position>,
    /// The number of octets that were taken, and are still in the queue.
    taken: usize,
}

/// A position in the stream, in a packet or in one that follows.
///
/// It has no reference to a packet, which C may change, but only the pointer.
#[derive(Clone, Copy)]
struct Position {
    skb: NonNull<cbindings::sk_buff>,
    seq: u32,
}

/// Octets of one packet, from `offset`.
struct Run {
    skb: *const cbindings::sk_buff,
    offset: i32,
    len: i32,
}

impl<'s> ReceiveQueue<'s> {
    pub(crate) fn new(locked: Locked<'s>) -> Self {
        // INVARIANT: There is no `at`.
        Self {
            locked,
            at: None,
            taken: 0,
        }
    }

    /// Returns the number of octets that arrived in order, and were not taken.
    pub(crate) fn available(&self) -> usize {
        // SAFETY: `locked` is a live socket whose lock is held.
        let there = unsafe { cbindings::tcp_inq(self.locked.sk()) };
        usize::try_from(there)
            .unwrap_or(0)
            .saturating_sub(self.taken)
    }

    /// Returns whether no more octets will arrive.
    pub(crate) fn is_finished(&self) -> bool {
        // SAFETY: `locked` is a live socket whose lock is held.
        let shutdown = unsafe { (&raw const (*self.locked.sk()).sk_shutdown).read() };
        u32::from(shutdown) & cbindings::RCV_SHUTDOWN != 0
    }

    /// Returns whether TCP has no space for more until some octets are taken: the window is closed,
    /// the buffer full, or memory short.
    pub(crate) fn is_full(&self) -> bool {
        // SAFETY: `locked` is a live socket whose lock is held. No number of octets is enough: only
        // pressure makes it true.
        unsafe { cbindings::tcp_epollin_ready(self.locked.sk(), i32::MAX) }
    }

    /// Enlarges the receive buffer for `octets`, if the system's limits and the owner's settings
    /// allow it.
    pub(crate) fn enlarge_buffer(&self, octets: usize) {
        let Ok(octets) = i32::try_from(octets) else {
            return;
        };
        // SAFETY: `locked` is a live socket whose lock is held, and its table of functions is
        // constant. Callbacks run with the lock held, as they may be (the module `callbacks`). An
        // error leaves the buffer as it was, which is no worse than before.
        unsafe {
            if let Some(set_rcvlowat) = (*(*self.locked.socket()).ops).set_rcvlowat {
                set_rcvlowat(self.locked.sk(), octets);
            }
            // Only the space is wanted. With the mark, the last octets of a stream could lie there
            // without an event.
            (&raw mut (*self.locked.sk()).sk_rcvlowat).write_volatile(1);
        }
    }

    /// Finds the next octet that was not taken. To be called before octets are copied.
    pub(crate) fn find_next(&mut self) {
        if self.at.is_some() {
            return;
        }
        let mut offset = 0;
        // SAFETY: `locked` is a live socket whose lock is held. Asked for the first octet that is
        // not given back, C frees only packets that have none behind it; there is no `at`.
        let (skb, seq) = unsafe {
            let seq = (&raw const (*cbindings::tcp_sk(self.locked.sk())).copied_seq).read();
            let skb = cbindings::tcp_recv_skb(self.locked.sk(), seq, &mut offset);
            (skb, seq)
        };
        // INVARIANT: C found it in the queue.
        self.at = NonNull::new(skb).map(|skb| Position { skb, seq });
    }

    /// Copies octets, the first of which is `offset` behind the next one, to the whole of `to`.
    pub(crate) fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes during the call.
        unsafe { self.copy(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies octets, the first of which is `offset` behind the next one, to the whole of `to`.
    pub(crate) fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        // SAFETY: By its type invariants a piece is writable as long as it is there; others may
        // write there meanwhile, as the copy is made by C.
        unsafe { self.copy(offset, to.address().as_ptr(), usize::try_from(to.len())?) }
    }

    /// # Safety
    ///
    /// `to` is valid for writes of `len` octets.
    unsafe fn copy(&self, offset: usize, to: *mut u8, len: usize) -> Result {
        let mut done = 0;
        self.visit(offset, len, |run| {
            // SAFETY: By the type invariants the packet has these octets. The caller promises room
            // for `len`, of which `done` are written, and the runs have `len` together.
            to_result(unsafe {
                cbindings::skb_copy_bits(run.skb, run.offset, to.add(done).cast(), run.len)
            })?;
            done = done.saturating_add(usize::try_from(run.len)?);
            Ok(())
        })?;
        Ok(())
    }

    /// Returns the CRC32C of `len` octets, the first of which is `offset` behind the next one,
    /// continued from `sum`.
    pub(crate) fn crc32c(&self, mut sum: u32, offset: usize, len: usize) -> Result<u32> {
        self.visit(offset, len, |run| {
            // SAFETY: By the type invariants the packet has these octets.
            sum = unsafe { cbindings::skb_crc32c(run.skb, run.offset, run.len, sum) };
            Ok(())
        })?;
        Ok(sum)
    }

    /// Takes `len` octets. They are given back later.
    pub(crate) fn take(&mut self, len: usize) -> Result {
        self.at = Some(self.visit(0, len, |_| Ok(()))?);
        self.taken = self.taken.saturating_add(len);
        Ok(())
    }

    /// Gives the octets that were taken back to TCP, which tells the peer that there is space.
    pub(crate) fn give_back(&mut self) {
        self.at = None;
        if self.taken == 0 {
            return;
        }
        // SAFETY: `locked` is a live socket whose lock is held. C frees packets, to which nothing
        // points any more.
        unsafe { cbindings::tcp_read_done(self.locked.sk(), self.taken) };
        self.taken = 0;
    }

    /// Calls `show` with `len` octets, the first of which is `offset` behind the next one, packet
    /// by packet. Returns the position behind them.
    ///
    /// [`EIO`] if they are not there: TCP does not leave gaps.
    fn visit(
        &self,
        offset: usize,
        len: usize,
        mut show: impl FnMut(Run) -> Result,
    ) -> Result<Position> {
        let mut at = self.at.ok_or(EIO)?;
        at.seq = at.seq.wrapping_add(u32::try_from(offset)?);
        let mut left = u32::try_from(len)?;
        while left > 0 {
            let skb = at.skb.as_ptr();
            // SAFETY: By the type invariants and `next`, the packet is in the queue of a socket
            // whose lock is held.
            let (behind, here) = unsafe {
                let begin = (&raw const (*cbindings::TCP_SKB_CB(skb)).seq).read();
                (at.seq.wrapping_sub(begin), (&raw const (*skb).len).read())
            };
            match here.checked_sub(behind) {
                Some(here) if here > 0 => {
                    let len = here.min(left);
                    show(Run {
                        skb,
                        offset: i32::try_from(behind)?,
                        len: i32::try_from(len)?,
                    })?;
                    at.seq = at.seq.wrapping_add(len);
                    left = left.saturating_sub(len);
                }
                // The packet ends before the octet, and maybe some that follow.
                _ if i32::try_from(behind).is_ok() => at.skb = self.next(at.skb)?,
                // It begins behind the octet.
                _ => return Err(EIO),
            }
        }
        Ok(at)
    }

    /// Returns the packet that follows one of the queue. [`EIO`] if there is none.
    fn next(&self, skb: NonNull<cbindings::sk_buff>) -> Result<NonNull<cbindings::sk_buff>> {
        // SAFETY: `locked` is a live socket whose lock is held, and `skb` is in its queue.
        let next = unsafe {
            let queue = &raw const (*self.locked.sk()).sk_receive_queue;
            cbindings::skb_peek_next(skb.as_ptr(), queue)
        };
        NonNull::new(next).ok_or(EIO)
    }
}

impl Drop for ReceiveQueue<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
