// SPDX-License-Identifier: GPL-2.0

//! Listening sockets, of either protocol.

use crate::callbacks::CallbackGuard;
use crate::callbacks::Events;
use crate::callbacks::SavedCallbacks;
use crate::socket::Socket;
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::ptr::null_mut;
use core::ptr::NonNull;
use kernel::error::code::EINVAL;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A socket that listens to peers of the protocol `P`.
///
/// Dropping it sleeps, and resets, or aborts, connections that were not accepted.
pub struct Listener<E: Events, P> {
    /// [`None`] in `drop` only.
    callbacks: Option<CallbackGuard<E>>,
    saved: SavedCallbacks,
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<E: Events, P> Listener<E, P> {
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
            iwraw::kernel_listen(listener.socket.as_raw(), i32::try_from(backlog)?)
        })?;
        Ok(listener)
    }

    /// Accepts the connection of a peer. Returns [`None`] without waiting if there is none, but
    /// sleeps. To be called until there is none.
    pub fn accept(&self) -> Result<Option<Accepted<P>>> {
        let mut child = null_mut();
        // SAFETY: `self` owns the socket. CAST: The flag is a small number.
        let result = to_result(unsafe {
            iwraw::kernel_accept(self.socket.as_raw(), &mut child, iwraw::O_NONBLOCK as i32)
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
        Ok(Some(Accepted {
            socket,
            _protocol: PhantomData,
        }))
    }

    /// Returns the address at which it listens.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }
}

impl<E: Events, P> Drop for Listener<E, P> {
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
        iwraw::sock_set_reuseaddr(sk);
        if address.is_ipv6() {
            to_result(iwraw::ip6_sock_set_v6only(sk))?;
        }
    }
    socket.bind(address)
}

/// A connection of a peer, without a receiver of its events.
pub struct Accepted<P> {
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<P> Accepted<P> {
    /// Returns the address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// Returns the address of the peer. Fails if it is gone.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }
}
