// SPDX-License-Identifier: GPL-2.0

//! An SCTP association with one peer.
//!
//! SCTP wakes sleepers of the socket instead of calling `sk_write_space`, so an entry in their
//! queue reports space in the send buffer.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use crate::prelude::*;
use crate::SendBuf;
use crate::{
    callbacks::{
        CallbackGuard,
        Event, //
    },
    sctp::{
        addresses,
        queue::{
            Head,
            ReceiveQueue, //
        },
        Notification,
        SendInfo,
        Settings, //
    }, //
    send::SendVec,
};
use core::{
    mem::offset_of,
    sync::atomic::AtomicBool, //
};
use ext::{
    borrowed::Piece,
    errno::emsgsize, //
};
use kernel::types::Opaque;

/// The outcome of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There is nothing. [`Event::Readable`] reports something.
    Nothing,
    /// The peer will send no more.
    End,
    /// User data of a chunk, which stay where they are until they are [taken](Association::take).
    Chunk {
        /// Their length in octets.
        len: usize,
        /// The stream that it was sent on.
        stream: u16,
        /// The payload protocol identifier, in host order.
        ppid: u32,
        /// The chunk was sent for unordered delivery.
        unordered: bool,
        /// The chunk ends with them. Otherwise the rest comes next.
        whole: bool,
    },
    /// A notification of SCTP, which is taken.
    Notification(Notification),
}

/// The outcome of sending a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// SCTP has it.
    Done,
    /// There is no space. [`Event::Writable`] reports some, except after a
    /// shortage of memory.
    Full,
    /// It is longer than [`Association::fragmentation_point`].
    TooLong,
}

/// An association.
///
/// Its owner has a worker that is the only one to send and to receive, which `&mut` guarantees.
pub struct Association<E: Events> {
    /// [`None`] once the callbacks are restored.
    callbacks: Option<(CallbackGuard<E>, WriteSpace<E>)>,
    queue: ReceiveQueue,
    socket: Socket,
    vectors: SendVec,
}

/// The octets of a notification that are looked at.
const NOTIFICATION_LEN: usize = 64;

