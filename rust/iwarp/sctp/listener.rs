// SPDX-License-Identifier: GPL-2.0

//! What listens: a socket for each address.
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
    sockets: KVec<(IpAddr, sctp::Listener<Waker>)>,
    netdev: NetDevice,
    address: SocketAddr,
    backlog: u32,
    waker: Arc<Waker>,
    // For a wildcard.
    watching: Option<Watching<Changed>>,
}

impl Listener {
    /// Listens. A wildcard is for the addresses of `netdev`, of which there may be none yet. Sleeps.
    pub(super) fn new(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        let mut this = Self {
            sockets: KVec::new(),
            netdev,
            address,
            backlog,
            waker,
            watching: None,
        };
        if address.ip().is_unspecified() {
            let changed = Changed {
                changed: AtomicBool::new(false),
                waker: this.waker.clone(),
            };
            this.watching = Some(Watching::new(changed)?);
            this.follow()?;
        } else {
            this.add(address.ip())?;
        }
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
        self.sockets.push((ip, socket), GFP_KERNEL)?;
        Ok(())
    }

    /// Makes the sockets those of the addresses that there are. Tries all; the first error counts.
    fn follow(&mut self) -> Result {
        let addresses = self.netdev.addresses(self.address.is_ipv6())?;
        self.sockets.retain(|(ip, _)| addresses.contains(ip));
        let mut all = Ok(());
        for ip in addresses {
            if !self.sockets.iter().any(|(known, _)| *known == ip) {
                all = all.and(self.add(ip));
            }
        }
        all
    }

    /// An association that a peer set up. Sleeps, but does not wait for one.
    pub(super) fn accept(&mut self) -> Result<Option<Accepted>> {
        let changed = self.watching.as_ref().map(Watching::watch);
        if changed.is_some_and(|changed| changed.changed.swap(false, Ordering::SeqCst)) {
            // Who else listens there is not for this listener to say.
            let _ = self.follow();
        }
        for (_, socket) in &self.sockets {
            if let Some(accepted) = socket.accept()? {
                return Ok(Some(accepted));
            }
        }
        Ok(None)
    }
}
