// SPDX-License-Identifier: GPL-2.0

//! Tests of connecting and listening, and of the end of connections and listeners while others use
//! them.

use super::fixture::{
    accept,
    connect,
    listen,
    pause,
    wait,
    Pair,
    Watch,
    LOOPBACK, //
};
use crate::prelude::*;
use crate::{
    ConnState,
    Event,
    Listener,
    Net,
    SendBuf,
    Settings,
    TcpConn,
    Then, //
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};
use ext::errno::eaddrinuse;
use kernel::{
    sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    },
    time::{
        Instant,
        Monotonic, //
    },
    workqueue, //
};

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

/// A port that is not assigned to sockets that ask for any.
const PORT: u16 = 20_051;

/// Work that runs meanwhile on another CPU, if there is one.
struct Meanwhile {
    is_over: Arc<Atomic<bool>>,
}

impl Meanwhile {
    fn begin(work: impl FnOnce() + Send + 'static) -> Result<Self> {
        let is_over = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let over = is_over.clone();
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            work();
            over.store(true, Release);
        })?;
        Ok(Self { is_over })
    }

    fn is_over(&self) -> bool {
        wait(|| self.is_over.load(Acquire))
    }
}

fn was_reset(connection: &TcpConn<Watch>) -> bool {
    let [reset, pipe] = [kernel::bindings::ECONNRESET, kernel::bindings::EPIPE]
        // CAST: Error numbers are small.
        .map(|number| ConnState::Failed(Error::from_errno(-(number as i32))));
    wait(|| connection.state() == reset || connection.state() == pipe)
}

/// Sends until that fails.
fn pump(connection: &mut TcpConn<Watch>) {
    let octets = [1; 512];
    for _ in 0..1_000_000 {
        match connection.send([SendBuf::from(octets.as_slice())], Then::Push) {
            Err(error) if error != EAGAIN => return,
            Err(_) => pause(),
            Ok(_) => {}
        }
    }
}

pub(super) fn no_event_after_detaching() -> Result<bool> {
    let settings = Settings::default();
    let listener = listen(LOOPBACK, &settings)?;
    for round in 0..50 {
        let mut near = connect(listener.local_address()?, &settings)?;
        // Octets arrive while the child has no receiver of events, gets one, and loses it.
        let pump = Meanwhile::begin(move || pump(&mut near))?;
        let mut far = accept(&listener)?;
        for _ in 0..round % 4 {
            far.receive(|frames| frames.discard())?;
            pause();
        }
        let watch = far.detach().ok_or(EINVAL)?;
        let (none, told) = (far.detach().is_none(), watch.total());
        for _ in 0..3 {
            far.receive(|frames| frames.discard())?;
            pause();
        }
        if !none || told == 0 || watch.total() != told {
            return Ok(false);
        }
        drop(far);
        if !pump.is_over() {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn abort_and_close_differ() -> Result<bool> {
    let Pair { near, far } = Pair::new(&Settings::default())?;
    near.abort();
    let reset = was_reset(&far);
    let Pair { near, far } = Pair::new(&Settings::default())?;
    drop(near);
    Ok(reset && wait(|| far.state() == ConnState::PeerClosed))
}

pub(super) fn discarded_octets_do_not_reset() -> Result<bool> {
    for discard in [true, false] {
        let Pair { mut near, mut far } = Pair::new(&Settings::default())?;
        near.send([SendBuf::from([1; 100].as_slice())], Then::Push)?;
        if !wait(|| far.receive(|frames| frames.available()) == 100) {
            return Ok(false);
        }
        if discard && far.receive(|frames| frames.discard())? != 100 {
            return Ok(false);
        }
        drop(far);
        let as_expected = match discard {
            true => wait(|| near.state() == ConnState::PeerClosed),
            false => was_reset(&near),
        };
        if !as_expected {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn listener_goes_with_children() -> Result<bool> {
    let settings = Settings::default();
    let listener = listen(LOOPBACK, &settings)?;
    let mut peers = KVec::new();
    for _ in 0..20 {
        peers.push(connect(listener.local_address()?, &settings)?, GFP_KERNEL)?;
    }
    let open = wait(|| peers.iter().all(|peer| peer.state() == ConnState::Open));
    let accepted = accept(&listener)?;
    drop(listener);
    // One was accepted before, and stays.
    let gone = |peer: &&TcpConn<Watch>| peer.local_address().ok() != accepted.peer_address().ok();
    Ok(open
        && peers.iter().filter(gone).count() == 19
        && peers.iter().filter(gone).all(was_reset)
        && accepted.state() == ConnState::Open)
}

pub(super) fn listener_goes_while_peers_connect() -> Result<bool> {
    let settings = Settings::default();
    // No peer has this port by chance.
    let address = SocketAddr::new(LOOPBACK.ip(), PORT);
    let stop = Arc::new(Atomic::new(false), GFP_KERNEL)?;
    let stopped = stop.clone();
    let peers = Meanwhile::begin(move || {
        while !stopped.load(Acquire) {
            // It is dropped at once, whether it was refused or not.
            drop(connect(address, &Settings::default()));
        }
    })?;
    let mut accepted = 0;
    for round in 0..10_000 {
        // On a slow machine the first peer comes late.
        if round >= 100 && accepted >= 2 {
            break;
        }
        let listener = listen(address, &settings)?;
        pause();
        while let Some(child) = listener.accept()? {
            accepted += 1;
            // With and without a receiver of events.
            if accepted % 2 == 0 {
                drop(child.attach(Watch::new()?)?);
            }
        }
    }
    stop.store(true, Release);
    Ok(peers.is_over() && accepted > 0)
}
