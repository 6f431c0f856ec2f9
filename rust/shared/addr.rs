// SPDX-License-Identifier: GPL-2.0

//! Socket addresses and network namespaces, which `sunrpc` knows and `rdma` connects to.

use core::{
    ffi::CStr,
    fmt::{
        self,
        Write, //
    },
    net::{
        Ipv4Addr,
        Ipv6Addr,
        SocketAddr, //
    },
    ptr::NonNull, //
};
use kernel::error::{
    code::EINVAL,
    Result, //
};

/// A `struct sockaddr_storage` by value: IPv4 or IPv6 address and port.
#[derive(Clone, Copy)]
pub struct SockAddr {
    storage: raw::__kernel_sockaddr_storage,
    len: usize,
}

// SAFETY: It is plain bytes. C has a pointer among them for the sake of alignment, which nobody
// uses.
unsafe impl Send for SockAddr {}
// SAFETY: It is plain bytes that do not change behind `&SockAddr`.
unsafe impl Sync for SockAddr {}

impl SockAddr {
    /// Copies `len` bytes of a socket address. [`EINVAL`] if they are too many.
    ///
    /// # Safety
    ///
    /// `addr` is valid for reads of `len` bytes.
    pub unsafe fn from_raw(addr: *const kernel::bindings::sockaddr, len: usize) -> Result<Self> {
        let mut storage = raw::__kernel_sockaddr_storage::default();
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

    /// Returns a pointer for C functions that take an address. It is valid as long as `self` is.
    #[inline]
    pub fn as_raw(&self) -> *const kernel::bindings::sockaddr {
        (&raw const self.storage).cast()
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
        // SAFETY: `storage` is plain bytes, all of them initialised, and is borrowed from `self`.
        let bytes = unsafe {
            core::slice::from_raw_parts(
                (&raw const self.storage).cast::<u8>(),
                core::mem::size_of_val(&self.storage),
            )
        };
        match self.family() {
            raw::AF_INET => bytes.get(4..8),
            raw::AF_INET6 => bytes.get(8..24),
            _ => None,
        }
    }

    /// Returns address and port as text, for traces and the log.
    pub fn text(&self) -> AddrText {
        let mut text = AddrText::EMPTY;
        // A text that is too long would be cut off, but none is.
        let _ = match self.socket_addr() {
            Some(addr) => write!(text, "{addr}"),
            None => write!(text, "address of family {}", self.family()),
        };
        text
    }

    fn socket_addr(&self) -> Option<SocketAddr> {
        match self.family() {
            raw::AF_INET => {
                // SAFETY: An address of the family `AF_INET` is a `sockaddr_in`, and `storage` is
                // longer than that and aligned for every address.
                let addr = unsafe { &*self.as_raw().cast::<raw::sockaddr_in>() };
                let ip = Ipv4Addr::from_bits(u32::from_be(addr.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(addr.sin_port)))
            }
            raw::AF_INET6 => {
                // SAFETY: An address of the family `AF_INET6` is a `sockaddr_in6`, and `storage` is
                // longer than that and aligned for every address.
                let addr = unsafe { &*self.as_raw().cast::<raw::sockaddr_in6>() };
                // SAFETY: All members of the union are the same 16 bytes, initialised with
                // `storage`.
                let ip = Ipv6Addr::from(unsafe { addr.sin6_addr.in6_u.u6_addr8 });
                Some(SocketAddr::new(ip.into(), u16::from_be(addr.sin6_port)))
            }
            _ => None,
        }
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
        let room = self
            .bytes
            .get_mut(self.len..end)
            .filter(|_| end < Self::SIZE);
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// A network namespace.
///
/// # Invariants
///
/// The pointer is to a live `struct net`, to which the value owns a reference.
pub struct Net(NonNull<raw::net>);

// SAFETY: The reference belongs to no task, and the last one may be put in any.
unsafe impl Send for Net {}
// SAFETY: `&Net` gives only the pointer, and a `struct net` may be used from any task.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to the namespace behind `net`.
    ///
    /// # Safety
    ///
    /// Somebody has a reference to it during the call.
    pub unsafe fn from_raw(net: NonNull<raw::net>) -> Self {
        // SAFETY: The caller promises that somebody has a reference, so the namespace is live.
        unsafe { raw::get_net(net.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self(net)
    }

    /// Returns the pointer for C functions.
    #[inline]
    pub fn as_raw(&self) -> *mut raw::net {
        self.0.as_ptr()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is put only here.
        unsafe { raw::put_net(self.0.as_ptr()) };
    }
}