impl<E: Events> Association<E> {
    /// Starts to connect `local`, which the peer is offered with [secondary
    /// addresses](super::check_addresses), to `remote`. If the port is in use, another one is
    /// chosen. Events go to `events` from now on, maybe before this returns; a [`Notification`]
    /// reports the outcome.
    ///
    /// Sleeps, but does not wait for the peer.
    pub fn connect(
        net: &Net,
        local: SocketAddr,
        remote: SocketAddr,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &remote, Protocol::Sctp)?;
        settings.apply(&socket)?;
        socket.bind_or_any_port(local)?;
        addresses::bind_secondary(&socket, local);
        let association = Self::new(socket, events)?;
        association.socket.start_connecting(remote)?;
        Ok(association)
    }

    /// Replaces the callbacks of a socket.
    pub(super) fn new(socket: Socket, events: Arc<E>) -> Result<Self> {
        let vectors = SendVec::new()?;
        // After a failure the socket is released, and so must not have the wait queue entry: the
        // callbacks come first, and are restored again.
        let callbacks = CallbackGuard::new(&socket, events.clone())?;
        match WriteSpace::new(&socket, events) {
            Ok(write_space) => Ok(Self {
                callbacks: Some((callbacks, write_space)),
                queue: ReceiveQueue::new(),
                socket,
                vectors,
            }),
            Err(error) => {
                callbacks.restore(&socket);
                Err(error)
            }
        }
    }

    /// Returns what has arrived first: a notification, or the same chunk until it is
    /// [taken](Self::take). Sleeps for the socket's lock.
    ///
    /// An error is the association's.
    pub fn receive(&mut self) -> Result<Received> {
        let packet = match self.queue.first(&self.socket)? {
            Head::Packet(packet) => packet,
            Head::Nothing => return Ok(Received::Nothing),
            Head::End => return Ok(Received::End),
        };
        let info = packet.info();
        if !info.is_notification {
            return Ok(Received::Chunk {
                len: packet.len(),
                stream: info.stream,
                ppid: info.ppid,
                unordered: info.unordered,
                whole: info.ends,
            });
        }
        let mut octets = [0; NOTIFICATION_LEN];
        let len = packet.begin(&mut octets)?;
        self.take()?;
        let octets = octets.get(..len).unwrap_or_default();
        Ok(Received::Notification(Notification::parse(octets)))
    }

    /// Copies octets of the chunk that was [received](Self::receive), from `offset` on, to the
    /// whole of `to`. An error if it has fewer. Does not sleep.
    pub fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        self.queue.copy_to_slice(offset, to)
    }

    /// Copies octets of the chunk that was [received](Self::receive), from `offset` on, to the
    /// whole of `to`. An error if it has fewer. Does not sleep.
    pub fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        self.queue.copy_to(offset, to)
    }

    /// Takes the chunk that was [received](Self::receive): the peer may send as much again. Sleeps
    /// for the socket's lock.
    ///
    /// An error is the association's.
    pub fn take(&mut self) -> Result {
        self.queue.take(&self.socket)
    }

    /// Requests one [`Event::Writable`] when chunks are acknowledged or
    /// there is more space. Returns true if that was not requested before: then it may have
    /// happened already. Does not sleep.
    pub fn request_write_space(&self) -> bool {
        self.callbacks
            .as_ref()
            .is_some_and(|(_, write_space)| write_space.request())
    }

    /// Sends a chunk, unordered, on stream 0. SCTP copies it. Sleeps, but does not wait for the
    /// peer.
    ///
    /// An error is the association's.
    pub fn send(&mut self, ppid: u32, chunk: &[u8]) -> Result<Sent> {
        self.send_pieces(ppid, [SendBuf::from(chunk)])
    }

    /// Does the same with a chunk in [at most so many](crate::MAX_PIECES) pieces. Others may write
    /// to those meanwhile: SCTP has a checksum of what it has copied only.
    pub fn send_pieces<'a>(
        &mut self,
        ppid: u32,
        pieces: impl IntoIterator<Item = SendBuf<'a>> + Clone,
    ) -> Result<Sent> {
        loop {
            return match self.send_chunk(ppid, pieces.clone()) {
                Ok(()) => Ok(Sent::Done),
                Err(error) if error == EAGAIN => {
                    // There may be space since it was refused, which nobody reported.
                    if self.request_write_space() {
                        continue;
                    }
                    Ok(Sent::Full)
                }
                Err(error) if error == emsgsize() => Ok(Sent::TooLong),
                // SCTP has taken nothing, and the association is intact.
                Err(error) if error == ENOMEM => Ok(Sent::Full),
                Err(error) => Err(error),
            };
        }
    }

    fn send_chunk<'a>(
        &mut self,
        ppid: u32,
        pieces: impl IntoIterator<Item = SendBuf<'a>>,
    ) -> Result {
        let mut info = SendInfo::new(ppid);
        let mut message = cbindings::msghdr {
            msg_flags: cbindings::MSG_DONTWAIT | cbindings::MSG_NOSIGNAL,
            ..Default::default()
        };
        info.attach(&mut message);
        let socket = &self.socket;
        self.vectors.with(pieces, |vectors, total| {
            // SAFETY: `self` owns the socket. C reads `info`, and the octets that the vectors
            // describe, `total` together, during the call, and keeps no pointer to them: they came
            // from `SendBuf` whose lifetime is longer than this call.
            let taken = unsafe {
                cbindings::kernel_sendmsg(
                    socket.as_raw(),
                    &mut message,
                    vectors.as_mut_ptr(),
                    vectors.len(),
                    total,
                )
            };
            match usize::try_from(taken) {
                Ok(_) => Ok(()),
                Err(_) => Err(Error::from_errno(taken)),
            }
        })
    }

    /// Returns the number of octets of user data that SCTP sends in one chunk now, as far as the
    /// path is known. 0 without an association. Sleeps for the socket's lock.
    pub fn fragmentation_point(&self) -> u32 {
        let locked = self.socket.lock();
        // SAFETY: `locked` is a live SCTP socket whose lock is held.
        unsafe { cbindings::sctp_frag_point(locked.sk()) }
    }

    /// Returns the number of octets of the send buffer that unacknowledged chunks take; each takes
    /// more than 512. Does not sleep.
    ///
    /// As nobody else sends, it only falls until the next [`send`](Self::send).
    pub fn unacknowledged(&self) -> u32 {
        let sk = self.socket.sk();
        // SAFETY: `self` owns the socket, and C writes the field in one piece.
        let queued = unsafe { (&raw const (*sk).sk_wmem_queued).read_volatile() };
        u32::try_from(queued).unwrap_or(0)
    }

    /// Returns the reason why there is no association: `ECONNREFUSED`, `ETIMEDOUT`, or an error of
    /// the network. Does not sleep.
    pub fn error(&self) -> Option<Error> {
        let sk = self.socket.sk();
        // SAFETY: `self` owns the socket, and C writes the field in one piece.
        let error = unsafe { (&raw const (*sk).sk_err).read_volatile() };
        (error != 0).then(|| Error::from_errno(error.saturating_neg()))
    }

    /// Returns the address of this end, or another one that it has.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Ends the association when the peer has everything that was sent. Sleeps for the socket's
    /// lock.
    pub fn shutdown(&self) {
        self.socket.shutdown_send();
    }

    /// Limits how often what the peer does not acknowledge is sent again from now on, also when it
    /// is dropped and SCTP continues alone. Sleeps for the socket's lock.
    pub fn limit_delivery(&self, retransmissions: u16) {
        let limit = cbindings::sctp_assocparams {
            sasoc_asocmaxrxt: retransmissions,
            ..Default::default()
        };
        // An error means that the association has ended.
        let _ = self
            .socket
            .set_option(cbindings::IPPROTO_SCTP, cbindings::SCTP_ASSOCINFO, &limit);
    }

    /// Ends the events: none is reported when this returns. Sleeps.
    fn detach(&mut self) {
        if let Some((callbacks, write_space)) = self.callbacks.take() {
            write_space.restore(&self.socket);
            callbacks.restore(&self.socket);
        }
    }

    /// Aborts the association, without delivery of sent chunks. Sleeps.
    ///
    /// Dropping shuts it down, if all received chunks were read, and else aborts it.
    pub fn abort(self) {
        self.abort_when_dropped();
    }

    /// Makes dropping end the association as [`Self::abort`] does. Sleeps.
    pub fn abort_when_dropped(&self) {
        self.socket.abort_when_released();
    }
}

