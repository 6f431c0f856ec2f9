// SPDX-License-Identifier: GPL-2.0

//! The sockets of a listener: one for each address.
//!
//! rdma_cm finds the device of a request by the address that the peer connects to, not by the
//! interface of its packets. So there is a socket for each address of the network device, and the
//! list follows the addresses. It has those of the VLANs on the network device, too, as rdma_cm
//! takes this device for their routes, unless a VLAN has a device of its own. A socket on the
//! wildcard would take requests for addresses of other devices, which rdma_cm gives to those; and
//! one of SCTP would offer each peer all addresses of the host (RFC 5043, section 7.2).
//!
//! If somebody else has the port at an address, this listener does without that address until the
//! port is free: rdma_cm gives up the whole listen, on all devices, if one of them fails.

use crate::{
    addr_changes::AddrWatch,
    prelude::*, //
};
use core::net::{
    IpAddr,
    SocketAddrV6, //
};
use provider::errno::eaddrinuse;

/// The interval of polling for changes without an event, in milliseconds.
const POLL_MS: u32 = 1_000;

/// A socket that listens at one address.
pub(crate) trait ListenSocket: Send + Sync + Sized + Unpin {
    /// A connection that a peer began, without an owner of its events.
    type Accepted;
    /// The link type of the devices.
    const LINK_TYPE: &'static CStr;

    /// Listens. Peers that come over other interfaces than `interface` are not for it. Sleeps.
    fn listen(
        net: &Net,
        address: SocketAddr,
        interface: Option<u32>,
        backlog: u32,
        events: Arc<EventTarget>,
    ) -> Result<Self>;

    /// Accepts a connection of a peer. Sleeps, but does not wait for one.
    fn accept(&self) -> Result<Option<Self::Accepted>>;

    /// Updates the secondary addresses that are offered to peers. Sleeps.
    fn update_addresses(&self, address: SocketAddr);

    /// Returns whether the listener of another device may have this address as a secondary one, and
    /// accept its peers.
    fn may_be_secondary(ip: IpAddr) -> bool;
}

/// An address to listen at, and its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BindAddr {
    address: SocketAddr,
    interface: Option<u32>,
}

/// A listener, with a socket for each address.
pub(crate) struct ListenSockets<S> {
    // The socket whose peers are accepted first, so that many at one address do not starve others.
    next_socket: usize,
    // Each with its address.
    sockets: KVec<(BindAddr, S)>,
    netdev: NetDevice,
    address: SocketAddr,
    backlog: u32,
    watch: AddrWatch,
    // The time of the last check for changes without an event: somebody else has the port at an
    // address, or there are VLANs, which may get devices of their own.
    poll_since: Option<Instant<Monotonic>>,
    // A port that is in use is logged once.
    logged: bool,
}

impl<S: ListenSocket> ListenSockets<S> {
    /// Listens, with the events of `watch`. A wildcard is for the addresses of `netdev` and the
    /// VLANs on it, of which there may be none yet. Sleeps.
    pub(crate) fn new(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        watch: AddrWatch,
    ) -> Result<Self> {
        let mut this = Self {
            next_socket: 0,
            sockets: KVec::new(),
            netdev,
            address,
            backlog,
            watch,
            poll_since: None,
            logged: false,
        };
        this.update()?;
        Ok(this)
    }

    fn add(&mut self, bind_addr: BindAddr) -> Result {
        let (net, events) = (self.netdev.net()?, self.watch.events().clone());
        let socket = S::listen(
            &net,
            bind_addr.address,
            bind_addr.interface,
            self.backlog,
            events,
        )?;
        self.sockets.push((bind_addr, socket), GFP_KERNEL)?;
        Ok(())
    }

    /// Listens at the current addresses, and offers the current secondary ones. Tries all; the
    /// first error counts.
    fn update(&mut self) -> Result {
        let all = match self.address.ip() {
            wildcard if wildcard.is_unspecified() => self.update_wildcard(),
            _ if self.sockets.is_empty() => {
                let (address, interface) = (self.address, self.netdev.routing_master());
                self.add(BindAddr { address, interface })
            }
            _ => Ok(()),
        };
        for (bind_addr, socket) in &self.sockets {
            socket.update_addresses(bind_addr.address);
        }
        all
    }

