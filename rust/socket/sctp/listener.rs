// SPDX-License-Identifier: GPL-2.0

//! Listening for SCTP associations.

use crate::callbacks::Events;
use crate::listening_socket;
use crate::sctp::addresses;
use crate::sctp::association::Association;
use crate::sctp::settings::Settings;
use crate::socket::Protocol;
use crate::socket::Socket;
use core::net::SocketAddr;
use iwraw::addr::Net;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The protocol SCTP.
pub enum Sctp {}

/// A listening socket.
pub type Listener<E> = listening_socket::Listener<E, Sctp>;

/// An association of a peer, without a receiver of its events.
pub type Accepted = listening_socket::Accepted<Sctp>;

impl<E: Events> Listener<E> {
    /// Listens at `address`, which is not a wildcard: all addresses of the host would be offered to
    /// peers. It may still be tentative. Peers are offered [secondary
    /// addresses](super::check_addresses) with it. At most `backlog` associations wait to be
    /// accepted.
    ///
    /// [`Event::StateChanged`](crate::Event::StateChanged) reports an association to `events`,
    /// maybe before this returns. Associations inherit `settings`. Sleeps. `EADDRINUSE` if somebody
    /// listens there.
    pub fn new(
        net: &Net,
        address: SocketAddr,
        backlog: u32,
        settings: &Settings,
        events: Arc<E>,
    ) -> Result<Self> {
        let socket = Socket::new(net, &address, Protocol::Sctp)?;
        settings.apply(&socket)?;
        // SAFETY: `socket` owns the socket. The function takes the socket's lock itself.
        unsafe { iwraw::ip_sock_set_freebind(socket.sk()) };
        listening_socket::bind(&socket, address)?;
        // Secondary addresses must exist.
        socket.set_option(iwraw::IPPROTO_IP, iwraw::IP_FREEBIND, &0_u32)?;
        let listener = Self::listen(socket, backlog, events)?;
        listener.update_addresses(address);
        Ok(listener)
    }

    /// Updates the [secondary addresses](super::check_addresses) that peers of this listener, which
    /// is at `address`, are offered. Sleeps for the socket's lock.
    pub fn update_addresses(&self, address: SocketAddr) {
        addresses::bind_secondary(&self.socket, address);
    }
}

impl Accepted {
    /// Reports events to `events` from now on, maybe before this returns; and once everything that
    /// can have happened before. Sleeps.
    pub fn attach<E: Events>(self, events: Arc<E>) -> Result<Association<E>> {
        Association::new(self.socket, events)
    }
}
