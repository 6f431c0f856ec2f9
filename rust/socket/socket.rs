// SPDX-License-Identifier: GPL-2.0

//! A kernel socket that this crate owns, and its lock.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::prelude::*;
use core::ptr::null_mut;
use ext::{
    addr::SockAddr,
    errno::{
        eaddrinuse,
        eafnosupport,
        einprogress, //
    }, //
};
use kernel::types::NotThreadSafe;

/// The protocol of a socket.
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
/// `ptr` is such a socket with a `sk`, which this value owns and releases in `drop` only. It has a
/// reference to its namespace. No file descriptor leads to it.
pub(crate) struct Socket {
    ptr: NonNull<cbindings::socket>,
}

// SAFETY: A socket belongs to no task, and C's functions for it take its locks.
unsafe impl Send for Socket {}
// SAFETY: C's functions for a socket take its locks. Operations that must not run twice at a time
// take `&mut` of the socket's owner, or its lock.
unsafe impl Sync for Socket {}

impl Socket {
    /// Creates a socket for addresses like `address` in the namespace. Sleeps; loads the protocol's
    /// module if it has one.
    pub(crate) fn new(net: &Net, address: &SocketAddr, protocol: Protocol) -> Result<Self> {
        let protocol = match protocol {
            Protocol::Tcp => cbindings::IPPROTO_TCP,
            Protocol::Sctp => cbindings::IPPROTO_SCTP,
        };
        let family = match address {
            SocketAddr::V4(_) => cbindings::AF_INET,
            SocketAddr::V6(_) => cbindings::AF_INET6,
        };
        let mut ptr = null_mut();
        // SAFETY: `net` has a reference to its namespace. CAST: The numbers are small.
        to_result(unsafe {
            cbindings::sock_create_kern(
                net.as_raw(),
                family as i32,
                cbindings::sock_type_SOCK_STREAM as i32,
                protocol as i32,
                &mut ptr,
            )
        })?;
        let ptr = NonNull::new(ptr).ok_or(EINVAL)?;
        // SAFETY: A socket that was just created has a `sk` that nobody else uses. The kernel
        // created it, so it has no reference to its namespace, which `net` holds meanwhile.
        unsafe { cbindings::sk_net_refcnt_upgrade((*ptr.as_ptr()).sk) };
        // INVARIANT: The socket was just created so.
        Ok(Self { ptr })
    }

    /// Takes ownership of a socket.
    ///
    /// # Safety
    ///
    /// It is as the type invariants say, and nobody else owns it.
    pub(crate) unsafe fn from_raw(ptr: NonNull<cbindings::socket>) -> Self {
        // INVARIANT: The caller promises it.
        Self { ptr }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut cbindings::socket {
        self.ptr.as_ptr()
    }

    /// Returns the protocol's part of it, which is there as long as `self`.
    #[inline]
    pub(crate) fn sk(&self) -> *mut cbindings::sock {
        // SAFETY: By the type invariants the socket has a `sk`, which it keeps until it is
        // released.
        unsafe { (*self.as_raw()).sk }
    }

    /// Takes the socket's lock. Sleeps.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        // SAFETY: By the type invariants the socket is live. Nothing in this crate takes the lock
        // twice: the holder releases it before it calls a function of this crate that takes it.
        unsafe { cbindings::lock_sock(self.sk()) };
        // INVARIANT: The lock was just taken.
        Locked {
            socket: self,
            _task: NotThreadSafe,
        }
    }

    /// Binds to an address. Sleeps.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result {
        let mut raw = SockAddr::from(address);
        let len = i32::try_from(raw.len())?;
        // SAFETY: By the type invariants the socket is live. C reads the address during the call.
        to_result(unsafe { cbindings::kernel_bind(self.as_raw(), raw.as_raw_mut().cast(), len) })
    }

    /// Binds it; to any port if that one is in use. Sleeps.
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
        let mut raw = SockAddr::from(remote);
        let len = i32::try_from(raw.len())?;
        // SAFETY: By the type invariants the socket is live. C reads the address during the call.
        // CAST: The flag is a small number.
        let started = to_result(unsafe {
            cbindings::kernel_connect(
                self.as_raw(),
                raw.as_raw_mut().cast(),
                len,
                cbindings::O_NONBLOCK as i32,
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
        // SAFETY: By the type invariants the socket is live, and its table of functions is
        // constant. C copies `len` octets of the value, which is there during the call, and writes
        // none.
        to_result(unsafe {
            let set = (*(*self.as_raw()).ops).setsockopt.ok_or(EINVAL)?;
            let value = cbindings::KERNEL_SOCKPTR((&raw const *value).cast_mut().cast());
            set(self.as_raw(), level, name, value, len)
        })
    }

    /// Tells the peer that no more is sent, behind everything that was. Sleeps for the socket's
    /// lock.
    pub(crate) fn shutdown_send(&self) {
        // SAFETY: By the type invariants the socket is live. An error means that it is not
        // connected.
        unsafe {
            cbindings::kernel_sock_shutdown(self.as_raw(), cbindings::sock_shutdown_cmd_SHUT_WR)
        };
    }

    /// Makes the release of the socket abort its connection, without delivery of what was sent.
    /// Sleeps.
    pub(crate) fn abort_when_released(&self) {
        // SAFETY: By the type invariants the socket is live, and has this `sk`.
        unsafe { cbindings::sock_no_linger(self.sk()) };
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr> {
        let mut address = SockAddr::empty();
        // SAFETY: By the type invariants the socket is live, and the storage has room for any
        // address.
        let len = unsafe { cbindings::kernel_getsockname(self.as_raw(), address.as_raw_mut()) };
        found(len, &address)
    }

    pub(crate) fn peer_address(&self) -> Result<SocketAddr> {
        let mut address = SockAddr::empty();
        // SAFETY: By the type invariants the socket is live, and the storage has room for any
        // address.
        let len = unsafe { cbindings::kernel_getpeername(self.as_raw(), address.as_raw_mut()) };
        found(len, &address)
    }
}

fn found(len: i32, address: &SockAddr) -> Result<SocketAddr> {
    if len < 0 {
        return Err(Error::from_errno(len));
    }
    address.socket_addr().ok_or_else(eafnosupport)
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: By the type invariants this value owns the socket, which is released once.
        unsafe { cbindings::sock_release(self.as_raw()) };
    }
}

/// A socket whose lock is held.
///
/// # Invariants
///
/// The task that made it holds the lock of `socket`, and this is the only value for it.
pub(crate) struct Locked<'s> {
    socket: &'s Socket,
    _task: NotThreadSafe,
}

impl Locked<'_> {
    #[inline]
    pub(crate) fn sk(&self) -> *mut cbindings::sock {
        self.socket.sk()
    }

    /// Returns the socket of `sk`.
    #[inline]
    pub(crate) fn socket(&self) -> *mut cbindings::socket {
        self.socket.as_raw()
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants this task holds the lock.
        unsafe { cbindings::release_sock(self.sk()) };
    }
}
