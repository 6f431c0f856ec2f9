// SPDX-License-Identifier: GPL-2.0

//! The receive queue of an association, examined without taking anything from it.
//!
//! C headers: [`include/net/sctp/ulpevent.h`](srctree/include/net/sctp/ulpevent.h),
//! [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)
//!
//! SCTP appends whole chunks and notifications, each a packet, with the socket's lock held, and
//! changes none that is in the queue. Whoever receives takes the first one. Until it does, a packet
//! stays as it is, so its octets are read without the lock, and several are looked up at a time. It
//! is taken by a call to SCTP that receives all of it and copies nothing: SCTP tells the peer then
//! that there is space.

use crate::prelude::*;
use crate::socket::Locked;
use core::marker::PhantomData;
use ext::borrowed::Piece;

/// Packets that are looked up with the lock taken once.
const LOOK: usize = 16;

/// The first packets of the receive queue of an association.
///
/// # Invariants
///
/// `seen` from `at` to `count` are the first packets of the queue, in its order. Nobody but the
/// owner receives, so only [`Self::take`] removes packets: it removes the first one.
pub(super) struct ReceiveQueue {
    seen: [*mut cbindings::sk_buff; LOOK],
    at: usize,
    count: usize,
}

// SAFETY: Packets in a queue belong to no task.
unsafe impl Send for ReceiveQueue {}
// SAFETY: `&ReceiveQueue` gives access to octets of packets that nobody changes.
unsafe impl Sync for ReceiveQueue {}

/// The first packet, or the reason why there is none.
pub(super) enum Head<'q> {
    /// A chunk, as much of it as has arrived, or a notification.
    Packet(Packet<'q>),
    /// Nothing.
    Nothing,
    /// The peer will send no more.
    End,
}

impl ReceiveQueue {
    /// Creates one that has seen nothing yet.
    pub(super) const fn new() -> Self {
        // INVARIANT: There is none.
        Self {
            seen: [core::ptr::null_mut(); LOOK],
            at: 0,
            count: 0,
        }
    }

    /// Returns the packet that was found last, if it was not taken.
    fn current(&self) -> Option<Packet<'_>> {
        let skb = self.seen.get(self.at..self.count)?.first()?;
        // INVARIANT: By the type invariants it is in the queue until it is taken, which takes
        // `&mut self`.
        Some(Packet {
            skb: NonNull::new(*skb)?,
            _queue: PhantomData,
        })
    }

    /// Finds the first packet of `socket`, which is the same at each call. Sleeps for the socket's
    /// lock, if it was not seen before. An error is the association's.
    pub(super) fn first(&mut self, socket: &Socket) -> Result<Head<'_>> {
        if self.at == self.count {
            let locked = socket.lock();
            let sk = locked.sk();
            self.look(&locked);
            // SAFETY: `locked` is a live socket whose lock is held.
            let (state, error, shutdown) = unsafe {
                (
                    (&raw const (*sk).__sk_common.skc_state).read_volatile(),
                    (&raw const (*sk).sk_err).read_volatile(),
                    (&raw const (*sk).sk_shutdown).read(),
                )
            };
            // CAST: A small number. Before there is an association, the notification of its failure
            // comes first.
            if self.count == 0 && state != cbindings::TCP_SYN_SENT as u8 {
                if error != 0 {
                    return Err(Error::from_errno(error.saturating_neg()));
                }
                if u32::from(shutdown) & cbindings::RCV_SHUTDOWN != 0 {
                    return Ok(Head::End);
                }
            }
        }
        Ok(self.current().map_or(Head::Nothing, Head::Packet))
    }

    /// Looks up the first packets. To be called when all that were seen were taken.
    fn look(&mut self, locked: &Locked<'_>) {
        (self.at, self.count) = (0, 0);
        // SAFETY: `locked` is a live socket, whose queue is there as long as it.
        let queue = unsafe { &raw const (*locked.sk()).sk_receive_queue };
        // SAFETY: SCTP changes the queue with the socket's lock held, which `locked` has.
        let mut next = unsafe { cbindings::skb_peek(queue) };
        for seen in &mut self.seen {
            if next.is_null() {
                break;
            }
            *seen = next;
            // INVARIANT: It is the one behind those that are in `seen`.
            self.count = self.count.saturating_add(1);
            // SAFETY: As above, and C just found the packet in this queue.
            next = unsafe { cbindings::skb_peek_next(next, queue) };
        }
    }

    /// Copies octets of the packet that was found last, from `offset` on, to the whole of `to`.
    /// An error if it has fewer.
    pub(super) fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        let packet = self.current().ok_or(EINVAL)?;
        // SAFETY: The slice is valid for writes during the call.
        unsafe { packet.copy(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Does the same with memory of a consumer.
    pub(super) fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        let packet = self.current().ok_or(EINVAL)?;
        // SAFETY: By its type invariants a piece is writable as long as it is there; others may
        // write there meanwhile, as the copy is made by C.
        unsafe { packet.copy(offset, to.address().as_ptr(), usize::try_from(to.len())?) }
    }

    /// Takes the packet that was found last out of the queue of `socket`. Sleeps for the socket's
    /// lock. An error is the association's.
    pub(super) fn take(&mut self, socket: &Socket) -> Result {
        let len = self.current().ok_or(EINVAL)?.len();
        let taken = discard(socket, len);
        // INVARIANT: If SCTP has taken so many octets, that was this packet, and if not, nothing
        // counts as seen.
        self.at = self.at.saturating_add(1);
        if taken.is_err() {
            self.count = self.at;
        }
        taken
    }
}

