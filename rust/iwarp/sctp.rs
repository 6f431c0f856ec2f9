// SPDX-License-Identifier: GPL-2.0

//! DDP over SCTP (RFC 5043, RFC 6581): the link type `iwarp-sctp`.
//!
//! A queue pair has an association of its own, and uses stream 0 of it for one session.

mod active;
mod heard;
mod held;
mod inbound;
mod lingering;
mod open;
mod passive;
mod peer;

use crate::counters::names;
use crate::counters::Count;
use crate::lower::Lower;
use crate::sctp::active::Active;
use crate::sctp::open::Open;
use crate::sctp::passive::Passive;
use crate::sctp::peer::SETTINGS;
use crate::sockets;
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
use socket::sctp::Accepted;

/// The lower layer SCTP.
pub(crate) struct Sctp;

impl Lower for Sctp {
    const LINK_TYPE: &'static CStr = c_str!("iwarp-sctp");
    // "IWAS": both types may be on one network device.
    const ID: u32 = 0x4957_4153;
    const COUNTERS: &'static [(Count, &'static CStr)] = &[
        (Count::Connected, c_str!("connected")),
        (Count::ConnectFailed, c_str!("connect_failed")),
        (Count::Accepted, c_str!("accepted")),
        (Count::Rejected, c_str!("rejected")),
        (Count::RequestLost, c_str!("request_lost")),
        (Count::Sent, c_str!("segment_sent")),
        (Count::Received, c_str!("segment_received")),
        (Count::OutOfOrder, c_str!("placed_out_of_order")),
        (Count::IllegalChunk, c_str!("illegal_chunk")),
        (Count::TerminateSent, c_str!("terminate_sent")),
        (Count::TerminateReceived, c_str!("terminate_received")),
        (Count::Late, c_str!("late")),
        (Count::NoMemory, c_str!("no_memory")),
    ];
    const NAMES: &'static [&'static CStr] = &names::<{ Self::COUNTERS.len() }>(Self::COUNTERS);
    type Listener = sockets::Listener<socket::sctp::Listener<Waker>>;
    type Accepted = (SocketAddr, Accepted);
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
        listener.accept()
    }

    fn look_again(listener: &Self::Listener) -> Option<u32> {
        listener.look_again()
    }

    fn take_over(
        (local, accepted): Self::Accepted,
        waker: Arc<Waker>,
    ) -> Result<(Addresses, Passive)> {
        let peer = accepted.peer_address()?;
        let ends = Addresses { local, peer };
        Ok((ends, Passive::new(accepted.attach(waker)?)?))
    }
}

impl sockets::Socket for socket::sctp::Listener<Waker> {
    type Accepted = Accepted;
    const ID: u32 = Sctp::ID;

    fn listen(
        net: &Net,
        address: SocketAddr,
        _: Option<u32>,
        backlog: u32,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        Self::new(net, address, backlog, &SETTINGS, waker)
    }

    fn accept(&self) -> Result<Option<Accepted>> {
        self.accept()
    }

    fn offer_others(&self, address: SocketAddr) {
        self.offer_others(address);
    }

    fn may_be_another_ones(ip: IpAddr) -> bool {
        socket::sctp::has_address(ip)
    }
}
