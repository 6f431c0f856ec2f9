// SPDX-License-Identifier: GPL-2.0

//! Listening sockets, of either protocol, and listening for TCP connections.

use crate::prelude::*;
use crate::{
    callbacks::{
        CallbackGuard,
        SavedCallbacks, //
    },
    connection::{
        Settings,
        TcpConn, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr::null_mut, //
};

/// The protocol TCP.
pub enum Tcp {}

/// A listening socket.
pub type Listener<E> = ListeningSocket<E, Tcp>;

/// A connection of a peer, without a receiver of its events.
pub type Accepted = AcceptedSocket<Tcp>;

impl<E: Events> Listener<E> {
    /// Listens at `address`, which may be a wildcard, or still tentative; one of IPv6 is for IPv6
    /// alone. `interface` is the index of a network device: peers that come over others are not for
    /// this listener. At most `backlog` peers wait to be accepted.
    ///
    /// [`Event::Readable`](crate::Event::Readable) reports a peer to `events`, maybe before this
    /// returns. Connections inherit `settings`. Sleeps. `EADDRINUSE` if somebody listens there.
    pub fn new(
        net: &Net,
        address: SocketAddr,
        interface: Option<u32>,
        backlog: u32,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &address, Protocol::Tcp)?;
        settings.apply(&socket)?;
        if let Some(interface) = interface {
            let interface = i32::try_from(interface)?;
            // SAFETY: `socket` owns the socket. The function takes the socket's lock itself.
            to_result(unsafe { cbindings::sock_bindtoindex(socket.sk(), interface, true) })?;
        }
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself.
        unsafe { cbindings::ip_sock_set_freebind(socket.sk()) };
        bind(&socket, address)?;
        Self::listen(socket, backlog, events)
    }
}

impl Accepted {
    /// Reports events to `events` from now on, maybe before this returns; and once everything that
    /// can have happened before. Sleeps.
    pub fn attach<E: Events>(self, events: Arc<E>) -> Result<TcpConn<E>> {
        TcpConn::new(self.socket, events)
    }
}

/// A socket that listens to peers of the protocol `P`.
///
/// Dropping it sleeps, and resets, or aborts, connections that were not accepted.
///
/// # Examples
///
/// ```
/// # use kernel::{prelude::*, sync::Arc};
/// use socket::{
///     Events,
///     Listener,
///     TcpConn, //
/// };
///
/// /// Accepts those who wait. Called after each event of `listener`.
/// fn accept<E: Events>(
///     listener: &Listener<E>,
///     new_events: impl Fn() -> Result<Arc<E>>,
///     connections: &mut KVec<TcpConn<E>>,
/// ) -> Result {
///     while let Some(accepted) = listener.accept()? {
///         connections.push(accepted.attach(new_events()?)?, GFP_KERNEL)?;
///     }
///     Ok(())
/// }
/// ```
pub struct ListeningSocket<E: Events, P> {
    /// [`None`] in `drop` only.
    callbacks: Option<CallbackGuard<E>>,
    saved: SavedCallbacks,
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<E: Events, P> ListeningSocket<E, P> {
    /// Listens with a socket, which is of `P`, and [bound](bind). Sleeps.
    pub(crate) fn listen(socket: Socket, backlog: u32, events: Arc<E>) -> Result<Self> {
        let callbacks = CallbackGuard::new(&socket, events)?;
        let listener = Self {
            saved: callbacks.saved(),
            callbacks: Some(callbacks),
            socket,
            _protocol: PhantomData,
        };
        // SAFETY: `listener` owns the socket.
        to_result(unsafe {
            cbindings::kernel_listen(listener.socket.as_raw(), i32::try_from(backlog)?)
        })?;
        Ok(listener)
    }

    /// Accepts the connection of a peer. Returns [`None`] without waiting if there is none, but
    /// sleeps. To be called until there is none.
    pub fn accept(&self) -> Result<Option<AcceptedSocket<P>>> {
        let mut child = null_mut();
        // SAFETY: `self` owns the socket. CAST: The flag is a small number.
        let result = to_result(unsafe {
            cbindings::kernel_accept(
                self.socket.as_raw(),
                &mut child,
                cbindings::O_NONBLOCK as i32,
            )
        });
        match result {
            Err(error) if error == EAGAIN => return Ok(None),
            result => result?,
        }
        let child = NonNull::new(child).ok_or(EINVAL)?;
        // SAFETY: C just created it for this caller; a child of a socket that has a reference to
        // its namespace has one, too.
        let socket = unsafe { Socket::from_raw(child) };
        self.saved.restore(&socket);
        Ok(Some(AcceptedSocket {
            socket,
            _protocol: PhantomData,
        }))
    }

    /// Returns the address at which it listens.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }
}

impl<E: Events, P> Drop for ListeningSocket<E, P> {
    fn drop(&mut self) {
        if let Some(callbacks) = self.callbacks.take() {
            callbacks.restore(&self.socket);
        }
    }
}

/// Binds `socket`, which is to listen at that address; one of IPv6 to IPv6 alone. Sleeps.
pub(crate) fn bind(socket: &Socket, address: SocketAddr) -> Result {
    let sk = socket.sk();
    // SAFETY: `socket` owns the socket. Each of these functions takes its lock itself.
    unsafe {
        cbindings::sock_set_reuseaddr(sk);
        if address.is_ipv6() {
            to_result(cbindings::ip6_sock_set_v6only(sk))?;
        }
    }
    socket.bind(address)
}

/// A connection of a peer, without a receiver of its events.
pub struct AcceptedSocket<P> {
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<P> AcceptedSocket<P> {
    /// Returns the address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Returns the address of the peer. Fails if it is gone.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }
}
