// SPDX-License-Identifier: GPL-2.0

//! DDP over MPA over TCP (RFC 5044, RFC 6581): the link type `iwarp-tcp`.

mod established;
mod outbox;
#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;
mod startup;

use crate::prelude::*;
use crate::{
    addr_changes::AddrWatch,
    device::counter_names,
    listen_sockets,
    tcp::{
        established::TcpEstablished,
        startup::{
            Active,
            Passive, //
        }, //
    }, //
};
use core::net::IpAddr;

/// MPA over TCP as the LLP.
pub(crate) struct Tcp;

impl Llp for Tcp {
    const LINK_TYPE: &'static CStr = c_str!("iwarp-tcp");
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
        (Count::TimedOut, c_str!("late")),
        (Count::NoMemory, c_str!("no_memory")),
        (Count::CqOverruns, c_str!("cq_overruns")),
    ];
    const NAMES: &'static [&'static CStr] =
        &counter_names::<{ Self::COUNTERS.len() }>(Self::COUNTERS);
    type Listener = listen_sockets::ListenSockets<socket::Listener<EventTarget>>;
    type Accepted = socket::Accepted;
    type Active = Active;
    type Passive = Passive;
    type Established = TcpEstablished;

    fn listen(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        watch: AddrWatch,
    ) -> Result<Self::Listener> {
        listen_sockets::ListenSockets::new(netdev, address, backlog, watch)
    }

    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>> {
        Ok(listener.accept()?.map(|(_, accepted)| accepted))
    }

    fn poll_after_ms(listener: &Self::Listener) -> Option<u32> {
        listener.poll_after_ms()
    }

    fn attach(accepted: Self::Accepted, events: Arc<EventTarget>) -> Result<(Endpoints, Passive)> {
        let endpoints = Endpoints {
            local: accepted.local_address()?,
            peer: accepted.peer_address()?,
        };
        Ok((endpoints, Passive::new(accepted.attach(events)?)?))
    }
}

impl listen_sockets::ListenSocket for socket::Listener<EventTarget> {
    type Accepted = socket::Accepted;
    const LINK_TYPE: &'static CStr = Tcp::LINK_TYPE;

    fn listen(
        net: &Net,
        address: SocketAddr,
        interface: Option<u32>,
        backlog: u32,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        Self::new(net, address, interface, backlog, &startup::SETTINGS, events)
    }

    fn accept(&self) -> Result<Option<Self::Accepted>> {
        self.accept()
    }

    fn update_addresses(&self, _: SocketAddr) {}

    fn may_be_secondary(_: IpAddr) -> bool {
        false
    }
}
