// SPDX-License-Identifier: GPL-2.0

//! Sockets that listen, of either protocol.

use crate::hook::Events;
use crate::hook::Hooked;
use crate::hook::Originals;
use crate::owned::Socket;
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
/// When it is dropped, which sleeps, what was not accepted is reset, or aborted.
pub struct Listener<E: Events, P> {
    /// [`None`] in `drop` only.
    hooked: Option<Hooked<E>>,
    originals: Originals,
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<E: Events, P> Listener<E, P> {
    /// Listens with a socket, which is of `P`, and [bound](bind). Sleeps.
    pub(crate) fn listen(socket: Socket, backlog: u32, events: Arc<E>) -> Result<Self> {
        let hooked = Hooked::new(&socket, events)?;
        let listener = Self {
            originals: hooked.originals(),
            hooked: Some(hooked),
            socket,
            _protocol: PhantomData,
        };
        // SAFETY: The socket is there as long as `listener`.
        to_result(unsafe {
            iwraw::kernel_listen(listener.socket.as_raw(), i32::try_from(backlog)?)
        })?;
        Ok(listener)
    }

    /// What a peer began, or [`None`]. Does not wait for one, but sleeps. To be called until there is none.
    pub fn accept(&self) -> Result<Option<Accepted<P>>> {
        let mut child = null_mut();
        // SAFETY: The socket is there as long as `self`. CAST: The flag is a small number.
        let result = to_result(unsafe {
            iwraw::kernel_accept(self.socket.as_raw(), &mut child, iwraw::O_NONBLOCK as i32)
        });
        match result {
            Err(error) if error == EAGAIN => return Ok(None),
            result => result?,
        }
        let child = NonNull::new(child).ok_or(EINVAL)?;
        // SAFETY: C just made it for us; a child of a socket that has a reference to its namespace has one, too.
        let socket = unsafe { Socket::from_raw(child) };
        self.originals.restore(&socket);
        Ok(Some(Accepted {
            socket,
            _protocol: PhantomData,
        }))
    }

    /// The address at which it listens.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }
}

impl<E: Events, P> Drop for Listener<E, P> {
    fn drop(&mut self) {
        if let Some(hooked) = self.hooked.take() {
            hooked.take_off(&self.socket);
        }
    }
}

/// Binds `socket`, which is to listen at that address; one of IPv6 to IPv6 alone. Sleeps.
pub(crate) fn bind(socket: &Socket, address: SocketAddr) -> Result {
    let sk = socket.sk();
    // SAFETY: The socket is there. Each of these takes its lock itself.
    unsafe {
        iwraw::sock_set_reuseaddr(sk);
        if address.is_ipv6() {
            to_result(iwraw::ip6_sock_set_v6only(sk))?;
        }
    }
    socket.bind(address)
}

/// What a peer began, of whose events nobody hears yet.
pub struct Accepted<P> {
    pub(crate) socket: Socket,
    _protocol: PhantomData<fn() -> P>,
}

impl<P> Accepted<P> {
    /// The address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// The address of the peer. An error if it is gone.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }
}
