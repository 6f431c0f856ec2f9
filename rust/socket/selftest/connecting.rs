// SPDX-License-Identifier: GPL-2.0

//! Tests of connecting and listening.

use super::fixture::accept;
use super::fixture::connect;
use super::fixture::listen;
use super::fixture::pause;
use super::fixture::wait;
use super::fixture::Pair;
use super::fixture::Watch;
use super::fixture::LOOPBACK;
use crate::ConnState;
use crate::Event;
use crate::Listener;
use crate::Net;
use crate::SendBuf;
use crate::Settings;
use crate::TcpConn;
use crate::Then;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::net::SocketAddr;
use iwraw::errno::eaddrinuse;
use kernel::error::Error;
use kernel::prelude::*;
use kernel::time::Instant;
use kernel::time::Monotonic;

fn failed_with(connection: &TcpConn<Watch>, number: u32) -> bool {
    // CAST: Error numbers are small.
    let expected = ConnState::Failed(Error::from_errno(-(number as i32)));
    wait(|| connection.state() == expected)
}

fn ends_agree(address: SocketAddr) -> Result<bool> {
    let pair = Pair::at(address, &Settings::default())?;
    let (near, far) = (pair.near.local_address()?, pair.far.local_address()?);
    Ok(near.ip() == address.ip()
        && far.ip() == address.ip()
        && near.port() != 0
        && pair.near.peer_address()? == far
        && pair.far.peer_address()? == near
        && pair.near.emss() >= 536)
}

pub(super) fn ends_agree_over_ipv4() -> Result<bool> {
    ends_agree(LOOPBACK)
}

pub(super) fn ends_agree_over_ipv6() -> Result<bool> {
    ends_agree(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0))
}

pub(super) fn nobody_listens() -> Result<bool> {
    let settings = Settings::default();
    let near = connect(SocketAddr::new(LOOPBACK.ip(), 20_052), &settings)?;
    Ok(failed_with(&near, kernel::bindings::ECONNREFUSED))
}

/// A host of the network of the dummy interface, which delivers nothing.
pub(super) fn silent_peer_times_out() -> Result<bool> {
    let settings = Settings {
        user_timeout_ms: 1_500,
        ..Settings::default()
    };
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 0);
    let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99)), 20_049);
    let begin = Instant::<Monotonic>::now();
    let near = TcpConn::connect(&Net::init(), local, remote, &settings, Watch::new()?)?;
    let connecting = near.state() == ConnState::Connecting;
    let timed_out = failed_with(&near, kernel::bindings::ETIMEDOUT);
    Ok(connecting && timed_out && begin.elapsed().as_millis() >= 1_000)
}

pub(super) fn taken_port_is_another() -> Result<bool> {
    let settings = Settings::default();
    let (first, second) = (listen(LOOPBACK, &settings)?, listen(LOOPBACK, &settings)?);
    let (taken, remote) = (first.local_address()?, second.local_address()?);
    let near = TcpConn::connect(&Net::init(), taken, remote, &settings, Watch::new()?)?;
    let far = accept(&second)?;
    let port = near.local_address()?.port();
    Ok(port != taken.port() && port != 0 && far.peer_address()?.port() == port)
}

pub(super) fn families_share_a_port() -> Result<bool> {
    let settings = Settings::default();
    let v4 = listen(
        SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        &settings,
    )?;
    let port = v4.local_address()?.port();
    let wildcard = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    let v6 = listen(wildcard, &settings)?;
    let again = listen(wildcard, &settings).err() == Some(eaddrinuse());
    let near = connect(SocketAddr::new(LOOPBACK.ip(), port), &settings)?;
    let child = accept(&v4)?;
    let none = v6.accept()?.is_none();
    Ok(again && none && child.peer_address()? == near.local_address()?)
}

pub(super) fn listener_has_an_interface() -> Result<bool> {
    let (net, settings) = (Net::init(), Settings::default());
    // The loopback interface is the first of each namespace. No interface has the other index.
    let [here, elsewhere] = [1, 1_000_000].map(|interface| {
        let events = Watch::new()?;
        Listener::new(&net, LOOPBACK, Some(interface), 1, &settings, events)
    });
    let (here, elsewhere) = (here?, elsewhere?);
    let found = connect(here.local_address()?, &settings)?;
    let child = accept(&here)?;
    let lost = connect(elsewhere.local_address()?, &settings)?;
    Ok(wait(|| found.state() == ConnState::Open)
        && child.peer_address()? == found.local_address()?
        && failed_with(&lost, kernel::bindings::ECONNREFUSED))
}

pub(super) fn earlier_events_are_told() -> Result<bool> {
    let settings = Settings::default();
    let listener = listen(LOOPBACK, &settings)?;
    let mut near = connect(listener.local_address()?, &settings)?;
    if !wait(|| near.state() == ConnState::Open) {
        return Ok(false);
    }
    near.send([SendBuf::from(b"early".as_slice())], Then::Push)?;
    near.shutdown();
    let mut child = None;
    if !wait(|| {
        child = listener.accept().ok().flatten();
        child.is_some()
    }) {
        return Ok(false);
    }
    // The octets are to arrive before anybody listens.
    for _ in 0..20 {
        pause();
    }
    let watch = Watch::new()?;
    let mut far = child.ok_or(EINVAL)?.attach(watch.clone())?;
    let told = watch.count(Event::Readable) > 0 && watch.count(Event::StateChanged) > 0;
    let there = far.receive(|frames| frames.available());
    Ok(told && there == 5 && far.state() == ConnState::PeerClosed)
}
