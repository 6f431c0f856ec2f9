// SPDX-License-Identifier: GPL-2.0

//! Socket addresses, as sockets, connection managers and sunrpc have them.

use core::{
    fmt::{
        self,
        Write, //
    },
    net::{
        Ipv4Addr,
        Ipv6Addr,
        SocketAddr,
        SocketAddrV4,
        SocketAddrV6, //
    }, //
};
use kernel::prelude::*;

/// A `struct sockaddr_storage` by value: IPv4 or IPv6 address and port.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use core::net::{
///     Ipv4Addr,
///     SocketAddr, //
/// };
/// use ext::addr::SockAddr;
///
/// let port = 20049;
/// let address = SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
/// assert_eq!(address.socket_addr().map(|address| address.port()), Some(port));
///
/// pr_info!("listens at {}\n", address.text().as_c_str());
/// ```
#[derive(Clone, Copy)]
pub struct SockAddr {
    storage: cbindings::__kernel_sockaddr_storage,
    len: usize,
}

// SAFETY: It is plain bytes. C has a pointer among them for the sake of alignment, which nobody
// uses.
unsafe impl Send for SockAddr {}
// SAFETY: It is plain bytes that do not change behind `&SockAddr`.
unsafe impl Sync for SockAddr {}

impl SockAddr {
    /// Returns storage for an address of any family, for C to fill in.
    pub fn empty() -> Self {
        let storage = cbindings::__kernel_sockaddr_storage::default();
        let len = core::mem::size_of_val(&storage);
        Self { storage, len }
    }

    /// Copies `len` bytes of a socket address. [`EINVAL`] if they are too many.
    ///
    /// # Safety
    ///
    /// `addr` is valid for reads of `len` bytes.
    pub unsafe fn from_raw(addr: *const kernel::bindings::sockaddr, len: usize) -> Result<Self> {
        let mut storage = cbindings::__kernel_sockaddr_storage::default();
        if len > core::mem::size_of_val(&storage) {
            return Err(EINVAL);
        }
        // SAFETY: The caller promises that `addr` is valid for reads of `len` bytes. `storage` has
        // as many, as checked above, and is on the stack, so the two do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast::<u8>(), len)
        };
        Ok(Self { storage, len })
    }

    /// Returns a pointer for C functions that read an address. It is valid as long as `self` is.
    #[inline]
    pub fn as_raw(&self) -> *const kernel::bindings::sockaddr {
        (&raw const self.storage).cast()
    }

    /// Returns a pointer for C functions that write an address of at most [`Self::len`] bytes. It
    /// is valid as long as `self` is.
    #[inline]
    pub fn as_raw_mut(&mut self) -> *mut kernel::bindings::sockaddr {
        (&raw mut self.storage).cast()
    }

    /// Returns the whole storage, for a structure of C that contains one.
    #[inline]
    pub fn storage(&self) -> cbindings::__kernel_sockaddr_storage {
        self.storage
    }

    /// Returns the bytes of the address, for a function that takes an array of addresses.
    pub fn as_bytes(&self) -> &[u8] {
        self.all_bytes().get(..self.len).unwrap_or_default()
    }

    /// Returns all bytes of the storage.
    fn all_bytes(&self) -> &[u8] {
        // SAFETY: `storage` is plain bytes, all of them initialised, and is borrowed from `self`.
        unsafe {
            core::slice::from_raw_parts(
                (&raw const self.storage).cast::<u8>(),
                core::mem::size_of_val(&self.storage),
            )
        }
    }

    /// Returns the address family, one of `AF_*`.
    #[inline]
    pub fn family(&self) -> u32 {
        // SAFETY: Every address starts with its family, and `storage` is longer than that.
        u32::from(unsafe { (*self.as_raw()).sa_family })
    }

    /// Returns whether both are addresses of the same host, whatever their ports are.
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host().is_some_and(|host| other.host() == Some(host))
    }

    /// Returns the address without its port, as a key for tables. IPv4 addresses are mapped to
    /// IPv6; all addresses of other families have the same key.
    pub fn host_key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        let host = self.host().unwrap_or_default();
        let (at, prefix): (usize, &[u8]) = match host.len() {
            4 => (12, &[0xff, 0xff]),
            _ => (0, &[]),
        };
        for (to, from) in key.iter_mut().skip(10).zip(prefix) {
            *to = *from;
        }
        for (to, from) in key.iter_mut().skip(at).zip(host) {
            *to = *from;
        }
        key
    }

    /// Returns the address without port and family.
    fn host(&self) -> Option<&[u8]> {
        let bytes = self.all_bytes();
        match self.family() {
            cbindings::AF_INET => bytes.get(4..8),
            cbindings::AF_INET6 => bytes.get(8..24),
            _ => None,
        }
    }

    /// Returns address and port as text, for traces and the log.
    pub fn text(&self) -> AddrText {
        let mut text = AddrText::EMPTY;
        // A text that is too long would be cut off, but none is.
        let _ = match self.socket_addr() {
            // Without the scope of an IPv6 address.
            Some(addr) => write!(text, "{}", SocketAddr::new(addr.ip(), addr.port())),
            None => write!(text, "address of family {}", self.family()),
        };
        text
    }

    /// Returns the address. [`None`] if it is of another family than IPv4 and IPv6.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        // SAFETY: `storage` has room for an address of any family and is aligned for it, and all of
        // it is initialised.
        unsafe { read(self.as_raw()) }
    }

    /// Returns the length of the address in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the address has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(address: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                let to = cbindings::sockaddr_in {
                    // CAST: The family is a small number.
                    sin_family: cbindings::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: cbindings::in_addr {
                        s_addr: u32::from(*v4.ip()).to_be(),
                    },
                    ..Default::default()
                };
                raw.len = core::mem::size_of_val(&to);
                // SAFETY: The storage has room for an address of any family, and is aligned for it.
                unsafe { raw.as_raw_mut().cast::<cbindings::sockaddr_in>().write(to) };
            }
            SocketAddr::V6(v6) => {
                let to = cbindings::sockaddr_in6 {
                    // CAST: The family is a small number.
                    sin6_family: cbindings::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo().to_be(),
                    sin6_addr: cbindings::in6_addr {
                        in6_u: cbindings::in6_addr__bindgen_ty_1 {
                            u6_addr8: v6.ip().octets(),
                        },
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                raw.len = core::mem::size_of_val(&to);
                // SAFETY: The storage has room for an address of any family, and is aligned for it.
                unsafe { raw.as_raw_mut().cast::<cbindings::sockaddr_in6>().write(to) };
            }
        }
        raw
    }
}

