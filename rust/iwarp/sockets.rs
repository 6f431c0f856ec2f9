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

use crate::waker::Waker;
use core::net::IpAddr;
use core::net::SocketAddr;
use core::net::SocketAddrV6;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::addr::Net;
use provider::addresses::Watch;
use provider::addresses::Watching;
use provider::errno::eaddrinuse;
use provider::netdev::NetDevice;
use socket::Event;
use socket::Events;

/// The interval of polling for changes without an event, in milliseconds.
const LOOK_MS: u32 = 1_000;

/// A socket that listens at one address.
pub(crate) trait Socket: Send + Sync + Sized + Unpin {
    /// A connection that a peer began, without an owner of its events.
    type Accepted;
    /// The `driver_id` of the devices.
    const ID: u32;

    /// Listens. Peers that come over other interfaces than `interface` are not for it. Sleeps.
    fn listen(
        net: &Net,
        address: SocketAddr,
        interface: Option<u32>,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self>;

    /// Accepts a connection of a peer. Sleeps, but does not wait for one.
    fn accept(&self) -> Result<Option<Self::Accepted>>;

    /// Updates the secondary addresses that are offered to peers. Sleeps.
    fn offer_others(&self, address: SocketAddr);

    /// Says whether the listener of another device may have this address as a secondary one, and
    /// accept its peers.
    fn may_be_another_ones(ip: IpAddr) -> bool;
}

/// A notification that addresses have changed.
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

/// An address to listen at, and its interface.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    address: SocketAddr,
    interface: Option<u32>,
}

/// A listener, with a socket for each address.
pub(crate) struct Listener<S> {
    // The socket whose peers are accepted first, so that many at one address do not starve others.
    turn: usize,
    // Each with its address.
    sockets: KVec<(Place, S)>,
    netdev: NetDevice,
    address: SocketAddr,
    backlog: u32,
    waker: Arc<Waker>,
    watching: Watching<Changed>,
    // The time of the last check for changes without an event: somebody else has the port at an
    // address, or there are VLANs, which may get devices of their own.
    unwatched: Option<Instant<Monotonic>>,
    // A port that is in use is logged once.
    logged: bool,
}

impl<S: Socket> Listener<S> {
    /// Listens. A wildcard is for the addresses of `netdev` and the VLANs on it, of which there may
    /// be none yet. Sleeps.
    pub(crate) fn new(
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
            unwatched: None,
            logged: false,
        };
        this.follow()?;
        Ok(this)
    }

    fn add(&mut self, place: Place) -> Result {
        let (net, waker) = (self.netdev.net()?, self.waker.clone());
        let socket = S::listen(&net, place.address, place.interface, self.backlog, waker)?;
        self.sockets.push((place, socket), GFP_KERNEL)?;
        Ok(())
    }

    /// Listens at the current addresses, and offers the current secondary ones. Tries all; the
    /// first error counts.
    fn follow(&mut self) -> Result {
        let all = match self.address.ip() {
            wildcard if wildcard.is_unspecified() => self.follow_netdev(),
            _ if self.sockets.is_empty() => {
                let (address, interface) = (self.address, self.netdev.routing_master());
                self.add(Place { address, interface })
            }
            _ => Ok(()),
        };
        for (place, socket) in &self.sockets {
            socket.offer_others(place.address);
        }
        all
    }

    /// Returns this address of `netdev`, which is the device's or one on it.
    fn place(&self, netdev: &NetDevice, ip: IpAddr) -> Place {
        let port = self.address.port();
        let address = match ip {
            // A link-local address belongs to one interface.
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddrV6::new(v6, port, 0, netdev.index()).into()
            }
            ip => SocketAddr::new(ip, port),
        };
        Place {
            address,
            interface: netdev.routing_master(),
        }
    }

    /// Returns the addresses at which it should listen, and whether some of them depend on devices
    /// of VLANs.
    fn places(&self) -> Result<(KVec<Place>, bool)> {
        let mut places = KVec::new();
        let mut add = |netdev: &NetDevice| -> Result {
            for ip in netdev.addresses(self.address.is_ipv6())? {
                places.push(self.place(netdev, ip), GFP_KERNEL)?;
            }
            Ok(())
        };
        add(&self.netdev)?;
        let vlans = self.netdev.vlans()?;
        for vlan in vlans.iter().filter(|vlan| !vlan.has_device(S::ID)) {
            add(vlan)?;
        }
        Ok((places, !vlans.is_empty()))
    }

    fn follow_netdev(&mut self) -> Result {
        let (places, depends) = self.places()?;
        self.sockets
            .retain(|(known, _)| places.iter().any(|place| place == known));
        let mut all = Ok(());
        self.unwatched = depends.then(Instant::now);
        for place in places {
            let has = |(known, _): &(Place, S)| known.address == place.address;
            if self.sockets.iter().any(has) {
                continue;
            }
            match self.add(place) {
                Err(error)
                    if error == eaddrinuse() && S::may_be_another_ones(place.address.ip()) => {}
                Err(error) if error == eaddrinuse() => {
                    self.unwatched = Some(Instant::now());
                    if !core::mem::replace(&mut self.logged, true) {
                        let address = place.address;
                        pr_warn!("RDMA peers at {address:?} are not heard: the port is in use\n");
                    }
                }
                // It is tried again, whatever the other errors are.
                Err(error) if error == ENOMEM => all = Err(error),
                Err(error) => {
                    self.unwatched = Some(Instant::now());
                    all = all.and(Err(error));
                }
                Ok(()) => {}
            }
        }
        all
    }

    /// Says whether it is time to check for changes without an event.
    fn should_look(&self) -> bool {
        let since = self.unwatched.map(|since| since.elapsed().as_millis());
        since.is_some_and(|since| since >= i64::from(LOOK_MS))
    }

    /// Returns the time in milliseconds after which to poll, even without an event.
    pub(crate) fn look_again(&self) -> Option<u32> {
        self.unwatched.map(|_| LOOK_MS)
    }

    /// Accepts a connection of a peer, and returns it with the address that listens. Sleeps, but
    /// does not wait for one.
    ///
    /// An SCTP socket with several addresses reports the one that was bound last.
    pub(crate) fn accept(&mut self) -> Result<Option<(SocketAddr, S::Accepted)>> {
        let changed = self.watching.watch().changed.swap(false, Ordering::SeqCst);
        if changed || self.should_look() {
            match self.follow() {
                Err(error) if error == ENOMEM => {
                    self.watching.watch().changed.store(true, Ordering::SeqCst);
                    return Err(error);
                }
                // It was logged, or is tried again.
                _ => {}
            }
        }
        let (before, behind) = self
            .sockets
            .split_at_checked(self.turn)
            .unwrap_or((&[], &self.sockets));
        let mut first_error = Ok(None);
        for (place, socket) in [behind, before].into_iter().flatten() {
            match socket.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let taken = self.sockets.iter().position(|(known, _)| known == place);
                    let accepted = Some((place.address, accepted));
                    self.turn = taken.map_or(0, |taken| taken.saturating_add(1));
                    return Ok(accepted);
                }
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error
    }
}
