// SPDX-License-Identifier: GPL-2.0

//! A TCP connection: a stream of octets to and from one peer.

use crate::prelude::*;
use crate::{
    callbacks::CallbackGuard,
    queue::ReceiveQueue,
    receive::{
        Frames,
        ReceiveState, //
    },
    send::{
        SendBuf,
        SendVec,
        Then, //
    }, //
};
use ext::alloc_scope::NoIo;
use kernel::time::{
    Instant,
    Monotonic, //
};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnState {
    /// The peer has not answered.
    Connecting,
    /// The peer may send. So may this end, unless it [shut down](TcpConn::shutdown).
    Open,
    /// The peer sends no more. Earlier octets may still be there to receive, and this end may send.
    PeerClosed,
    /// Both ends are closed.
    Closed,
    /// It failed: `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, or what the network says of the peer.
    Failed(Error),
}

/// A TCP connection.
///
/// Its owner has a worker that is the only one to send and to receive, which `&mut` guarantees.
///
/// # Examples
///
/// ```
/// # use core::net::SocketAddr;
/// # use kernel::{prelude::*, sync::Arc};
/// use socket::{
///     Events,
///     Net,
///     SendBuf,
///     Settings,
///     TcpConn,
///     Then, //
/// };
///
/// /// Begins to connect. `events` is notified when that is done.
/// fn begin<E: Events>(
///     net: &Net,
///     local: SocketAddr,
///     peer: SocketAddr,
///     events: Arc<E>,
/// ) -> Result<TcpConn<E>> {
///     TcpConn::connect(net, local, peer, &Settings::default(), events)
/// }
///
/// /// Sends what TCP takes of `octets`. Returns the rest, for which an event will report space.
/// fn send<'a, E: Events>(connection: &mut TcpConn<E>, octets: &'a [u8]) -> Result<&'a [u8]> {
///     match connection.send([SendBuf::from(octets)], Then::Push) {
///         Ok(taken) => octets.get(taken..).ok_or(EINVAL),
///         Err(error) if error == EAGAIN => Ok(octets),
///         Err(error) => Err(error),
///     }
/// }
/// ```
pub struct TcpConn<E: Events> {
    /// [`None`] once the callbacks are restored.
    callbacks: Option<CallbackGuard<E>>,
    receive_state: ReceiveState,
    send_vec: SendVec,
    /// The first error that a call returned: TCP reports it once.
    error: Option<Error>,
    socket: Socket,
}

impl<E: Events> TcpConn<E> {
    /// Starts to connect `local` to `remote`. If the port is in use, another one is chosen. Events
    /// go to `events` from now on, maybe before this returns; one of them reports that
    /// [`Self::state`] changed.
    ///
    /// Sleeps, but does not wait for the peer. If that is silent no event comes before TCP gives
    /// up, which [`Settings::user_timeout_ms`] limits.
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

    /// Replaces the callbacks of a socket.
    pub(crate) fn new(socket: Socket, events: Arc<E>) -> Result<Self> {
        let send_vec = SendVec::new()?;
        let callbacks = Some(CallbackGuard::new(&socket, events)?);
        Ok(Self {
            callbacks,
            receive_state: ReceiveState::new(),
            send_vec,
            error: None,
            socket,
        })
    }

    /// Returns the socket, for tests that send as a peer of this crate would not.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the state of the connection. Does not sleep.
    pub fn state(&self) -> ConnState {
        let sk = self.socket.sk();
        // SAFETY: `self` owns the socket. C writes each of these fields in one piece, under a lock
        // that is not needed to read one.
        let (error, state) = unsafe {
            (
                (&raw const (*sk).sk_err).read_volatile(),
                (&raw const (*sk).__sk_common.skc_state).read_volatile(),
            )
        };
        if let Some(error) = self.error {
            return ConnState::Failed(error);
        }
        if error != 0 {
            return ConnState::Failed(Error::from_errno(error.saturating_neg()));
        }
        match u32::from(state) {
            cbindings::TCP_SYN_SENT | cbindings::TCP_SYN_RECV => ConnState::Connecting,
            cbindings::TCP_ESTABLISHED | cbindings::TCP_FIN_WAIT1 | cbindings::TCP_FIN_WAIT2 => {
                ConnState::Open
            }
            cbindings::TCP_CLOSE_WAIT => ConnState::PeerClosed,
            _ => ConnState::Closed,
        }
    }

    /// Returns the address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Returns the address of the peer. Fails before and after the connection is open.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }

    /// Returns the length in octets of a segment that TCP sends now: EMSS (RFC 5044, section 4.2).
    /// It changes with the path. Does not sleep.
    pub fn emss(&self) -> u32 {
        // SAFETY: `self` owns the socket, which is one of TCP. C writes the field in one piece.
        unsafe {
            let tcp = cbindings::tcp_sk(self.socket.sk());
            (&raw const (*tcp).mss_cache).read_volatile()
        }
    }

