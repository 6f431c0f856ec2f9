// SPDX-License-Identifier: GPL-2.0

//! A connection: a stream of octets to and from one peer.

use crate::hook::Events;
use crate::hook::Hooked;
use crate::owned::Protocol;
use crate::owned::Socket;
use crate::queue::Queue;
use crate::receive::Frames;
use crate::receive::Inbound;
use crate::send::Gather;
use crate::send::Octets;
use crate::send::Then;
use crate::settings::Settings;
use core::net::SocketAddr;
use iwraw::addr::Net;
use iwraw::noio::NoIo;
use kernel::error::Error;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Instant;
use kernel::time::Monotonic;

/// How a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The peer has not answered.
    Connecting,
    /// The peer may send. So may this end, unless it [said otherwise](Connection::shutdown).
    Open,
    /// The peer will send no more. What it sent before may still be there to receive, and this end may send.
    PeerClosed,
    /// Both ends are closed.
    Closed,
    /// It failed: `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, or what the network says of the peer.
    Failed(Error),
}

/// A connection.
///
/// Its owner has a worker that is the only one to send and to receive, which `&mut` sees to.
pub struct Connection<E: Events> {
    /// [`None`] once it was taken off.
    hooked: Option<Hooked<E>>,
    inbound: Inbound,
    gather: Gather,
    /// The first error that a call returned: TCP tells it once.
    error: Option<Error>,
    socket: Socket,
}

impl<E: Events> Connection<E> {
    /// Starts to connect `local` to `remote`. If the port is taken it is another one. Events go to `events` from now on, maybe
    /// before this returns; one of them tells that [`Self::state`] changed.
    ///
    /// Sleeps, but does not wait for the peer. If that is silent no event comes before TCP gives up, which
    /// [`Settings::user_timeout_ms`] bounds.
    pub fn connect(
        net: &Net,
        local: SocketAddr,
        remote: SocketAddr,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &remote, Protocol::Tcp)?;
        settings.apply(&socket)?;
        socket.bind_or_any_port(local)?;
        let connection = Self::new(socket, events)?;
        connection.socket.start_connecting(remote)?;
        Ok(connection)
    }

    /// Listens to the events of a socket.
    pub(crate) fn new(socket: Socket, events: Arc<E>) -> Result<Self> {
        let gather = Gather::new()?;
        let hooked = Some(Hooked::new(&socket, events)?);
        Ok(Self {
            hooked,
            inbound: Inbound::new(),
            gather,
            error: None,
            socket,
        })
    }

    /// For tests that send as a peer of this crate would not.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// How the connection is. Does not sleep.
    pub fn state(&self) -> State {
        let sk = self.socket.sk();
        // SAFETY: The socket is there as long as `self`. C writes these in one piece each, with a lock that is not needed to
        // read one.
        let (error, state) = unsafe {
            (
                (&raw const (*sk).sk_err).read_volatile(),
                (&raw const (*sk).__sk_common.skc_state).read_volatile(),
            )
        };
        if let Some(error) = self.error {
            return State::Failed(error);
        }
        if error != 0 {
            return State::Failed(Error::from_errno(error.saturating_neg()));
        }
        match u32::from(state) {
            iwraw::TCP_SYN_SENT | iwraw::TCP_SYN_RECV => State::Connecting,
            iwraw::TCP_ESTABLISHED | iwraw::TCP_FIN_WAIT1 | iwraw::TCP_FIN_WAIT2 => State::Open,
            iwraw::TCP_CLOSE_WAIT => State::PeerClosed,
            _ => State::Closed,
        }
    }

    /// The address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// The address of the peer. An error before and after the connection is open.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }

    /// Octets of a segment that TCP sends now: EMSS (RFC 5044, section 4.2). It changes with the path. Does not sleep.
    pub fn emss(&self) -> u32 {
        // SAFETY: The socket is there as long as `self`, and is of TCP. C writes the field in one piece.
        unsafe {
            let tcp = iwraw::tcp_sk(self.socket.sk());
            (&raw const (*tcp).mss_cache).read_volatile()
        }
    }

    /// Hands octets to TCP, which copies them. Returns how many it took: all, or fewer, if there is no more room.
    ///
    /// `EAGAIN` if there is no room at all. After that and after fewer, [`Event::Writable`](crate::Event::Writable) tells of room.
    /// `EINVAL` if the pieces are more than [`MAX_PIECES`](crate::MAX_PIECES); nothing was taken. Other errors end the connection.
    /// Sleeps for the socket's lock.
    pub fn send<'a>(
        &mut self,
        pieces: impl IntoIterator<Item = Octets<'a>>,
        then: Then,
    ) -> Result<usize> {
        let result = self.gather.send(&self.socket, pieces, then);
        self.remember(result)
    }

    /// Hands octets to TCP, which takes references to their pages where it can. For the rest as [`Self::send`].
    ///
    /// # Safety
    ///
    /// Nobody writes to the octets while somebody else has a reference to their pages. Those are no memory of the slab allocator.
    pub(crate) unsafe fn splice(&mut self, octets: Octets<'_>, then: Then) -> Result<usize> {
        // SAFETY: The caller promises it.
        let result = unsafe { self.gather.splice(&self.socket, octets, then) };
        self.remember(result)
    }

    /// Keeps an error that ended the connection.
    fn remember(&mut self, result: Result<usize>) -> Result<usize> {
        if let Err(error) = result {
            if error != EAGAIN && error != EINVAL {
                self.error.get_or_insert(error);
            }
        }
        result
    }

    /// Shows what arrived. The socket's lock is held until `look` returns; what it took is given back to TCP then.
    ///
    /// Sleeps for the lock, and for memory, but for none that somebody must send over this socket to get.
    pub fn receive<R>(&mut self, look: impl FnOnce(&mut Frames<'_>) -> R) -> R {
        let _noio = NoIo::new();
        let queue = Queue::new(self.socket.lock());
        look(&mut Frames::new(queue, &mut self.inbound))
    }

    /// Since when part of a frame is there, as [`Self::receive`] saw it. [`None`]: there is no part.
    pub fn waiting_since(&self) -> Option<Instant<Monotonic>> {
        self.inbound.since()
    }

    /// Tells the peer that no more is sent, behind what was. Sleeps for the socket's lock.
    pub fn shutdown(&self) {
        // SAFETY: The socket is there as long as `self`. An error means that there is no connection.
        unsafe {
            iwraw::kernel_sock_shutdown(self.socket.as_raw(), iwraw::sock_shutdown_cmd_SHUT_WR)
        };
    }

    /// Ends the events: none is told when this returns. Whoever was told is given back. Sleeps.
    ///
    /// [`None`] if it was called before.
    pub fn detach(&mut self) -> Option<Arc<E>> {
        Some(self.hooked.take()?.take_off(&self.socket))
    }

    /// Ends the connection with a reset, without delivering what was sent. Sleeps.
    ///
    /// Dropping delivers it, if all that arrived was received.
    pub fn abort(self) {
        self.abort_when_dropped();
    }

    /// Has dropping end the connection as [`Self::abort`] does. Sleeps.
    pub fn abort_when_dropped(&self) {
        // SAFETY: The socket is there as long as `self`.
        unsafe { iwraw::sock_no_linger(self.socket.sk()) };
    }
}

impl<E: Events> Drop for Connection<E> {
    fn drop(&mut self) {
        self.detach();
    }
}
