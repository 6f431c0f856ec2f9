// SPDX-License-Identifier: GPL-2.0

//! The server's transport class, and the creation of its transports: a listener for an
//! administrator, a connection for each peer.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h), `struct
//! svc_xprt_class`, `xpo_create` and `xpo_accept` of `struct svc_xprt_ops`.

use crate::prelude::*;
use crate::{
    svc::{
        transport::SvcListener,
        xprt, //
    },
    workqueue::{
        RunningQueue,
        SERVER, //
    },
    Net, //
};
use core::cell::UnsafeCell;
use kernel::{
    bindings::list_head,
    error::to_result, //
};

/// A server transport class, to be a `static` of the module.
///
/// # Invariants
///
/// `class.xcl_owner` is null or the module that the class belongs to; it changes only before the
/// class is registered. sunrpc alone touches `class.xcl_list` while it is.
pub struct SvcClass<L> {
    class: UnsafeCell<cbindings::svc_xprt_class>,
    registered: AtomicBool,
    _listener: PhantomData<fn() -> L>,
}

// SAFETY: The pointers in it are to statics. sunrpc guards what changes after the registration,
// and `registered` keeps a second one from touching it.
unsafe impl<L> Sync for SvcClass<L> {}

impl<L> SvcClass<L> {
    /// Creates the class of listeners `L`. It is not registered.
    ///
    /// # Safety
    ///
    /// sunrpc may call `xpo_create` of `ops` to make a listener of this class, while that is
    /// registered.
    pub(crate) const unsafe fn with_ops(
        name: &'static CStr,
        ident: c_int,
        max_payload: u32,
        ops: &'static cbindings::svc_xprt_ops,
    ) -> Self {
        // INVARIANT: No owner yet, and not registered.
        Self {
            class: UnsafeCell::new(cbindings::svc_xprt_class {
                xcl_name: name.to_bytes_with_nul().as_ptr().cast(),
                xcl_owner: ptr::null_mut(),
                xcl_ops: ops,
                xcl_list: list_head {
                    next: ptr::null_mut(),
                    prev: ptr::null_mut(),
                },
                xcl_max_payload: max_payload,
                xcl_ident: ident,
            }),
            registered: AtomicBool::new(false),
            _listener: PhantomData,
        }
    }

    /// Makes the class known to sunrpc, until the returned value is dropped.
    ///
    /// [`EEXIST`] if there is another of this name.
    pub fn register(&'static self, module: &'static ThisModule) -> Result<SvcRegistration<L>> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EEXIST);
        }
        let queue = SERVER.start().inspect_err(|_| {
            self.registered.store(false, Ordering::Release);
        })?;
        // SAFETY: `registered` was false, so nobody else uses the class now.
        let class = unsafe { &mut *self.class.get() };
        class.xcl_owner = module.as_ptr();
        // SAFETY: The class is static and complete. When the registration is dropped, it is
        // unregistered before the module is unloaded.
        let result = to_result(unsafe { cbindings::svc_reg_xprt_class(self.as_raw()) });
        if let Err(error) = result {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        Ok(SvcRegistration {
            class: self,
            _queue: queue,
        })
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::svc_xprt_class {
        self.class.get()
    }

    /// Takes another reference to the module, for a transport that could not be made completely:
    /// sunrpc drops one for the attempt, and one with the transport's last reference.
    ///
    /// # Safety
    ///
    /// sunrpc, which has a reference to the module, called the caller.
    pub(crate) unsafe fn get_module(&self) {
        // SAFETY: By the type invariants `xcl_owner` does not change while the class is registered.
        let owner = unsafe { (*self.class.get()).xcl_owner };
        // SAFETY: The caller vouches for a reference.
        unsafe { cbindings::__module_get(owner) };
    }
}

/// Keeps a class registered as long as it lives.
pub struct SvcRegistration<L: 'static> {
    class: &'static SvcClass<L>,
    _queue: RunningQueue, // Dropped after the class is unregistered.
}

impl<L> Drop for SvcRegistration<L> {
    fn drop(&mut self) {
        // SAFETY: The class is registered, by `SvcClass::register`. Every transport has a reference
        // to the module, which therefore has none left.
        unsafe { cbindings::svc_unreg_xprt_class(self.class.as_raw()) };
        self.class.registered.store(false, Ordering::Release);
    }
}

impl<L: SvcListener> SvcXprt<L> {
    /// Reports a peer that waits to be accepted. Does not sleep.
    pub fn connection_pending(&self) {
        self.set_flag(cbindings::XPT_CONN);
        self.enqueue();
    }

    /// Creates a listener with the functions `ops`. The caller gets the reference that sunrpc drops
    /// when it closes the listener.
    ///
    /// # Safety
    ///
    /// `xpo_create` is the caller, and `serv` and `net` are its arguments.
    pub(crate) unsafe fn listen(
        serv: *mut cbindings::svc_serv,
        net: *mut cbindings::net,
        address: &SockAddr,
        ops: &'static cbindings::svc_xprt_ops,
    ) -> Result<NonNull<cbindings::svc_xprt>> {
        let functions = xprt::listener_functions::<L>();
        // SAFETY: sunrpc vouches for its arguments; the class is static; the functions are those
        // for `L`.
        let this = unsafe { Self::create(L::class().as_raw(), ops, net, serv, functions, L::new) }?;
        // SAFETY: `create` made it, and this function has its only reference.
        let listener = unsafe { this.as_ref() };
        listener.set_flag(cbindings::XPT_LISTENER);
        listener.set_flag(cbindings::XPT_CONG_CTRL);
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
                unsafe { cbindings::svc_xprt_put(this.as_ptr().cast()) };
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
        ops: &'static cbindings::svc_xprt_ops,
    ) -> Option<NonNull<cbindings::svc_xprt>> {
        // A peer that comes after this has the flag set again.
        self.clear_flag(cbindings::XPT_CONN);
        let (incoming, more) = self.parts.state.next();
        if more {
            self.set_flag(cbindings::XPT_CONN);
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
                xprt::connection_functions::<L::Connection>(),
                |weak| self.parts.state.accept(incoming, weak),
            )
        };
        let this = made
            .inspect_err(|error| self.parts.state.rejected(&peer, *error))
            .ok()?;
        // SAFETY: `create` made it, and this function has its only reference.
        let connection = unsafe { this.as_ref() };
        connection.set_flag(cbindings::XPT_CONG_CTRL);
        let started = connection
            .parts
            .state
            .addresses()
            .and_then(|(local, remote)| {
                connection.set_local(&local);
                connection.set_remote(&remote);
                if local.is_same_host(&remote) {
                    connection.set_flag(cbindings::XPT_LOCAL);
                }
                connection.parts.state.start(connection)
            });
        if let Err(error) = started {
            self.parts.state.rejected(&peer, error);
            // SAFETY: sunrpc is the caller.
            unsafe { L::class().get_module() };
            // SAFETY: `create` made the transport with this reference.
            unsafe { cbindings::svc_xprt_put(this.as_ptr().cast()) };
            return None;
        }
        Some(this.cast())
    }
}