    /// Returns this address of `netdev`, which is the device's or one on it.
    fn bind_addr(&self, netdev: &NetDevice, ip: IpAddr) -> BindAddr {
        let port = self.address.port();
        let address = match ip {
            // A link-local address belongs to one interface.
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, port, 0, netdev.index()).into()
            }
            ip => SocketAddr::new(ip, port),
        };
        BindAddr {
            address,
            interface: netdev.routing_master(),
        }
    }

    /// Returns the addresses at which it should listen, and whether some of them depend on devices
    /// of VLANs.
    fn bind_addrs(&self) -> Result<(KVec<BindAddr>, bool)> {
        let mut bind_addrs = KVec::new();
        let mut add = |netdev: &NetDevice| -> Result {
            for ip in netdev.addresses(self.address.is_ipv6())? {
                bind_addrs.push(self.bind_addr(netdev, ip), GFP_KERNEL)?;
            }
            Ok(())
        };
        add(&self.netdev)?;
        let vlans = self.netdev.vlans()?;
        for vlan in vlans.iter().filter(|vlan| !vlan.has_device(S::LINK_TYPE)) {
            add(vlan)?;
        }
        Ok((bind_addrs, !vlans.is_empty()))
    }

    fn update_wildcard(&mut self) -> Result {
        let (bind_addrs, has_vlans) = self.bind_addrs()?;
        self.sockets
            .retain(|(known, _)| bind_addrs.iter().any(|bind_addr| bind_addr == known));
        let mut all = Ok(());
        self.poll_since = has_vlans.then(Instant::now);
        for bind_addr in bind_addrs {
            let has = |(known, _): &(BindAddr, S)| known.address == bind_addr.address;
            if self.sockets.iter().any(has) {
                continue;
            }
            match self.add(bind_addr) {
                Err(error)
                    if error == eaddrinuse() && S::may_be_secondary(bind_addr.address.ip()) => {}
                Err(error) if error == eaddrinuse() => {
                    self.poll_since = Some(Instant::now());
                    if !core::mem::replace(&mut self.logged, true) {
                        let address = bind_addr.address;
                        pr_warn!("RDMA peers cannot connect to {address:?}: the port is in use\n");
                    }
                }
                // It is tried again, whatever the other errors are.
                Err(error) if error == ENOMEM => all = Err(error),
                Err(error) => {
                    self.poll_since = Some(Instant::now());
                    all = all.and(Err(error));
                }
                Ok(()) => {}
            }
        }
        all
    }

    /// Returns whether it is time to check for changes without an event.
    fn is_poll_due(&self) -> bool {
        let since = self.poll_since.map(|since| since.elapsed().as_millis());
        since.is_some_and(|since| since >= i64::from(POLL_MS))
    }

    /// Returns the time in milliseconds after which to poll, even without an event.
    pub(crate) fn poll_after_ms(&self) -> Option<u32> {
        self.poll_since.map(|_| POLL_MS)
    }

    /// Accepts a connection of a peer, and returns it with the address that listens. Sleeps, but
    /// does not wait for one.
    ///
    /// An SCTP socket with several addresses reports the one that was bound last.
    pub(crate) fn accept(&mut self) -> Result<Option<(SocketAddr, S::Accepted)>> {
        if self.watch.take() || self.is_poll_due() {
            match self.update() {
                Err(error) if error == ENOMEM => {
                    self.watch.put_back();
                    return Err(error);
                }
                // It was logged, or is tried again.
                _ => {}
            }
        }
        let (before, behind) = self
            .sockets
            .split_at_checked(self.next_socket)
            .unwrap_or((&[], &self.sockets));
        let mut first_error = Ok(None);
        for (bind_addr, socket) in [behind, before].into_iter().flatten() {
            match socket.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let taken = self
                        .sockets
                        .iter()
                        .position(|(known, _)| known == bind_addr);
                    let accepted = Some((bind_addr.address, accepted));
                    self.next_socket = taken.map_or(0, |taken| taken.saturating_add(1));
                    return Ok(accepted);
                }
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error
    }
}
