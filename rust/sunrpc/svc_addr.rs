// SPDX-License-Identifier: GPL-2.0

//! The addresses of a server transport.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! `xpt_local`, `xpt_remote` and `xpt_remotebuf` of `struct svc_xprt`.

use crate::{
    svc_xprt::SvcXprt,
    SockAddr, //
};
use core::mem::size_of;
use kernel::prelude::*;

/// The addresses that sunrpc shows of a transport, which are set before anyone can look.
impl<S: Send + Sync + 'static> SvcXprt<S> {
    pub(crate) fn set_local(&self, address: &SockAddr) {
        let xprt = self.as_raw();
        // SAFETY: The caller is making the transport, so nobody else accesses these two fields, and
        // the storage has room for every address.
        unsafe {
            store(address, &raw mut (*xprt).xpt_local);
            (*xprt).xpt_locallen = ip_len(address);
        }
    }

    pub(crate) fn set_remote(&self, address: &SockAddr) {
        let xprt = self.as_raw();
        // SAFETY: The caller is making the transport, so nobody else accesses these two fields, and
        // the storage has room for every address.
        unsafe {
            store(address, &raw mut (*xprt).xpt_remote);
            (*xprt).xpt_remotelen = ip_len(address);
        }
        // SAFETY: The caller is making the transport, so nobody else accesses the buffer.
        let text = unsafe { &mut (*xprt).xpt_remotebuf };
        // SAFETY: The buffer is as long as it says.
        unsafe { raw::rpc_ntop(address.as_raw(), text.as_mut_ptr(), text.len()) };
        // The reply cache of NFSv3 identifies a client by its address. The client does not choose
        // the port, and has another one after each reconnect.
        // SAFETY: `store` has written the address.
        unsafe { raw::rpc_set_port((&raw mut (*xprt).xpt_remote).cast(), 0) };
    }

    pub(crate) fn set_remote_name(&self, name: &CStr) {
        // SAFETY: The caller is making the transport, so nobody else accesses the buffer.
        let text = unsafe { &mut (*self.as_raw()).xpt_remotebuf };
        for (to, from) in text.iter_mut().zip(name.to_bytes_with_nul()) {
            // CAST: A byte is a character of C.
            *to = *from as kernel::ffi::c_char;
        }
    }
}

/// # Safety
///
/// `to` is valid for writes.
unsafe fn store(address: &SockAddr, to: *mut raw::__kernel_sockaddr_storage) {
    // SAFETY: A `SockAddr` is no longer than the storage.
    unsafe {
        address
            .as_raw()
            .cast::<u8>()
            .copy_to_nonoverlapping(to.cast(), address.len())
    };
}

/// Returns the length of `address` in its family, which may be less than that of the storage it
/// came in.
fn ip_len(address: &SockAddr) -> usize {
    match address.family() {
        family if family == raw::AF_INET => size_of::<raw::sockaddr_in>(),
        family if family == raw::AF_INET6 => size_of::<raw::sockaddr_in6>(),
        _ => address.len(),
    }
}
