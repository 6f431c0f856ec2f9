// SPDX-License-Identifier: GPL-2.0

//! Creation of server transports: a listener for an administrator, a connection for each peer.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! `xpo_create` and `xpo_accept` of `struct svc_xprt_ops`.

use crate::{
    svc_transport::{
        SvcConnection,
        SvcListener, //
    },
    svc_work::{
        connection_functions,
        listener_functions, //
    },
    svc_xprt::SvcXprt,
    Net,
    SockAddr, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

impl<L: SvcListener> SvcXprt<L> {
    /// Reports a peer that waits to be accepted. Does not sleep.
    pub fn connection_pending(&self) {
        self.set_flag(raw::XPT_CONN);
        self.enqueue();
    }

    /// Creates a listener with the functions `ops`. The caller gets the reference that sunrpc drops
    /// when it closes the listener.
    ///
    /// # Safety
    ///
    /// `xpo_create` is the caller, and `serv` and `net` are its arguments.
    pub(crate) unsafe fn listen(
        serv: *mut raw::svc_serv,
        net: *mut raw::net,
        address: &SockAddr,
        ops: &'static raw::svc_xprt_ops,
    ) -> Result<NonNull<raw::svc_xprt>> {
        let functions = listener_functions::<L>();
        // SAFETY: sunrpc vouches for its arguments; the class is static; the functions are those
        // for `L`.
        let this = unsafe { Self::create(L::class().as_raw(), ops, net, serv, functions, L::new) }?;
        // SAFETY: `create` made it, and this function has its only reference.
        let listener = unsafe { this.as_ref() };
        listener.set_flag(raw::XPT_LISTENER);
        listener.set_flag(raw::XPT_CONG_CTRL);
        listener.set_remote_name(c"listener");
        let started = NonNull::new(net).ok_or(EINVAL).and_then(|net| {
            // SAFETY: The transport has a reference to its namespace.
            let net = unsafe { Net::from_raw(net) };
            listener.parts.state.listen(net, address)
        });
        match started {
            Ok(local) => {
                listener.set_local(&local);
                Ok(this.cast())
            }
            Err(error) => {
                // SAFETY: sunrpc is the caller.
                unsafe { L::class().get_module() };
                // SAFETY: `create` made the transport with this reference.
                unsafe { raw::svc_xprt_put(this.as_ptr().cast()) };
                Err(error)
            }
        }
    }

    /// Creates a connection of the next peer that waits, with the functions `ops`.
    ///
    /// # Safety
    ///
    /// `xpo_accept` is the caller.
    pub(crate) unsafe fn accept(
        &self,
        ops: &'static raw::svc_xprt_ops,
    ) -> Option<NonNull<raw::svc_xprt>> {
        // A peer that comes after this has the flag set again.
        self.clear_flag(raw::XPT_CONN);
        let (incoming, more) = self.parts.state.next();
        if more {
            self.set_flag(raw::XPT_CONN);
        }
        let incoming = incoming?;
        let peer = L::peer(&incoming);
        // SAFETY: The listener is live, and does not change these.
        let (net, serv) = unsafe { ((*self.as_raw()).xpt_net, (*self.as_raw()).xpt_server) };
        // SAFETY: The connection has the listener's namespace and service. sunrpc takes a reference
        // to the namespace for it, and frees the service when it has no transports any more; the
        // class is static.
        let made = unsafe {
            SvcXprt::<L::Connection>::create(
                L::class().as_raw(),
                ops,
                net,
                serv,
                connection_functions::<L::Connection>(),
                |weak| self.parts.state.accept(incoming, weak),
            )
        };
        let this = made
            .inspect_err(|error| self.parts.state.rejected(&peer, *error))
            .ok()?;
        // SAFETY: `create` made it, and this function has its only reference.
        let connection = unsafe { this.as_ref() };
        connection.set_flag(raw::XPT_CONG_CTRL);
        let started = connection
            .parts
            .state
            .addresses()
            .and_then(|(local, remote)| {
                connection.set_local(&local);
                connection.set_remote(&remote);
                if local.is_same_host(&remote) {
                    connection.set_flag(raw::XPT_LOCAL);
                }
                connection.parts.state.start(connection)
            });
        if let Err(error) = started {
            self.parts.state.rejected(&peer, error);
            // SAFETY: sunrpc is the caller.
            unsafe { L::class().get_module() };
            // SAFETY: `create` made the transport with this reference.
            unsafe { raw::svc_xprt_put(this.as_ptr().cast()) };
            return None;
        }
        Some(this.cast())
    }
}
