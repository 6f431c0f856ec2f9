// SPDX-License-Identifier: GPL-2.0

//! A transport's address, and the strings that show it.
//!
//! sunrpc shows the strings in sysfs, debugfs, rpc_pipefs and logs, and sends the netid to rpcbind.
//! Some of its readers have an RCU read lock and nothing else, so a string that is replaced is
//! freed after a grace period.

use crate::prelude::*;
use core::sync::atomic::fence;
use ext::trace::Peer;
use kernel::{
    bindings::sockaddr,
    fmt,
    str::CString, //
};

const ADDR: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_ADDR as usize;
const PORT: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_PORT as usize;
const PROTO: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_PROTO as usize;
const HEX_ADDR: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_HEX_ADDR as usize;
const HEX_PORT: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_HEX_PORT as usize;
const NETID: usize = cbindings::rpc_display_format_t_RPC_DISPLAY_NETID as usize;

/// `rpc_xprt::address_strings`.
type Strings = [*const c_char; cbindings::rpc_display_format_t_RPC_DISPLAY_MAX as usize];

/// The strings that are allocated; the others are static.
const ALLOCATED: [usize; 4] = [ADDR, PORT, HEX_ADDR, HEX_PORT];

/// Returns whether the address of `args` fits into a transport.
pub(crate) fn fits(args: &cbindings::xprt_create) -> bool {
    args.addrlen <= size_of::<cbindings::__kernel_sockaddr_storage>()
}

/// Copies the address of `args` to the new transport `xprt`.
///
/// # Safety
///
/// sunrpc made `args`, whose address [`fits`].
pub(crate) unsafe fn set(xprt: &mut cbindings::rpc_xprt, args: &cbindings::xprt_create) {
    // SAFETY: sunrpc has `addrlen` bytes at `dstaddr`, and the caller has checked that they fit.
    unsafe {
        args.dstaddr
            .cast::<u8>()
            .copy_to_nonoverlapping((&raw mut xprt.addr).cast(), args.addrlen)
    };
    xprt.addrlen = args.addrlen;
}

