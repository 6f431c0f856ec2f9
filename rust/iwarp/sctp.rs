// SPDX-License-Identifier: GPL-2.0

//! DDP over SCTP (RFC 5043, RFC 6581): the link type `iwarp-sctp`.
//!
//! A queue pair has an association of its own, and uses stream 0 of it for one session.
// Argues for S11.3-1.

mod association;
mod established;
mod inbound;
mod startup;

use crate::prelude::*;
use crate::{
    addr_changes::AddrWatch,
    device::counter_names,
    listen_sockets,
    sctp::{
        association::SETTINGS,
        established::SctpEstablished,
        startup::{
            Active,
            Passive, //
        }, //
    }, //
};
use core::net::IpAddr;
use socket::sctp::Accepted;

/// The least number of associations that wait to be accepted.
const MIN_BACKLOG: u32 = 64;

/// SCTP as the LLP.
pub(crate) struct Sctp;

impl Llp for Sctp {
    const LINK_TYPE: &'static CStr = c_str!("iwarp-sctp");
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
        (Count::TimedOut, c_str!("late")),
        (Count::NoMemory, c_str!("no_memory")),
        (Count::CqOverruns, c_str!("cq_overruns")),
    ];
    const NAMES: &'static [&'static CStr] =
        &counter_names::<{ Self::COUNTERS.len() }>(Self::COUNTERS);
    type Listener = listen_sockets::ListenSockets<socket::sctp::Listener<EventTarget>>;
    type Accepted = (SocketAddr, Accepted);
    type Active = Active;
    type Passive = Passive;
    type Established = SctpEstablished;

    fn listen(
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        watch: AddrWatch,
    ) -> Result<Self::Listener> {
        // SCTP aborts what its queue has no room for, where TCP lets the peer ask again. How many
        // are undecided is limited by what the consumer says, anyway.
        listen_sockets::ListenSockets::new(netdev, address, backlog.max(MIN_BACKLOG), watch)
    }

    fn accept(listener: &mut Self::Listener) -> Result<Option<Self::Accepted>> {
        listener.accept()
    }

    fn poll_after_ms(listener: &Self::Listener) -> Option<u32> {
        listener.poll_after_ms()
    }

    fn attach(
        (local, accepted): Self::Accepted,
        events: Arc<EventTarget>,
    ) -> Result<(Endpoints, Passive)> {
        let peer = accepted.peer_address()?;
        let endpoints = Endpoints { local, peer };
        Ok((endpoints, Passive::new(accepted.attach(events)?)?))
    }
}

impl listen_sockets::ListenSocket for socket::sctp::Listener<EventTarget> {
    type Accepted = Accepted;
    const LINK_TYPE: &'static CStr = Sctp::LINK_TYPE;

    fn listen(
        net: &Net,
        address: SocketAddr,
        _: Option<u32>,
        backlog: u32,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        Self::new(net, address, backlog, &SETTINGS, events)
    }

    fn accept(&self) -> Result<Option<Accepted>> {
        self.accept()
    }

    fn update_addresses(&self, address: SocketAddr) {
        self.update_addresses(address);
    }

    fn may_be_secondary(ip: IpAddr) -> bool {
        socket::sctp::has_address(ip)
    }
}
