// SPDX-License-Identifier: GPL-2.0

//! Listening for peers that set up associations.

use crate::hook::Events;
use crate::hook::Hooked;
use crate::hook::Originals;
use crate::owned::Protocol;
use crate::owned::Socket;
use crate::sctp::association::Association;
use crate::sctp::settings::Settings;
use core::net::SocketAddr;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::addr::Net;
use kernel::error::code::EINVAL;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A socket that listens.
///
/// When it is dropped, which sleeps, what was not accepted is aborted.
pub struct Listener<E: Events> {
    /// [`None`] in `drop` only.
    hooked: Option<Hooked<E>>,
    originals: Originals,
    socket: Socket,
}

impl<E: Events> Listener<E> {
    /// Listens at `address`, which is not a wildcard: all addresses of the host would be offered to peers. It may still be tentative.
    /// At most `backlog` associations wait to be accepted.
    ///
    /// [`Event::StateChanged`](crate::Event::StateChanged) tells `events` of an association, maybe before this returns. Associations have
    /// `settings`. Sleeps. `EADDRINUSE` if somebody listens there.
    pub fn new(
        net: &Net,
        address: SocketAddr,
        backlog: u32,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &address, Protocol::Sctp)?;
        settings.apply(&socket)?;
        let sk = socket.sk();
        // SAFETY: The socket is there. Each of these takes its lock itself.
        unsafe {
            iwraw::sock_set_reuseaddr(sk);
            iwraw::ip_sock_set_freebind(sk);
            if address.is_ipv6() {
                to_result(iwraw::ip6_sock_set_v6only(sk))?;
            }
        }
        socket.bind(address)?;
        let hooked = Hooked::new(&socket, None, events)?;
        let listener = Self {
            originals: hooked.originals(),
            hooked: Some(hooked),
            socket,
        };
        // SAFETY: The socket is there as long as `listener`.
        to_result(unsafe {
            iwraw::kernel_listen(listener.socket.as_raw(), i32::try_from(backlog)?)
        })?;
        Ok(listener)
    }

    /// An association that a peer set up, or [`None`]. Does not wait for one, but sleeps. To be called until there is none.
    pub fn accept(&self) -> Result<Option<Accepted>> {
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
        Ok(Some(Accepted {
            socket,
            originals: self.originals,
        }))
    }

    /// The address at which it listens.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }
}

impl<E: Events> Drop for Listener<E> {
    fn drop(&mut self) {
        if let Some(hooked) = self.hooked.take() {
            hooked.take_off(&self.socket);
        }
    }
}

/// An association that a peer set up, of whose events nobody hears yet.
pub struct Accepted {
    socket: Socket,
    originals: Originals,
}

impl Accepted {
    /// The address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.socket.local_address()
    }

    /// The address of the peer. An error if it is gone.
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.socket.peer_address()
    }

    /// Tells `events` from now on, maybe before this returns; and once of what can have happened before. Sleeps.
    pub fn attach<E: Events>(self, events: Arc<E>) -> Result<Association<E>> {
        Association::new(self.socket, Some(self.originals), events)
    }
}
