// SPDX-License-Identifier: GPL-2.0

//! Secondary addresses of an association.

use super::fixture::LOOPBACK;
use crate::sctp::addresses::bind_additional;
use crate::sctp::addresses::is_same_scope;
use crate::sctp::addresses::parse;
use crate::socket::Protocol;
use crate::socket::Socket;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use iwraw::addr::Net;
use kernel::prelude::*;

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