impl<E: Events> Drop for Association<E> {
    fn drop(&mut self) {
        self.detach();
    }
}

/// An entry of a wait queue, which never sleeps.
#[pin_data]
struct WaitEntry<E: Events> {
    #[pin]
    entry: Opaque<cbindings::wait_queue_entry>,
    requested: AtomicBool,
    events: Arc<E>,
}

/// Reports space in the send buffer of a socket, until [`Self::restore`].
///
/// # Invariants
///
/// The entry is in the wait queue of the socket that it was made for.
#[must_use]
struct WriteSpace<E: Events> {
    entry: Pin<KBox<WaitEntry<E>>>,
}

// SAFETY: C takes the lock of the queue for an entry, and `E` may be sent.
unsafe impl<E: Events> Send for WriteSpace<E> {}
// SAFETY: C takes the lock of the queue for an entry; `&WriteSpace` gives access to an atomic flag.
unsafe impl<E: Events> Sync for WriteSpace<E> {}

impl<E: Events> WriteSpace<E> {
    /// Adds an entry to the wait queue. Sleeps for memory.
    fn new(socket: &Socket, events: Arc<E>) -> Result<Self> {
        let entry = KBox::pin_init(
            pin_init!(WaitEntry {
                // SAFETY: `Opaque::ffi_init` passes a valid pointer to pinned memory.
                entry <- Opaque::ffi_init(|slot| unsafe {
                    cbindings::init_waitqueue_func_entry(slot, Some(woken::<E>))
                }),
                requested: AtomicBool::new(false),
                events,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `socket` owns the socket, and `restore`, which its owner calls before it is
        // released, takes the entry out again. The entry is pinned, and freed after that.
        unsafe {
            let queue = &raw mut (*socket.as_raw()).wq.wait;
            cbindings::add_wait_queue(queue, entry.entry.get());
        }
        // INVARIANT: The entry was just added.
        Ok(Self { entry })
    }

    /// Requests one event when there is space. Returns true if that was not requested before: then
    /// there may be space already.
    fn request(&self) -> bool {
        !self.entry.requested.swap(true, Ordering::SeqCst)
    }

    /// Removes the entry. `socket` is the one that it was made for.
    fn restore(self, socket: &Socket) {
        // SAFETY: By the type invariants the entry is in that queue. C takes the queue's lock,
        // under which the entry's function is called.
        unsafe {
            let queue = &raw mut (*socket.as_raw()).wq.wait;
            cbindings::remove_wait_queue(queue, self.entry.entry.get());
        }
    }
}

/// Handles a wake-up. Called with the queue's lock held, in any context.
///
/// # Safety
///
/// `entry` is that of a [`WaitEntry`] for the same `E`, which is in a queue whose lock is held.
unsafe extern "C" fn woken<E: Events>(
    entry: *mut cbindings::wait_queue_entry,
    _: u32,
    _: i32,
    _: *mut c_void,
) -> i32 {
    // SAFETY: The caller promises it; `Opaque` has the layout of its content.
    let this = unsafe {
        &*entry
            .byte_sub(offset_of!(WaitEntry<E>, entry))
            .cast::<WaitEntry<E>>()
    };
    if this.requested.swap(false, Ordering::SeqCst) {
        this.events.event(Event::Writable);
    }
    // No sleeper was woken that counts.
    0
}
