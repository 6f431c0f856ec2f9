// SPDX-License-Identifier: GPL-2.0

//! Two ends of a connection, the events that they received, and frames to send.
//!
//! A frame of the tests is its length in four octets, high one first, then octets whose values
//! depend on their position.

use crate::prelude::*;
use crate::{
    ConnState,
    Event,
    Events,
    Listener,
    Net,
    Next,
    SendBuf,
    Settings,
    TcpConn,
    Then, //
};
use core::net::Ipv4Addr;
use ext::{
    borrowed::Piece,
    errno::eproto, //
};
use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

pub(super) const HEAD: usize = 4;

/// The first free port at this address.
pub(super) const LOOPBACK: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A counter of events.
pub(super) struct Watch {
    counts: [Atomic<usize>; 4],
}

impl Watch {
    pub(super) fn new() -> Result<Arc<Self>> {
        let counts = core::array::from_fn(|_| Atomic::new(0));
        Ok(Arc::new(Self { counts }, GFP_KERNEL)?)
    }

    fn counter(&self, event: Event) -> &Atomic<usize> {
        let [readable, writable, changed, failed] = &self.counts;
        match event {
            Event::Readable => readable,
            Event::Writable => writable,
            Event::StateChanged => changed,
            Event::Failed => failed,
        }
    }

    /// Returns the number of events of this kind.
    pub(super) fn count(&self, event: Event) -> usize {
        self.counter(event).load(Relaxed)
    }

    /// Returns the number of all events.
    pub(super) fn total(&self) -> usize {
        self.counts.iter().map(|counts| counts.load(Relaxed)).sum()
    }
}

impl Events for Watch {
    fn event(&self, event: Event) {
        self.counter(event).add(1, Relaxed);
    }
}

/// Waits until `done`, for ten seconds at most. Returns whether it was.
pub(super) fn wait(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..10_000 {
        if done() {
            return true;
        }
        pause();
    }
    false
}

/// Waits for a millisecond.
pub(super) fn pause() {
    fsleep(Delta::from_millis(1));
}

pub(super) fn listen(address: SocketAddr, settings: &Settings) -> Result<Listener<Watch>> {
    Listener::new(&Net::init(), address, None, 64, settings, Watch::new()?)
}

/// Connects to `remote` from any port of the same address.
pub(super) fn connect(remote: SocketAddr, settings: &Settings) -> Result<TcpConn<Watch>> {
    let mut local = remote;
    local.set_port(0);
    TcpConn::connect(&Net::init(), local, remote, settings, Watch::new()?)
}

/// Waits for the next child of `listener`.
pub(super) fn accept(listener: &Listener<Watch>) -> Result<TcpConn<Watch>> {
    for _ in 0..10_000 {
        if let Some(child) = listener.accept()? {
            return child.attach(Watch::new()?);
        }
        pause();
    }
    Err(EAGAIN)
}

/// An established connection.
pub(super) struct Pair {
    pub(super) near: TcpConn<Watch>,
    pub(super) far: TcpConn<Watch>,
}

impl Pair {
    /// Creates a connection with the same settings at both ends.
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        Self::at(LOOPBACK, settings)
    }

    pub(super) fn at(address: SocketAddr, settings: &Settings) -> Result<Self> {
        let listener = listen(address, settings)?;
        let near = connect(listener.local_address()?, settings)?;
        let far = accept(&listener)?;
        match wait(|| near.state() == ConnState::Open) {
            true => Ok(Self { near, far }),
            false => Err(EAGAIN),
        }
    }
}

/// Returns a frame of `len` octets, the `number`th.
pub(super) fn frame(len: usize, number: usize) -> Result<KVec<u8>> {
    let mut frame = KVec::with_capacity(len, GFP_KERNEL)?;
    frame.extend_from_slice(&u32::try_from(len)?.to_be_bytes(), GFP_KERNEL)?;
    for at in frame.len()..len {
        // CAST: The low octet is wanted.
        let octet = (at * 31 + at / 251 + number * 7) as u8;
        frame.push(octet, GFP_KERNEL)?;
    }
    Ok(frame)
}