/// Sets the strings of a new transport called `name` from its address. [`EINVAL`] for a family that
/// is neither IPv4 nor IPv6. May sleep.
pub(crate) fn format(
    xprt: &mut cbindings::rpc_xprt,
    name: &'static CStr,
    netids: [&'static CStr; 2],
) -> Result {
    let address = (&raw const xprt.addr).cast::<sockaddr>();
    // SAFETY: The storage has room for an address of any family.
    let (hex, netid) = match u32::from(unsafe { (*address).sa_family }) {
        cbindings::AF_INET => {
            // SAFETY: The family says so, and the storage has room for it.
            let ip = unsafe { (*address.cast::<cbindings::sockaddr_in>()).sin_addr.s_addr };
            (allocate(fmt!("{:08x}", u32::from_be(ip)))?, netids[0])
        }
        cbindings::AF_INET6 => {
            // SAFETY: The family says so, and the storage has room for it.
            let ip = unsafe { (*address.cast::<cbindings::sockaddr_in6>()).sin6_addr };
            // SAFETY: All members of the union are the same 16 bytes.
            let ip = u128::from_be_bytes(unsafe { ip.in6_u.u6_addr8 });
            (allocate(fmt!("{ip:032x}"))?, netids[1])
        }
        _ => return Err(EINVAL),
    };
    xprt.address_strings[HEX_ADDR] = hex;
    xprt.address_strings[NETID] = netid.as_char_ptr();
    xprt.address_strings[PROTO] = name.as_char_ptr();

    let mut text: [c_char; 128] = [0; 128];
    // SAFETY: `address` is initialised, and `text` as long as it says.
    unsafe { cbindings::rpc_ntop(address, text.as_mut_ptr(), text.len()) };
    // SAFETY: `rpc_ntop` ends what it writes with a NUL; if it wrote nothing, all are.
    xprt.address_strings[ADDR] = unsafe { duplicate(text.as_ptr()) }?;

    // SAFETY: `address` is initialised.
    let port = unsafe { cbindings::rpc_get_port(address) };
    // SAFETY: The transport is new, and nobody else has it.
    unsafe { format_port(&raw mut xprt.address_strings, port) }
}

/// Changes the port, and the strings that show it. May sleep.
///
/// # Safety
///
/// `xprt` is live and was set up by [`format`]; no other port is set meanwhile.
pub(crate) unsafe fn set_port(xprt: *mut cbindings::rpc_xprt, port: c_ushort) {
    // SAFETY: The transport is live.
    let (address, strings) = unsafe { (&raw mut (*xprt).addr, &raw mut (*xprt).address_strings) };
    // SAFETY: `format` accepted the family, which has ports.
    unsafe { cbindings::rpc_set_port(address.cast(), port) };
    // If there is no memory, the strings show the old port. Only people read them.
    // SAFETY: The transport is live, and the caller is the only one that sets the port.
    let _ = unsafe { format_port(strings, port) };
}

/// Frees the strings of a transport that has no reference any more. May sleep.
pub(crate) fn free(strings: &mut Strings) {
    for index in ALLOCATED {
        // SAFETY: There is no other reference to the transport, and so to its strings.
        unsafe { replace(&raw mut strings[index], ptr::null()) };
    }
}

/// Returns the address and the port as text.
///
/// # Safety
///
/// `xprt` is live and was set up by [`format`]. For `'a` it stays so, and the caller is an RCU
/// reader.
pub(crate) unsafe fn peer<'a>(xprt: *mut cbindings::rpc_xprt) -> Option<Peer<'a>> {
    // SAFETY: The transport is live. A write to sysfs replaces the pointer as a whole.
    let addr = unsafe { (&raw const (*xprt).address_strings[ADDR]).read_volatile() };
    // SAFETY: The transport is live. The answer of rpcbind replaces the pointer as a whole.
    let port = unsafe { (&raw const (*xprt).address_strings[PORT]).read_volatile() };
    if addr.is_null() || port.is_null() {
        return None;
    }
    // SAFETY: They are strings, which are freed with the transport, or a grace period after others
    // have replaced them.
    let (addr, port) = unsafe { (CStr::from_char_ptr(addr), CStr::from_char_ptr(port)) };
    Some(Peer { addr, port })
}

/// # Safety
///
/// `strings` are those of a live transport. Nobody else writes the strings about its port, though
/// others may read them.
unsafe fn format_port(strings: *mut Strings, port: c_ushort) -> Result {
    let text = allocate(fmt!("{port}"))?;
    // SAFETY: The caller vouches for the strings, and the index is in range.
    unsafe { replace(&raw mut (*strings)[PORT], text) };
    let hex = allocate(fmt!("{port:4x}"))?;
    // SAFETY: The caller vouches for the strings, and the index is in range.
    unsafe { replace(&raw mut (*strings)[HEX_PORT], hex) };
    Ok(())
}

/// Replaces a string. Readers see the old one or the new one.
///
/// # Safety
///
/// `string` is one of a live transport, and nobody else writes it.
unsafe fn replace(string: *mut *const c_char, new: *const c_char) {
    // SAFETY: The caller excludes other writers.
    let old = unsafe { string.read() };
    // What the new string has in it must be there before a reader finds it.
    fence(Ordering::Release);
    // SAFETY: Readers read the pointer as a whole.
    unsafe { string.write_volatile(new) };
    if !old.is_null() {
        // SAFETY: `kstrdup` made `old`, called here or (after a write to sysfs) in sunrpc, and no
        // new reader finds it.
        unsafe { cbindings::kfree_rcu_mightsleep(old.cast()) };
    }
}

/// Returns a copy of `text` that C may free.
fn allocate(text: fmt::Arguments<'_>) -> Result<*const c_char> {
    let text = CString::try_from_fmt(text)?;
    // SAFETY: A `CString` ends with a NUL.
    unsafe { duplicate(text.as_char_ptr()) }
}

/// # Safety
///
/// `text` ends with a NUL.
unsafe fn duplicate(text: *const c_char) -> Result<*const c_char> {
    // SAFETY: The caller vouches for `text`.
    let copy = unsafe { cbindings::kstrdup(text, kernel::bindings::GFP_KERNEL) };
    if copy.is_null() {
        return Err(ENOMEM);
    }
    Ok(copy)
}
