// SPDX-License-Identifier: GPL-2.0

//! Secondary addresses of an association (RFC 9260, section 6.4): the module's parameter
//! `sctp_addresses`.
//!
//! Each end offers its own when the association is set up, and SCTP sends to another address of the
//! peer when one does not answer.
// Argues for S7.2-3.

use crate::prelude::*;
use core::{
    net::IpAddr,
    sync::atomic::AtomicBool, //
};
use ext::{
    addr::SockAddr,
    errno::eaddrnotavail, //
};

/// The number of retransmissions until an association with several paths is given up. Those of all
/// paths count, so there are more than of one path.
const MAX_RETRANSMISSIONS: u16 = 20;

/// An address was refused, and the log says so.
static WARNED: AtomicBool = AtomicBool::new(false);

/// Parses a list of addresses with commas between them.
pub(crate) fn parse(list: &str) -> impl Iterator<Item = Result<IpAddr>> + '_ {
    let entries = list.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(|entry| {
        let address = entry.parse().map_err(|_| EINVAL)?;
        usable(address).then_some(address).ok_or(EINVAL)
    })
}

/// Returns whether it is an address of a host, and needs no interface to be understood.
fn usable(address: IpAddr) -> bool {
    let ip = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && v6.to_ipv4_mapped().is_none(),
    };
    ip && !address.is_unspecified() && !address.is_multicast()
}

/// Returns the addresses of the parameter.
fn all() -> impl Iterator<Item = Result<IpAddr>> {
    // SAFETY: C returns the string of the parameter, which ends with a zero and does not change
    // while the module is loaded.
    let list = unsafe { CStr::from_char_ptr(cbindings::sctp_addresses()) };
    // Octets that are no text have no address in them.
    parse(list.to_str().unwrap_or("?"))
}

/// Checks the parameter. [`EINVAL`] if something in it is no address of a host.
pub fn check() -> Result {
    all().try_for_each(|address| address.map(drop))
}

/// Returns whether the parameter has this address.
pub fn contains(address: IpAddr) -> bool {
    all().any(|other| other == Ok(address))
}

/// Returns whether SCTP offers `other` to a peer that it talks to from `first`: the address of a
/// private network means nothing elsewhere. If it were bound nevertheless, it could be all that is
/// offered.
pub(crate) fn is_same_scope(other: IpAddr, first: IpAddr) -> bool {
    match (other, first) {
        (IpAddr::V4(other), IpAddr::V4(first)) => {
            let is_benchmark = |octets: [u8; 4]| octets[0] == 198 && octets[1] & 0xfe == 18;
            let scope = |ip: core::net::Ipv4Addr| {
                let is_private = ip.is_private() || is_benchmark(ip.octets());
                (is_private, ip.is_link_local(), ip.is_loopback())
            };
            scope(other) == scope(first)
        }
        (IpAddr::V6(other), IpAddr::V6(first)) => {
            !first.is_unicast_link_local() && other.is_loopback() == first.is_loopback()
        }
        _ => false,
    }
}

/// Binds `socket`, which is bound to `first` and has no association, to the secondary addresses of
/// the same scope, as far as its namespace has them and nobody listens there; and to no other one
/// of IPv4. To be called again when they may have changed. Sleeps for the socket's lock.
pub(super) fn bind_secondary(socket: &Socket, first: SocketAddr) {
    let mut any = false;
    for other in all().flatten() {
        if other == first.ip() || !is_same_scope(other, first.ip()) {
            continue;
        }
        match bind_additional(socket, other) {
            Ok(()) => any = true,
            // It is bound already.
            Err(error) if error == EINVAL => (),
            // It is of another namespace, will come, or has gone. Then it may be bound still. An
            // IPv6 address may be there and tentative, and no notifier says when duplicate address
            // detection is over.
            Err(error) if error == eaddrnotavail() => {
                if other.is_ipv4() {
                    let _ = unbind(socket, other);
                }
            }
            Err(error) => {
                if !WARNED.swap(true, Ordering::Relaxed) {
                    pr_warn!("peers of {first:?} are not offered {other:?}: {error:?}; this is logged once\n");
                }
            }
        }
    }
    if any {
        let more = cbindings::sctp_assocparams {
            sasoc_asocmaxrxt: MAX_RETRANSMISSIONS,
            ..Default::default()
        };
        // Without it, fewer failures are survived.
        let _ = socket.set_option(cbindings::IPPROTO_SCTP, cbindings::SCTP_ASSOCINFO, &more);
    }
}

/// Binds it to one more address.
pub(crate) fn bind_additional(socket: &Socket, other: IpAddr) -> Result {
    // The port is that of the socket.
    let mut raw = SockAddr::from(SocketAddr::new(other, 0));
    let len = i32::try_from(raw.len())?;
    // SAFETY: `socket` owns the socket, and C takes its lock itself. It reads the address, and
    // writes the port there, during the call.
    to_result(unsafe { cbindings::sock_bind_add(socket.sk(), raw.as_raw_mut().cast(), len) })
}

/// Unbinds an address. Fails if it is not bound.
fn unbind(socket: &Socket, other: IpAddr) -> Result {
    let raw = SockAddr::from(SocketAddr::new(other, 0));
    socket.set_option(
        cbindings::IPPROTO_SCTP,
        cbindings::SCTP_SOCKOPT_BINDX_REM,
        raw.as_bytes(),
    )
}
