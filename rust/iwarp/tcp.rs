// SPDX-License-Identifier: GPL-2.0

//! DDP over MPA over TCP (RFC 5044, RFC 6581): the link type `iwarp-tcp`.

mod active;
mod inbound;
mod lingering;
mod open;
mod outbox;
mod passive;
#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;
mod startup;

use crate::counters::names;
use crate::counters::Count;
use crate::lower::Lower;
use crate::sockets;
use crate::tcp::active::Active;
use crate::tcp::open::Open;
use crate::tcp::passive::Passive;
use crate::waker::Waker;
use core::net::IpAddr;
use core::net::SocketAddr;
use kernel::c_str;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::Addresses;
use provider::netdev::NetDevice;

/// The lower layer TCP with MPA.
pub(crate) struct Tcp;

impl Lower for Tcp {
    const LINK_TYPE: &'static CStr = c_str!("iwarp-tcp");
    // "IWAR". User space must not take this for a device that one of its drivers can drive.
    const ID: u32 = 0x4957_4152;
    const COUNTERS: &'static [(Count, &'static CStr)] = &[
        (Count::Connected, c_str!("connected")),
        (Count::ConnectFailed, c_str!("connect_failed")),
        (Count::Accepted, c_str!("accepted")),
        (Count::Rejected, c_str!("rejected")),
        (Count::RequestLost, c_str!("request_lost")),
        (Count::Sent, c_str!("fpdu_sent")),
        (Count::Received, c_str!("fpdu_received")),
        (Count::BadCrc, c_str!("bad_crc")),
        (Count::TerminateSent, c_str!("terminate_sent")),
        (Count::TerminateReceived, c_str!("terminate_received")),
        (Count::Late, c_str!("late")),
        (Count::NoMemory, c_str!("no_memory")),
    ];
    const NAMES: &'static [&'static CStr] = &names::<{ Self::COUNTERS.len() }>(Self::COUNTERS);
    type Listener = sockets::Listener<socket::Listener<Waker>>;
    type Accepted = socket::Accepted;
    type Active = Active;
    type Passive = Passive;
    type Open = Open;

    fn listen(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self::Listener> {
        sockets::Listener::new(netdev, address, backlog, waker)
    }

    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>> {
        Ok(listener.accept()?.map(|(_, accepted)| accepted))
    }

    fn look_again(listener: &Self::Listener) -> Option<u32> {
        listener.look_again()
    }

    fn take_over(accepted: Self::Accepted, waker: Arc<Waker>) -> Result<(Addresses, Passive)> {
        let ends = Addresses {
            local: accepted.local_address()?,
            peer: accepted.peer_address()?,
        };
        Ok((ends, Passive::new(accepted.attach(waker)?)?))
    }
}

impl sockets::Socket for socket::Listener<Waker> {
    type Accepted = socket::Accepted;
    const ID: u32 = Tcp::ID;

    fn listen(
        net: &Net,
        address: SocketAddr,
        interface: Option<u32>,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        Self::new(net, address, interface, backlog, &startup::SETTINGS, waker)
    }

    fn accept(&self) -> Result<Option<Self::Accepted>> {
        self.accept()
    }

    fn offer_others(&self, _: SocketAddr) {}

    fn may_be_another_ones(_: IpAddr) -> bool {
        false
    }
}
