// SPDX-License-Identifier: GPL-2.0

//! Tests of associations over the loopback interface, with both ends in this crate, and of their
//! secondary addresses.

use super::fixture::{
    copy_to,
    pause,
    wait,
    Watch,
    LOOPBACK, //
};
use crate::prelude::*;
use crate::{
    callbacks::SavedCallbacks,
    sctp::{
        addresses::{
            bind_additional,
            is_same_scope,
            parse, //
        },
        Association,
        Listener,
        Notification,
        Received,
        Sent,
        Settings, //
    },
    Event,
    SendBuf, //
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};
use ext::errno::econnrefused;

const SETTINGS: Settings = Settings {
    adaptation: 7,
    streams: 3,
    min_rto_ms: 500,
    max_rto_ms: 2_000,
    receive_buffer: 1 << 20,
    send_buffer: 1 << 20,
};

const PPID: u32 = 0x0102_0304;

/// The length of a long chunk.
const LONGEST: usize = 4096;

/// An end of an association, and the events that it received.
struct End {
    association: Association<Watch>,
    watch: Arc<Watch>,
}

impl End {
    /// Waits for the next chunk or notification. A chunk is not taken.
    fn next(&mut self) -> Result<Received> {
        for _ in 0..10_000 {
            match self.association.receive()? {
                Received::Nothing => pause(),
                arrived => return Ok(arrived),
            }
        }
        Err(EAGAIN)
    }

    /// Waits for the next chunk, and takes it. Returns its octets, or [`None`] if it is not as they
    /// are sent here.
    fn chunk(&mut self) -> Result<Option<KVec<u8>>> {
        let Received::Chunk {
            len,
            stream: 0,
            ppid: PPID,
            unordered: true,
            whole: true,
        } = self.next()?
        else {
            return Ok(None);
        };
        let mut octets = KVec::from_elem(0, len, GFP_KERNEL)?;
        self.association.copy_to_slice(0, &mut octets)?;
        self.association.take()?;
        Ok(Some(octets))
    }
}

fn listen(address: SocketAddr, watch: Arc<Watch>) -> Result<Listener<Watch>> {
    Listener::new(&Net::init(), address, 8, &SETTINGS, watch)
}

fn connect(remote: SocketAddr) -> Result<End> {
    let mut local = remote;
    local.set_port(0);
    let watch = Watch::new()?;
    let association = Association::connect(&Net::init(), local, remote, &SETTINGS, watch.clone())?;
    Ok(End { association, watch })
}

/// Returns both ends of an association that is up, after its notifications.
fn pair(address: SocketAddr) -> Result<(End, End)> {
    let heard = Watch::new()?;
    let listener = listen(address, heard.clone())?;
    let mut near = connect(listener.local_address()?)?;
    if !wait(|| heard.count(Event::StateChanged) > 1) {
        return Err(EAGAIN);
    }
    let watch = Watch::new()?;
    let accepted = listener.accept()?.ok_or(EAGAIN)?;
    let association = accepted.attach(watch.clone())?;
    let mut far = End { association, watch };
    let up = Received::Notification(Notification::Up {
        outbound: 3,
        inbound: 3,
    });
    let adaptation = Received::Notification(Notification::Adaptation(7));
    for end in [&mut near, &mut far] {
        if end.next()? != up || end.next()? != adaptation {
            return Err(EINVAL);
        }
    }
    Ok((near, far))
}

/// Returns octets whose values depend on their position.
fn octets(len: usize) -> Result<KVec<u8>> {
    let mut octets = KVec::with_capacity(len, GFP_KERNEL)?;
    for at in 0..len {
        // CAST: The low octet is wanted.
        octets.push((at * 31 + at / 251) as u8, GFP_KERNEL)?;
    }
    Ok(octets)
}

fn both_hear_of_each_other(address: SocketAddr) -> Result<bool> {
    let (near, far) = pair(address)?;
    let (near, far) = (near.association, far.association);
    Ok(near.local_address()?.ip() == far.local_address()?.ip()
        && near.fragmentation_point() > 0
        && near.fragmentation_point() == far.fragmentation_point())
}

pub(super) fn both_hear_over_ipv4() -> Result<bool> {
    both_hear_of_each_other(LOOPBACK)
}

