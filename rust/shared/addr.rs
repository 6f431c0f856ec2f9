// SPDX-License-Identifier: GPL-2.0

//! Addresses and namespaces, which `sunrpc` knows and `rdma` connects to.

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

// SAFETY: It is plain bytes. C has a pointer among them, for the sake of alignment, which nobody uses.
unsafe impl Send for SockAddr {}
// SAFETY: As above; nothing in it changes.
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
        // SAFETY: The caller vouches for `addr`; `storage` has room for `len` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast::<u8>(), len)
        };
        Ok(Self { storage, len })
    }

    /// For C functions that take an address by pointer. Valid as long as `self` is.
    #[inline]
    pub fn as_raw(&self) -> *const kernel::bindings::sockaddr {
        (&raw const self.storage).cast()
    }

    /// The address family, one of `AF_*`.
    #[inline]
    pub fn family(&self) -> u32 {
        // SAFETY: `storage` is longer than a family, which is what every address starts with.
        u32::from(unsafe { (*self.as_raw()).sa_family })
    }

    /// Whether it is of the same host as `other`, whatever their ports are.
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host().is_some_and(|host| other.host() == Some(host))
    }

    /// The address without its port, for tables. IPv4 addresses are mapped to IPv6; of other families
    /// all are the same.
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

    /// The address without port and family.
    fn host(&self) -> Option<&[u8]> {
        // SAFETY: `storage` is plain bytes, of which all are initialised.
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

    /// Address and port as text, for traces and the log.
    pub fn text(&self) -> AddrText {
        let mut text = AddrText::EMPTY;
        // Cut off if it were too long, which none is.
        let _ = match self.socket_addr() {
            Some(addr) => write!(text, "{addr}"),
            None => write!(text, "address of family {}", self.family()),
        };
        text
    }

    fn socket_addr(&self) -> Option<SocketAddr> {
        match self.family() {
            raw::AF_INET => {
                // SAFETY: The family says so, and `storage` is longer than that.
                let addr = unsafe { &*self.as_raw().cast::<raw::sockaddr_in>() };
                let ip = Ipv4Addr::from_bits(u32::from_be(addr.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(addr.sin_port)))
            }
            raw::AF_INET6 => {
                // SAFETY: As above.
                let addr = unsafe { &*self.as_raw().cast::<raw::sockaddr_in6>() };
                // SAFETY: All members of the union are the same 16 bytes.
                let ip = Ipv6Addr::from(unsafe { addr.sin6_addr.in6_u.u6_addr8 });
                Some(SocketAddr::new(ip.into(), u16::from_be(addr.sin6_port)))
            }
            _ => None,
        }
    }

    /// How many bytes of it count.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
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
    /// An IPv6 address in brackets, and a port.
    const SIZE: usize = 64;

    /// No address.
    pub const EMPTY: Self = Self {
        bytes: [0; Self::SIZE],
        len: 0,
    };

    /// The text.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl Write for AddrText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len.saturating_add(text.len());
        // The last byte stays.
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
/// The value owns a reference to it.
pub struct Net(NonNull<raw::net>);

// SAFETY: A `struct net` may be used from any task.
unsafe impl Send for Net {}
// SAFETY: `&Net` is as good as `Net`.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to the namespace behind `net`.
    ///
    /// # Safety
    ///
    /// Somebody has one meanwhile.
    pub unsafe fn from_raw(net: NonNull<raw::net>) -> Self {
        // SAFETY: The caller promises that it is alive.
        unsafe { raw::get_net(net.as_ptr()) };
        // INVARIANT: Just taken.
        Self(net)
    }

    /// For C functions.
    #[inline]
    pub fn as_raw(&self) -> *mut raw::net {
        self.0.as_ptr()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the type invariant, and given back once.
        unsafe { raw::put_net(self.0.as_ptr()) };
    }
}