/// Receives a packet of `len` octets of `socket`, which go nowhere.
fn discard(socket: &Socket, len: usize) -> Result {
    let mut message = cbindings::msghdr::default();
    // SAFETY: C fills in the iterator, which has no memory.
    unsafe {
        cbindings::iov_iter_discard(&mut message.msg_iter, cbindings::ITER_DEST, len);
    }
    // CAST: The flag is a small number. SAFETY: `socket` owns the socket. There is no memory that C
    // would write to.
    let received = unsafe {
        let flags = cbindings::MSG_DONTWAIT as i32;
        cbindings::sock_recvmsg(socket.as_raw(), &mut message, flags)
    };
    match usize::try_from(received) {
        Ok(received) if received == len => Ok(()),
        Ok(_) => Err(EIO),
        Err(_) => Err(Error::from_errno(received)),
    }
}

/// A packet of a receive queue, as SCTP describes it.
pub(super) struct Info {
    /// The stream that it was sent on.
    pub(super) stream: u16,
    /// The payload protocol identifier, in host order.
    pub(super) ppid: u32,
    /// It was sent for unordered delivery.
    pub(super) unordered: bool,
    /// The chunk ends with it.
    pub(super) ends: bool,
    /// It is a notification, and no chunk.
    pub(super) is_notification: bool,
}

/// A packet of a receive queue.
///
/// # Invariants
///
/// `skb` is in the queue, and nobody takes it, as long as `'q`.
pub(super) struct Packet<'q> {
    skb: NonNull<cbindings::sk_buff>,
    _queue: PhantomData<&'q ReceiveQueue>,
}

impl Packet<'_> {
    /// Returns its length in octets.
    pub(super) fn len(&self) -> usize {
        // SAFETY: By the type invariants the packet is there, and nobody changes it.
        let len = unsafe { (&raw const (*self.skb.as_ptr()).len).read() };
        // CAST: A `usize` has at least 32 bits here.
        len as usize
    }

    /// Returns how SCTP describes it.
    pub(super) fn info(&self) -> Info {
        let mut info = cbindings::sctp_rcvinfo::default();
        // SAFETY: By the type invariants the packet is in the queue of an SCTP socket, and nobody
        // changes it.
        let flags = unsafe { cbindings::sctp_skb_info(self.skb.as_ptr(), &mut info) };
        let has = |flags: u16, flag: u32| u32::from(flags) & flag != 0;
        Info {
            stream: info.rcv_sid,
            ppid: u32::from_be(info.rcv_ppid),
            unordered: has(info.rcv_flags, cbindings::sctp_sinfo_flags_SCTP_UNORDERED),
            ends: has(flags, cbindings::MSG_EOR),
            is_notification: has(flags, cbindings::sctp_msg_flags_MSG_NOTIFICATION),
        }
    }

    /// Copies its first octets to `to`, as many as there are and fit. Returns their number.
    pub(super) fn begin(&self, to: &mut [u8]) -> Result<usize> {
        let len = self.len().min(to.len());
        // SAFETY: The slice is valid for writes of so many octets during the call.
        unsafe { self.copy(0, to.as_mut_ptr(), len) }?;
        Ok(len)
    }

    /// # Safety
    ///
    /// `to` is valid for writes of `len` octets.
    unsafe fn copy(&self, offset: usize, to: *mut u8, len: usize) -> Result {
        let (offset, len) = (i32::try_from(offset)?, i32::try_from(len)?);
        // SAFETY: By the type invariants the packet is there, and nobody changes it. C refuses if
        // it has fewer octets. The caller promises room for `len`.
        to_result(unsafe { cbindings::skb_copy_bits(self.skb.as_ptr(), offset, to.cast(), len) })
    }
}