pub(super) fn both_hear_over_ipv6() -> Result<bool> {
    both_hear_of_each_other((Ipv6Addr::LOCALHOST, 0).into())
}

pub(super) fn nobody_listens() -> Result<bool> {
    let address = listen(LOOPBACK, Watch::new()?)?.local_address()?;
    let mut end = connect(address)?;
    let received = end.next()?;
    Ok(received == Received::Notification(Notification::NotUp)
        && end.association.error() == Some(econnrefused()))
}

pub(super) fn chunk_is_whole() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    for len in [1, 2, 1000, LONGEST] {
        let sent = octets(len)?;
        if near.association.send(PPID, &sent)? != Sent::Done || far.chunk()? != Some(sent) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn pieces_are_one_chunk() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    let sent = octets(LONGEST)?;
    // With one that is empty, in the order in which they are there.
    let (head, rest) = sent.split_at(18);
    let (middle, last) = rest.split_at(1);
    let pieces = [head, middle, &[], last].map(SendBuf::from);
    let taken = near.association.send_pieces(PPID, pieces)?;
    Ok(taken == Sent::Done && far.chunk()? == Some(sent))
}

pub(super) fn chunk_stays_until_it_is_taken() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    // More than are looked up at a time.
    let lengths = [100, 200, 300].into_iter().cycle().take(50);
    let early = far.association.take() == Err(EINVAL);
    let first = far.association.receive()? == Received::Nothing;
    for len in lengths.clone() {
        near.association.send(PPID, &octets(len)?)?;
    }
    for len in lengths {
        let expected = octets(len)?;
        let found = far.next()?;
        let again = far.next()? == found;
        let mut part = KVec::from_elem(0, len - 7, GFP_KERNEL)?;
        copy_to(&mut part, |to| far.association.copy_to(7, to))?;
        let most = far.association.copy_to_slice(len, &mut []).is_ok();
        let beyond = far.association.copy_to_slice(len - 1, &mut [0; 2]).is_err()
            && far
                .association
                .copy_to_slice(usize::MAX, &mut [0; 2])
                .is_err();
        if !again || !most || !beyond || expected.get(7..) != Some(part.as_slice()) {
            return Ok(false);
        }
        if far.chunk()? != Some(expected) {
            return Ok(false);
        }
    }
    let none = far.association.receive()? == Received::Nothing;
    let nothing = far.association.copy_to_slice(0, &mut [0]) == Err(EINVAL);
    Ok(early && first && none && nothing)
}

pub(super) fn too_long_is_refused() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    let most = usize::try_from(near.association.fragmentation_point())?;
    let sent = octets(most + 1)?;
    let refused = near.association.send(PPID, &sent)?;
    let taken = near
        .association
        .send(PPID, sent.get(..most).ok_or(EINVAL)?)?;
    let longest = far.chunk()?;
    Ok(refused == Sent::TooLong && taken == Sent::Done && longest.as_deref() == sent.get(..most))
}

pub(super) fn full_buffer_wakes() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    let sent = octets(LONGEST)?;
    let mut chunks = 0_usize;
    while near.association.send(PPID, &sent)? == Sent::Done {
        chunks += 1;
    }
    let before = near.watch.count(Event::Writable);
    let unacknowledged = near.association.unacknowledged();
    for _ in 0..chunks {
        if far.chunk()?.as_deref() != Some(sent.as_slice()) {
            return Ok(false);
        }
    }
    let woken = wait(|| near.watch.count(Event::Writable) > before);
    let dry = wait(|| near.association.unacknowledged() == 0);
    Ok(chunks > 10
        && usize::try_from(unacknowledged)? > chunks * 512
        && woken
        && dry
        && near.association.send(PPID, &sent)? == Sent::Done)
}

pub(super) fn acknowledgement_is_seen_and_takes_no_memory() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    near.association.send(PPID, &[1])?;
    let asked = near.association.request_write_space();
    let before = near.watch.count(Event::Writable);
    far.next()?;
    let woken = near.association.unacknowledged() == 0
        || wait(|| near.watch.count(Event::Writable) > before);
    let acknowledged = wait(|| near.association.unacknowledged() == 0);
    // SCTP queues no notification that somebody would have to receive.
    let received = near.association.receive()?;
    Ok(asked && woken && acknowledged && received == Received::Nothing)
}