/// Reads an IPv4 or IPv6 address. [`None`] if it is of another family.
///
/// # Safety
///
/// `address` is valid for reads of as many bytes as an address of its family has, and aligned for
/// it.
pub unsafe fn read(address: *const kernel::bindings::sockaddr) -> Option<SocketAddr> {
    // SAFETY: The caller promises a valid address, and each begins with a family.
    match u32::from(unsafe { (*address).sa_family }) {
        cbindings::AF_INET => {
            // SAFETY: The caller promises that the whole address of this family is valid.
            let v4 = unsafe { &*address.cast::<cbindings::sockaddr_in>() };
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        cbindings::AF_INET6 => {
            // SAFETY: The caller promises that the whole address of this family is valid.
            let v6 = unsafe { &*address.cast::<cbindings::sockaddr_in6>() };
            // SAFETY: All members of the union have the same octets.
            let ip = Ipv6Addr::from(unsafe { v6.sin6_addr.in6_u.u6_addr8 });
            let (flow, scope) = (u32::from_be(v6.sin6_flowinfo), v6.sin6_scope_id);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), flow, scope).into())
        }
        _ => None,
    }
}

/// An address as text.
#[derive(Clone, Copy)]
pub struct AddrText {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl AddrText {
    /// Enough for an IPv6 address in brackets and a port.
    const SIZE: usize = 64;

    /// The empty text.
    pub const EMPTY: Self = Self {
        bytes: [0; Self::SIZE],
        len: 0,
    };

    /// Returns the text.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl Write for AddrText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        // The last byte stays zero.
        let rest = self.bytes.get_mut(self.len..).filter(|_| end < Self::SIZE);
        let room = rest.and_then(|rest| rest.get_mut(..text.len()));
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
