// SPDX-License-Identifier: GPL-2.0

//! Registration of a server transport class.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h), `struct
//! svc_xprt_class`.

use crate::work_queue::{
    RunningQueue,
    SERVER, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ptr,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    }, //
};
use kernel::{
    bindings::list_head,
    error::to_result,
    ffi::c_int,
    prelude::*, //
};

/// A server transport class, to be a `static` of the module.
///
/// # Invariants
///
/// `class.xcl_owner` is null or the module that the class belongs to; it changes only before the
/// class is registered. sunrpc alone touches `class.xcl_list` while it is.
pub struct SvcClass<L> {
    class: UnsafeCell<raw::svc_xprt_class>,
    registered: AtomicBool,
    _listener: PhantomData<fn() -> L>,
}

// SAFETY: The pointers in it are to statics. sunrpc guards what changes after the registration,
// and `registered` keeps a second one from touching it.
unsafe impl<L> Sync for SvcClass<L> {}

impl<L> SvcClass<L> {
    /// The class of listeners `L`, not registered.
    ///
    /// # Safety
    ///
    /// sunrpc may call `xpo_create` of `ops` to make a listener of this class, while that is
    /// registered.
    pub(crate) const unsafe fn with_ops(
        name: &'static CStr,
        ident: c_int,
        max_payload: u32,
        ops: &'static raw::svc_xprt_ops,
    ) -> Self {
        // INVARIANT: No owner yet, and not registered.
        Self {
            class: UnsafeCell::new(raw::svc_xprt_class {
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
        let result = to_result(unsafe { raw::svc_reg_xprt_class(self.as_raw()) });
        if let Err(error) = result {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        Ok(SvcRegistration {
            class: self,
            _queue: queue,
        })
    }

    pub(crate) fn as_raw(&self) -> *mut raw::svc_xprt_class {
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
        unsafe { raw::__module_get(owner) };
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
        unsafe { raw::svc_unreg_xprt_class(self.class.as_raw()) };
        self.class.registered.store(false, Ordering::Release);
    }
}