/// Reads the length of a frame from its head.
pub(super) fn length(head: &[u8]) -> Result<usize> {
    let octets = head.first_chunk().ok_or(EINVAL)?;
    usize::try_from(u32::from_be_bytes(*octets)).map_err(|_| eproto())
}

/// The outcome of a look at the far end.
pub(super) enum Seen {
    Frame,
    Other,
}

/// Sends `octets` in portions of at most `portion`, each a segment of its own, and receives at the
/// far end in between: `look` is called until it took as many frames as `frames`. Returns whether
/// that came to pass.
pub(super) fn exchange(
    pair: &mut Pair,
    octets: &[u8],
    portion: usize,
    frames: usize,
    mut look: impl FnMut(&mut TcpConn<Watch>) -> Result<Seen>,
) -> Result<bool> {
    let (mut rest, mut seen, mut idle) = (octets, 0, 0);
    while idle < 10_000 {
        idle += 1;
        if !rest.is_empty() {
            let now = rest.get(..portion.min(rest.len())).ok_or(EINVAL)?;
            match pair.near.send([SendBuf::from(now)], Then::EndOfRecord) {
                Ok(taken) => (rest, idle) = (rest.get(taken..).ok_or(EINVAL)?, 0),
                Err(error) if error == EAGAIN => {}
                Err(error) => return Err(error),
            }
        }
        if let Seen::Frame = look(&mut pair.far)? {
            (seen, idle) = (seen + 1, 0);
        }
        if seen == frames {
            return Ok(rest.is_empty());
        }
        if idle > 0 {
            pause();
        }
    }
    Ok(false)
}

/// Takes the next frame, if it is complete, and compares it with `expected` in all possible ways.
pub(super) fn take(connection: &mut TcpConn<Watch>, expected: &[u8]) -> Result<Seen> {
    connection.receive(|frames| {
        let Next::Whole(frame) = frames.next(HEAD, length)? else {
            return Ok(Seen::Other);
        };
        let len = expected.len();
        if frame.len() != len {
            return Err(EINVAL);
        }
        let sum = SendBuf::from(expected).crc32c(!0);
        let half = frame.crc32c(!0, 0, len / 2)?;
        if frame.crc32c(!0, 0, len)? != sum || frame.crc32c(half, len / 2, len - len / 2)? != sum {
            return Err(EINVAL);
        }
        let mut copy = KVec::from_elem(0, len, GFP_KERNEL)?;
        frame.copy_to_slice(0, &mut copy)?;
        let mut tail = KVec::from_elem(0, len - len / 3, GFP_KERNEL)?;
        copy_to(&mut tail, |to| frame.copy_to(len / 3, to))?;
        if copy.as_slice() != expected || expected.get(len / 3..) != Some(tail.as_slice()) {
            return Err(EINVAL);
        }
        frame.take()?;
        Ok(Seen::Frame)
    })
}

/// Calls `copy` with `to` as if that were a consumer's memory.
pub(super) fn copy_to(to: &mut [u8], copy: impl FnOnce(Piece<'_>) -> Result) -> Result {
    let address = core::ptr::NonNull::from(&mut *to).cast();
    // SAFETY: The slice is there during this call, in which only this piece uses it.
    let piece = unsafe { Piece::new(address, u32::try_from(to.len())?) };
    copy(piece)
}

/// Sends octets, the last of which is urgent. Returns the number that TCP took.
pub(super) fn send_urgent(connection: &TcpConn<Watch>, octets: &[u8]) -> Result<usize> {
    let mut vector = cbindings::kvec {
        iov_base: octets.as_ptr().cast_mut().cast(),
        iov_len: octets.len(),
    };
    let mut message = cbindings::msghdr {
        msg_flags: cbindings::MSG_OOB | cbindings::MSG_DONTWAIT | cbindings::MSG_NOSIGNAL,
        ..Default::default()
    };
    // SAFETY: `connection` owns the socket, and TCP reads the octets during the call.
    let taken = unsafe {
        let socket = connection.socket().as_raw();
        cbindings::kernel_sendmsg(socket, &mut message, &mut vector, 1, octets.len())
    };
    usize::try_from(taken).map_err(|_| kernel::error::Error::from_errno(taken))
}
