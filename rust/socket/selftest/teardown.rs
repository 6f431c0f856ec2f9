// SPDX-License-Identifier: GPL-2.0

//! Tests of the end of connections and listeners, while others use them.

use super::fixture::accept;
use super::fixture::connect;
use super::fixture::listen;
use super::fixture::pause;
use super::fixture::wait;
use super::fixture::Pair;
use super::fixture::Watch;
use super::fixture::LOOPBACK;
use crate::ConnState;
use crate::SendBuf;
use crate::Settings;
use crate::TcpConn;
use crate::Then;
use core::net::SocketAddr;
use kernel::error::Error;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::workqueue;

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
