// SPDX-License-Identifier: GPL-2.0

//! The listener of `iwarp-sctp`: a socket for each address.
//!
//! A socket that listens on the wildcard would offer each peer all addresses of the host, whichever device they are of (RFC 5043,
//! section 7.2). So there is a socket for each address of the network device, and the list follows the addresses.

use crate::sctp::peer::SETTINGS;
use crate::waker::Waker;
use core::net::IpAddr;
use core::net::SocketAddr;
use core::net::SocketAddrV6;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::addresses::Watch;
use provider::addresses::Watching;
use provider::errno::eaddrinuse;
use provider::netdev::NetDevice;
use socket::sctp;
use socket::sctp::Accepted;
use socket::Event;
use socket::Events;

/// That addresses have changed.
struct Changed {
    changed: AtomicBool,
    waker: Arc<Waker>,
}

impl Watch for Changed {
    fn changed(&self) {
        self.changed.store(true, Ordering::SeqCst);
        self.waker.event(Event::StateChanged);
    }
}

/// What listens.
pub(crate) struct Listener {
    // The socket whose peers are taken first, so that a crowd at one address does not starve others.
    turn: usize,
    // Each with its address.
    sockets: KVec<(SocketAddr, sctp::Listener<Waker>)>,
    netdev: NetDevice,
    address: SocketAddr,
    backlog: u32,
    waker: Arc<Waker>,
    watching: Watching<Changed>,
}

impl Listener {
    /// Listens. A wildcard is for the addresses of `netdev`, of which there may be none yet. Sleeps.
    pub(super) fn new(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        let changed = Changed {
            changed: AtomicBool::new(false),
            waker: waker.clone(),
        };
        let mut this = Self {
            turn: 0,
            sockets: KVec::new(),
            netdev,
            address,
            backlog,
            waker,
            watching: Watching::new(changed)?,
        };
        this.follow()?;
        Ok(this)
    }

    fn add(&mut self, ip: IpAddr) -> Result {
        let address = match ip {
            // An address of the link is one of an interface.
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, self.address.port(), 0, self.netdev.index()).into()
            }
            ip => SocketAddr::new(ip, self.address.port()),
        };
        let net = self.netdev.net()?;
        let waker = self.waker.clone();
        let socket = sctp::Listener::new(&net, address, self.backlog, &SETTINGS, waker)?;
        self.sockets.push((address, socket), GFP_KERNEL)?;
        Ok(())
    }

    /// Listens at the addresses that there are, and offers the others that there are. Tries all; the first error counts.
    fn follow(&mut self) -> Result {
        let all = match self.address.ip() {
            wildcard if wildcard.is_unspecified() => self.follow_netdev(),
            ip if self.sockets.is_empty() => self.add(ip),
            _ => Ok(()),
        };
        for (address, socket) in &self.sockets {
            socket.offer_others(*address);
        }
        all
    }

    fn follow_netdev(&mut self) -> Result {
        let addresses = self.netdev.addresses(self.address.is_ipv6())?;
        self.sockets
            .retain(|(known, _)| addresses.contains(&known.ip()));
        let mut all = Ok(());
        for ip in addresses {
            if self.sockets.iter().any(|(known, _)| known.ip() == ip) {
                continue;
            }
            match self.add(ip) {
                // The listener of another device has it, and hears its peers.
                Err(error) if error == eaddrinuse() && sctp::has_address(ip) => {}
                // It is tried again, whatever the others say.
                Err(error) if error == ENOMEM => all = Err(error),
                added => all = all.and(added),
            }
        }
        all
    }

    /// An association that a peer set up, and the address that listens. Sleeps, but does not wait for one.
    ///
    /// A socket with several addresses says of itself that it has the one that was bound last.
    pub(super) fn accept(&mut self) -> Result<Option<(SocketAddr, Accepted)>> {
        if self.watching.watch().changed.swap(false, Ordering::SeqCst) {
            match self.follow() {
                Err(error) if error == ENOMEM => {
                    self.watching.watch().changed.store(true, Ordering::SeqCst);
                    return Err(error);
                }
                // Who else listens there is not for this listener to say.
                _ => {}
            }
        }
        let (before, behind) = self
            .sockets
            .split_at_checked(self.turn)
            .unwrap_or((&[], &self.sockets));
        let mut first_error = Ok(None);
        for (address, socket) in [behind, before].into_iter().flatten() {
            match socket.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let taken = self.sockets.iter().position(|(known, _)| known == address);
                    let accepted = Some((*address, accepted));
                    self.turn = taken.map_or(0, |taken| taken.saturating_add(1));
                    return Ok(accepted);
                }
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error
    }
}
