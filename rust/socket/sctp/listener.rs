// SPDX-License-Identifier: GPL-2.0

//! Listening for peers that set up associations.

use crate::hook::Events;
use crate::listening_socket;
use crate::owned::Protocol;
use crate::owned::Socket;
use crate::sctp::addresses;
use crate::sctp::association::Association;
use crate::sctp::settings::Settings;
use core::net::SocketAddr;
use iwraw::addr::Net;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The protocol.
pub enum Sctp {}

/// A socket that listens.
pub type Listener<E> = listening_socket::Listener<E, Sctp>;

/// An association that a peer set up, of whose events nobody hears yet.
pub type Accepted = listening_socket::Accepted<Sctp>;

impl<E: Events> Listener<E> {
    /// Listens at `address`, which is not a wildcard: all addresses of the host would be offered to peers. It may still be tentative.
    /// Peers are offered [others](super::check_addresses) with it.
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
        // SAFETY: The socket is there. It takes the socket's lock itself.
        unsafe { iwraw::ip_sock_set_freebind(socket.sk()) };
        listening_socket::bind(&socket, address)?;
        // The other addresses must be there.
        socket.set_option(iwraw::IPPROTO_IP, iwraw::IP_FREEBIND, &0_u32)?;
        let listener = Self::listen(socket, backlog, events)?;
        listener.offer_others(address);
        Ok(listener)
    }

    /// Has peers of this listener, which is at `address`, offered the [others](super::check_addresses) that there are by now. Sleeps for the
    /// socket's lock.
    pub fn offer_others(&self, address: SocketAddr) {
        addresses::bind_others(&self.socket, address);
    }
}

impl Accepted {
    /// Tells `events` from now on, maybe before this returns; and once of what can have happened before. Sleeps.
    pub fn attach<E: Events>(self, events: Arc<E>) -> Result<Association<E>> {
        Association::new(self.socket, events)
    }
}
