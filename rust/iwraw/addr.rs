// SPDX-License-Identifier: GPL-2.0

//! Addresses and namespaces, which `provider` gets from iw_cm and `socket` binds and connects to.

use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::net::SocketAddr;
use core::net::SocketAddrV4;
use core::net::SocketAddrV6;
use core::ptr::NonNull;

/// Reads an IPv4 or IPv6 address. Returns [`None`] if it is of another family.
///
/// # Safety
///
/// `address` is valid for reads of as many octets as an address of its family has.
pub unsafe fn read(address: *const kernel::bindings::sockaddr) -> Option<SocketAddr> {
    // SAFETY: The caller promises a valid address, and each begins with a family.
    match u32::from(unsafe { (*address).sa_family }) {
        crate::AF_INET => {
            // SAFETY: The caller promises that the whole address of this family is valid.
            let v4 = unsafe { &*address.cast::<crate::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        crate::AF_INET6 => {
            // SAFETY: The caller promises that the whole address of this family is valid.
            let v6 = unsafe { &*address.cast::<crate::sockaddr_in6>() };
            // SAFETY: All members of the union have the same octets.
            let ip = Ipv6Addr::from(unsafe { v6.sin6_addr.in6_u.u6_addr8 });
            let (flow, scope) = (u32::from_be(v6.sin6_flowinfo), v6.sin6_scope_id);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), flow, scope).into())
        }
        _ => None,
    }
}

/// A socket address in the form of C, by value.
#[derive(Clone, Copy)]
pub struct SockAddr {
    storage: crate::__kernel_sockaddr_storage,
    len: usize,
}

impl SockAddr {
    /// Creates storage for an address of any family, for C to fill in.
    pub fn empty() -> Self {
        let storage = crate::__kernel_sockaddr_storage::default();
        let len = core::mem::size_of_val(&storage);
        Self { storage, len }
    }

    /// Returns a pointer for C functions that read an address. It is valid as long as `self`.
    #[inline]
    pub fn as_ptr(&self) -> *const kernel::bindings::sockaddr {
        (&raw const self.storage).cast()
    }

    /// Returns a pointer for C functions that write an address of at most [`Self::len`] octets. It
    /// is valid as long as `self`.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut kernel::bindings::sockaddr {
        (&raw mut self.storage).cast()
    }

    /// Returns the length of the address in octets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the octets of the address, for a function that takes an array of addresses.
    pub fn as_octets(&self) -> &[u8] {
        // SAFETY: All of the storage is initialised by `empty`, and `len` is never more than its
        // size.
        unsafe { core::slice::from_raw_parts((&raw const self.storage).cast(), self.len) }
    }

    /// Returns the whole storage, for a structure of C that contains one.
    #[inline]
    pub fn storage(&self) -> crate::__kernel_sockaddr_storage {
        self.storage
    }

    /// Returns the address. [`None`] if it is of another family.
    pub fn get(&self) -> Option<SocketAddr> {
        // SAFETY: The storage has room for an address of any family, and all of it is initialised.
        unsafe { read(self.as_ptr()) }
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(address: SocketAddr) -> Self {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                let to = crate::sockaddr_in {
                    // CAST: The family is a small number.
                    sin_family: crate::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: crate::in_addr {
                        s_addr: u32::from(*v4.ip()).to_be(),
                    },
                    ..Default::default()
                };
                raw.len = core::mem::size_of_val(&to);
                // SAFETY: The storage has room for an address of any family, and is aligned for it.
                unsafe { raw.as_mut_ptr().cast::<crate::sockaddr_in>().write(to) };
            }
            SocketAddr::V6(v6) => {
                let to = crate::sockaddr_in6 {
                    // CAST: The family is a small number.
                    sin6_family: crate::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo().to_be(),
                    sin6_addr: crate::in6_addr {
                        in6_u: crate::in6_addr__bindgen_ty_1 {
                            u6_addr8: v6.ip().octets(),
                        },
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                raw.len = core::mem::size_of_val(&to);
                // SAFETY: The storage has room for an address of any family, and is aligned for it.
                unsafe { raw.as_mut_ptr().cast::<crate::sockaddr_in6>().write(to) };
            }
        }
        raw
    }
}

/// A network namespace.
///
/// # Invariants
///
/// The value owns a reference to the namespace.
pub struct Net(NonNull<crate::net>);

// SAFETY: A `struct net` may be used, and its reference dropped, from any task.
unsafe impl Send for Net {}
// SAFETY: `&Net` allows what `Net` does, which any task may do: the count is atomic.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to the namespace.
    ///
    /// # Safety
    ///
    /// The caller has a reference, or otherwise keeps the namespace during the call.
    pub unsafe fn from_raw(net: NonNull<crate::net>) -> Self {
        // SAFETY: The caller promises that the namespace is alive.
        unsafe { crate::get_net(net.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self(net)
    }

    /// Returns the initial namespace.
    pub fn init() -> Self {
        // SAFETY: The address of a static is not null, and the initial namespace is never freed.
        unsafe { Self::from_raw(NonNull::new_unchecked(&raw mut crate::init_net)) }
    }

    /// Returns the pointer for C functions.
    #[inline]
    pub fn as_raw(&self) -> *mut crate::net {
        self.0.as_ptr()
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Net {}

impl Clone for Net {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants `self` has a reference, which keeps the namespace.
        unsafe { Self::from_raw(self.0) }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is dropped once.
        unsafe { crate::put_net(self.0.as_ptr()) };
    }
}
