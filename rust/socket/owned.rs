// SPDX-License-Identifier: GPL-2.0

//! A kernel socket that is ours, and its lock.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use core::mem::size_of_val;
use core::net::SocketAddr;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::addr::Net;
use iwraw::addr::RawAddr;
use iwraw::errno::eaddrinuse;
use iwraw::errno::eafnosupport;
use iwraw::errno::einprogress;
use kernel::error::code::EINVAL;
use kernel::error::to_result;
use kernel::error::Error;
use kernel::error::Result;
use kernel::types::NotThreadSafe;

/// Which protocol a socket is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    /// One association per socket.
    Sctp,
}

/// A socket of the kernel, of TCP or SCTP.
///
/// # Invariants
///
/// `ptr` is such a socket with a `sk`, which belongs to this value and is released in `drop` only. It has a
/// reference to its namespace. No file descriptor leads to it.
pub(crate) struct Socket {
    ptr: NonNull<iwraw::socket>,
}

// SAFETY: A socket belongs to no task, and C's functions for it take its locks.
unsafe impl Send for Socket {}
// SAFETY: As above. What must not happen twice at a time takes `&mut` of what owns the socket, or its lock.
unsafe impl Sync for Socket {}

impl Socket {
    /// A socket for addresses like `address` in the namespace. Sleeps; loads the protocol's module if it has one.
    pub(crate) fn new(net: &Net, address: &SocketAddr, protocol: Protocol) -> Result<Self> {
        let protocol = match protocol {
            Protocol::Tcp => iwraw::IPPROTO_TCP,
            Protocol::Sctp => iwraw::IPPROTO_SCTP,
        };
        let family = match address {
            SocketAddr::V4(_) => iwraw::AF_INET,
            SocketAddr::V6(_) => iwraw::AF_INET6,
        };
        let mut ptr = null_mut();
        // SAFETY: `net` has a reference to its namespace. CAST: The numbers are small.
        to_result(unsafe {
            iwraw::sock_create_kern(
                net.as_raw(),
                family as i32,
                iwraw::sock_type_SOCK_STREAM as i32,
                protocol as i32,
                &mut ptr,
            )
        })?;
        let ptr = NonNull::new(ptr).ok_or(EINVAL)?;
        // SAFETY: A socket that was just made has a `sk` that nobody else uses, made by the kernel and so without a reference
        // to its namespace, which `net` holds meanwhile.
        unsafe { iwraw::sk_net_refcnt_upgrade((*ptr.as_ptr()).sk) };
        // INVARIANT: Just made so.
        Ok(Self { ptr })
    }

    /// Takes over a socket.
    ///
    /// # Safety
    ///
    /// It is as the type invariants say, and belongs to nobody else.
    pub(crate) unsafe fn from_raw(ptr: NonNull<iwraw::socket>) -> Self {
        // INVARIANT: The caller promises it.
        Self { ptr }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut iwraw::socket {
        self.ptr.as_ptr()
    }

    /// The protocol's part of it, there as long as `self`.
    #[inline]
    pub(crate) fn sk(&self) -> *mut iwraw::sock {
        // SAFETY: A socket keeps its `sk` until it is released.
        unsafe { (*self.as_raw()).sk }
    }

    /// Takes the socket's lock. Sleeps.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        // SAFETY: The socket is there as long as `self`. Nothing here takes the lock twice: it is dropped by whoever took it
        // before anything else of this crate is called that takes it.
        unsafe { iwraw::lock_sock(self.sk()) };
        // INVARIANT: Just taken.
        Locked {
            socket: self,
            _task: NotThreadSafe,
        }
    }

    /// Binds to an address. Sleeps.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result {
        let mut raw = RawAddr::from(address);
        let len = i32::try_from(raw.len())?;
        // SAFETY: The socket is there by the type invariants. C reads the address during the call.
        to_result(unsafe { iwraw::kernel_bind(self.as_raw(), raw.as_mut_ptr().cast(), len) })
    }

    /// Binds it; to any port if that one is taken. Sleeps.
    pub(crate) fn bind_or_any_port(&self, mut local: SocketAddr) -> Result {
        match self.bind(local) {
            Err(error) if error == eaddrinuse() => {
                local.set_port(0);
                self.bind(local)
            }
            result => result,
        }
    }

    /// Starts to connect. Sleeps, but does not wait for the peer.
    pub(crate) fn start_connecting(&self, remote: SocketAddr) -> Result {
        let mut raw = RawAddr::from(remote);
        let len = i32::try_from(raw.len())?;
        // SAFETY: The socket is there by the type invariants. C reads the address during the call. CAST: The flag is a small number.
        let started = to_result(unsafe {
            iwraw::kernel_connect(
                self.as_raw(),
                raw.as_mut_ptr().cast(),
                len,
                iwraw::O_NONBLOCK as i32,
            )
        });
        match started {
            Err(error) if error != einprogress() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets an option of the protocol. Sleeps for the socket's lock.
    pub(crate) fn set_option<T: ?Sized>(&self, level: u32, name: u32, value: &T) -> Result {
        let (level, name) = (i32::try_from(level)?, i32::try_from(name)?);
        let len = u32::try_from(size_of_val(value))?;
        // SAFETY: The socket is there by the type invariants, and its table of functions is constant. C copies `len` octets of
        // the value, which is there during the call, and writes none.
        to_result(unsafe {
            let set = (*(*self.as_raw()).ops).setsockopt.ok_or(EINVAL)?;
            let value = iwraw::KERNEL_SOCKPTR((&raw const *value).cast_mut().cast());
            set(self.as_raw(), level, name, value, len)
        })
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr> {
        let mut address = RawAddr::empty();
        // SAFETY: The socket is there by the type invariants, and the storage has room for any address.
        let len = unsafe { iwraw::kernel_getsockname(self.as_raw(), address.as_mut_ptr()) };
        found(len, &address)
    }

    pub(crate) fn peer_address(&self) -> Result<SocketAddr> {
        let mut address = RawAddr::empty();
        // SAFETY: As above.
        let len = unsafe { iwraw::kernel_getpeername(self.as_raw(), address.as_mut_ptr()) };
        found(len, &address)
    }
}

fn found(len: i32, address: &RawAddr) -> Result<SocketAddr> {
    if len < 0 {
        return Err(Error::from_errno(len));
    }
    address.get().ok_or_else(eafnosupport)
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is ours, and released once.
        unsafe { iwraw::sock_release(self.as_raw()) };
    }
}

/// A socket whose lock is held.
///
/// # Invariants
///
/// The task that made it holds the lock of `socket`, and is the only one to have it.
pub(crate) struct Locked<'s> {
    socket: &'s Socket,
    _task: NotThreadSafe,
}

impl Locked<'_> {
    #[inline]
    pub(crate) fn sk(&self) -> *mut iwraw::sock {
        self.socket.sk()
    }

    /// The socket of `sk`.
    #[inline]
    pub(crate) fn socket(&self) -> *mut iwraw::socket {
        self.socket.as_raw()
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The lock is held by the type invariants.
        unsafe { iwraw::release_sock(self.sk()) };
    }
}