    /// Hands octets to TCP, which copies them. Returns the number that it took: all, or fewer, if
    /// there is no more space.
    ///
    /// `EAGAIN` if there is no space at all. After that and after fewer,
    /// [`Event::Writable`](crate::Event::Writable) reports space. `EINVAL` if there are more pieces
    /// than [`MAX_PIECES`](crate::MAX_PIECES); nothing was taken. Other errors end the connection.
    /// Sleeps for the socket's lock.
    pub fn send<'a>(
        &mut self,
        pieces: impl IntoIterator<Item = SendBuf<'a>>,
        then: Then,
    ) -> Result<usize> {
        let result = self.send_vec.send(&self.socket, pieces, then);
        self.remember(result)
    }

    /// Hands octets to TCP, which takes references to their pages where it can. Otherwise as
    /// [`Self::send`].
    ///
    /// # Safety
    ///
    /// Nobody writes to the octets while somebody else has a reference to their pages, which are
    /// not of the slab allocator.
    pub(crate) unsafe fn splice(&mut self, octets: SendBuf<'_>, then: Then) -> Result<usize> {
        // SAFETY: The caller promises what `SendVec::splice` requires.
        let result = unsafe { self.send_vec.splice(&self.socket, octets, then) };
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

    /// Calls `look` with the received octets. The socket's lock is held until it returns; the
    /// octets that it took are given back to TCP then.
    ///
    /// Sleeps for the lock, and for memory, but not for memory that somebody must send over this
    /// socket to free.
    pub fn receive<R>(&mut self, look: impl FnOnce(&mut Frames<'_>) -> R) -> R {
        let _noio = NoIo::new();
        let queue = ReceiveQueue::new(self.socket.lock());
        look(&mut Frames::new(queue, &mut self.receive_state))
    }

    /// Returns the time since when part of a frame is there, as [`Self::receive`] saw it. [`None`]
    /// without a part.
    pub fn waiting_since(&self) -> Option<Instant<Monotonic>> {
        self.receive_state.since()
    }

    /// Gives back the memory that TCP keeps for octets that it will copy, up to 32 KiB. It has some
    /// again when it copies the next ones. Sleeps for the socket's lock.
    pub fn give_back(&self) {
        let locked = self.socket.lock();
        // SAFETY: `locked` is a live socket whose lock is held.
        let frag = unsafe { &mut (*locked.sk()).sk_frag };
        let page = core::mem::replace(&mut frag.page, core::ptr::null_mut());
        frag.offset = 0;
        if !page.is_null() {
            // SAFETY: The socket had a reference to the page, and has no pointer to it any more.
            // Octets that are under way have references of their own.
            unsafe { cbindings::folio_put(page) };
        }
    }

    /// Tells the peer that no more is sent, behind everything that was. Sleeps for the socket's
    /// lock.
    pub fn shutdown(&self) {
        self.socket.shutdown_send();
    }

    /// Ends the events: none is reported when this returns. Returns their receiver. Sleeps.
    ///
    /// Returns [`None`] if it was called before.
    pub fn detach(&mut self) -> Option<Arc<E>> {
        Some(self.callbacks.take()?.restore(&self.socket))
    }

    /// Ends the connection with a reset, without delivery of sent octets. Sleeps.
    ///
    /// Dropping delivers them, if all received octets were read.
    pub fn abort(self) {
        self.abort_when_dropped();
    }

    /// Makes dropping end the connection as [`Self::abort`] does. Sleeps.
    pub fn abort_when_dropped(&self) {
        self.socket.abort_when_released();
    }
}

impl<E: Events> Drop for TcpConn<E> {
    fn drop(&mut self) {
        self.detach();
        // SAFETY: `self` owns the socket, which is one of TCP. The function takes the socket's lock
        // itself, and refuses negative numbers only.
        unsafe { cbindings::tcp_sock_set_user_timeout(self.socket.sk(), ALONE_MS) };
    }
}

/// How long TCP tries to deliver the rest of a connection that was dropped, in milliseconds. As
/// long, the network namespace of its socket stays. A path that fails for longer is given up.
const ALONE_MS: i32 = 30_000;

/// Socket options of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The time that octets may stay unacknowledged before the connection ends with `ETIMEDOUT`, in
    /// milliseconds. 0 leaves the setting of the system.
    pub user_timeout_ms: u32,
    /// The size of the receive buffer in octets, which TCP then does not change. [`None`] leaves it
    /// to TCP.
    pub receive_buffer: Option<u32>,
}

impl Settings {
    /// Sets the options of `socket`, whose connection nobody uses yet. Sleeps.
    pub(crate) fn apply(&self, socket: &Socket) -> Result {
        let sk = socket.sk();
        // SAFETY: `socket` owns the socket, which is one of TCP. Each of these functions takes the
        // socket's lock itself.
        unsafe {
            cbindings::tcp_sock_set_nodelay(sk);
            cbindings::tcp_sock_set_user_timeout(sk, i32::try_from(self.user_timeout_ms)?);
            if let Some(bytes) = self.receive_buffer {
                cbindings::sock_set_rcvbuf(sk, i32::try_from(bytes)?);
            }
        }
        let locked = socket.lock();
        let sk = locked.sk();
        // SAFETY: `locked` holds the socket's lock, under which these fields change.
        unsafe {
            // A task that waits for memory may depend on octets that are sent here: no reclaim by
            // file systems or devices.
            (&raw mut (*sk).sk_allocation).write(cbindings::GFP_NOIO);
            // The page fragment of the task may be in use by code that was interrupted to write
            // back.
            (&raw mut (*sk).sk_use_task_frag).write(false);
            // Octets that a peer calls urgent stay where they are in the stream. TCP would skip an
            // octet otherwise, and frames would no longer be found.
            cbindings::sock_set_flag(sk, cbindings::sock_flags_SOCK_URGINLINE);
        }
        Ok(())
    }
}