pub(super) fn accepted_has_functions_of_c() -> Result<bool> {
    let heard = Watch::new()?;
    let listener = listen(LOOPBACK, heard.clone())?;
    let near = connect(listener.local_address()?)?;
    if !wait(|| heard.count(Event::StateChanged) > 1) {
        return Err(EAGAIN);
    }
    let accepted = listener.accept()?.ok_or(EAGAIN)?;
    let fresh = Socket::new(&Net::init(), &LOOPBACK, Protocol::Sctp)?;
    Ok(SavedCallbacks::are_same(&accepted.socket, &fresh)
        && !SavedCallbacks::are_same(&listener.socket, &fresh)
        && near.association.error().is_none())
}

pub(super) fn end_and_loss_differ() -> Result<bool> {
    let (mut near, far) = pair(LOOPBACK)?;
    drop(far);
    let ended = near.next()? == Received::Notification(Notification::PeerShutDown);
    let (mut near, far) = pair(LOOPBACK)?;
    far.association.abort();
    let lost = near.next()? == Received::Notification(Notification::Lost);
    Ok(ended && lost)
}

pub(super) fn what_was_sent_last_arrives() -> Result<bool> {
    let (mut near, mut far) = pair(LOOPBACK)?;
    near.association.send(PPID, &[1, 2, 3])?;
    near.association.shutdown();
    let chunk = far.chunk()?;
    let received = far.next()?;
    Ok(chunk.as_deref() == Some(&[1, 2, 3])
        && received == Received::Notification(Notification::PeerShutDown))
}

pub(super) fn listener_goes_with_children() -> Result<bool> {
    let listener = listen(LOOPBACK, Watch::new()?)?;
    let mut near = connect(listener.local_address()?)?;
    let up = matches!(
        near.next()?,
        Received::Notification(Notification::Up { .. })
    );
    drop(listener);
    // The indication, and then the end.
    near.next()?;
    Ok(up
        && matches!(
            near.next()?,
            Received::Notification(Notification::Lost | Notification::PeerShutDown)
        ))
}

pub(super) fn list_is_read() -> Result<bool> {
    let mut list = parse("192.0.2.1, 2001:db8::1 ,");
    let expected: [IpAddr; 2] = [
        Ipv4Addr::new(192, 0, 2, 1).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    let read = expected
        .iter()
        .all(|address| matches!(list.next(), Some(Ok(next)) if next == *address));
    let ends = list.next().is_none() && parse("").next().is_none();
    let refused = [
        "eth0",
        "0.0.0.0",
        "224.0.0.1",
        "::",
        "fe80::1",
        "::ffff:192.0.2.1",
    ];
    let refuses = |entry: &str| matches!(parse(entry).next(), Some(Err(_)));
    Ok(read && ends && refused.into_iter().all(refuses))
}

pub(super) fn addresses_are_of_one_scope() -> Result<bool> {
    let v4 = |a, b| IpAddr::from(Ipv4Addr::new(a, b, 0, 1));
    let v6 = |first| IpAddr::from(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 1));
    let all = [v4(192, 0), v4(10, 0), v6(0x2001), v6(0xfe80), v6(0)];
    let together = [
        (v4(203, 0), v4(192, 0)),
        (v4(172, 16), v4(10, 0)),
        (v4(198, 18), v4(10, 0)),
        (v6(0xfd00), v6(0x2001)),
        (v6(0), v6(0)),
    ];
    let expected = |other, first| together.contains(&(other, first));
    let others = together.map(|(other, _)| other);
    Ok(others.into_iter().all(|other| {
        let mut firsts = all.into_iter();
        firsts.all(|first| is_same_scope(other, first) == expected(other, first))
    }))
}

pub(super) fn addresses_are_of_this_host() -> Result<bool> {
    let socket = Socket::new(&Net::init(), &LOOPBACK, Protocol::Sctp)?;
    socket.bind(LOOPBACK)?;
    let ours = bind_additional(&socket, Ipv4Addr::new(127, 0, 0, 2).into());
    let other = bind_additional(&socket, Ipv4Addr::new(192, 0, 2, 77).into());
    Ok(ours.is_ok() && other.is_err())
}
