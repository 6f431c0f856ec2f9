// SPDX-License-Identifier: GPL-2.0

//! Listening for TCP connections.

use crate::callbacks::Events;
use crate::connection::TcpConn;
use crate::listening_socket;
use crate::settings::Settings;
use crate::socket::Protocol;
use crate::socket::Socket;
use core::net::SocketAddr;
use iwraw::addr::Net;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The protocol TCP.
pub enum Tcp {}

/// A listening socket.
pub type Listener<E> = listening_socket::Listener<E, Tcp>;

/// A connection of a peer, without a receiver of its events.
pub type Accepted = listening_socket::Accepted<Tcp>;

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
            to_result(unsafe { iwraw::sock_bindtoindex(socket.sk(), interface, true) })?;
        }
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself.
        unsafe { iwraw::ip_sock_set_freebind(socket.sk()) };
        listening_socket::bind(&socket, address)?;
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
