// SPDX-License-Identifier: GPL-2.0

//! Registration of transport classes.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! xprt_class`.

use crate::prelude::*;
use crate::workqueue::{
    RunningQueue,
    CONNECT, //
};
use core::cell::UnsafeCell;
use kernel::{
    bindings::list_head,
    error::to_result, //
};

/// The function that makes a transport of a class.
pub(crate) type Setup =
    unsafe extern "C" fn(*mut cbindings::xprt_create) -> *mut cbindings::rpc_xprt;

/// A class of transports `T`, to be a `static` of the module.
pub struct Class<T> {
    untyped: UntypedClass,
    _transport: PhantomData<fn() -> T>,
}

impl<T> Class<T> {
    /// Creates the class of `T`. It is not registered.
    pub(crate) const fn from_untyped(untyped: UntypedClass) -> Self {
        Self {
            untyped,
            _transport: PhantomData,
        }
    }

    /// Makes the class known to sunrpc, until the returned value is dropped.
    ///
    /// [`EEXIST`] if there is another with this ident.
    pub fn register(&'static self, module: &'static ThisModule) -> Result<ClassRegistration> {
        self.untyped.register(module, || CONNECT.start().map(Some))
    }

    pub(crate) fn untyped(&self) -> &UntypedClass {
        &self.untyped
    }
}

/// The class of transports for calls over server connections `C`, to be a `static` of the module.
pub struct SvcBackchannelClass<C> {
    untyped: UntypedClass,
    _connection: PhantomData<fn() -> C>,
}

impl<C> SvcBackchannelClass<C> {
    /// Creates the class. It is not registered.
    pub(crate) const fn from_untyped(untyped: UntypedClass) -> Self {
        Self {
            untyped,
            _connection: PhantomData,
        }
    }

    /// Makes the class known to sunrpc, until the returned value is dropped.
    ///
    /// [`EEXIST`] if there is another with this ident.
    pub fn register(&'static self, module: &'static ThisModule) -> Result<ClassRegistration> {
        self.untyped.register(module, || Ok(None))
    }

    pub(crate) fn untyped(&self) -> &UntypedClass {
        &self.untyped
    }
}

/// A transport class, whatever its transports are.
///
/// # Invariants
///
/// `inner.class.owner` is null or the module that the class belongs to; it changes only before the
/// class is registered. sunrpc alone touches `inner.class.list` while it is.
pub(crate) struct UntypedClass {
    inner: UnsafeCell<RawClass>,
    registered: AtomicBool,
}

/// `struct xprt_class` with its flexible array: netids, up to an empty one.
#[repr(C)]
struct RawClass {
    class: cbindings::xprt_class,
    netids: [*const c_char; 3],
}

const _: () = {
    assert!(offset_of!(cbindings::xprt_class, netid) == offset_of!(RawClass, netids));
    assert!(size_of::<cbindings::xprt_class>() == offset_of!(RawClass, netids));
};

// SAFETY: The pointers in it are to statics. sunrpc guards what changes after the registration,
// and `registered` keeps a second one from touching it.
unsafe impl Sync for UntypedClass {}

impl UntypedClass {
    /// Creates a class that is not registered. No mount finds one whose netids are empty.
    ///
    /// # Safety
    ///
    /// sunrpc may call `setup` to make a transport of this class, while that is registered.
    pub(crate) const unsafe fn new(
        ident: c_int,
        class_name: &'static CStr,
        netids: [&'static CStr; 2],
        setup: Setup,
    ) -> Self {
        let class = cbindings::xprt_class {
            list: list_head {
                next: ptr::null_mut(),
                prev: ptr::null_mut(),
            },
            ident,
            setup: Some(setup),
            owner: ptr::null_mut(),
            name: name(class_name),
            netid: cbindings::__IncompleteArrayField::new(),
        };
        let netids = [
            netids[0].to_bytes_with_nul().as_ptr().cast(),
            netids[1].to_bytes_with_nul().as_ptr().cast(),
            c"".to_bytes_with_nul().as_ptr().cast(),
        ];
        // INVARIANT: No owner yet, and not registered.
        Self {
            inner: UnsafeCell::new(RawClass { class, netids }),
            registered: AtomicBool::new(false),
        }
    }

    /// Registers the class, for transports that connect on the queue that `start_queue` starts. See
    /// [`Class::register`].
    fn register(
        &'static self,
        module: &'static ThisModule,
        start_queue: fn() -> Result<Option<RunningQueue>>,
    ) -> Result<ClassRegistration> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EEXIST);
        }
        let queue = start_queue().inspect_err(|_| {
            self.registered.store(false, Ordering::Release);
        })?;
        // SAFETY: `registered` was false, so nobody else uses the class now.
        let inner = unsafe { &mut *self.inner.get() };
        inner.class.owner = module.as_ptr();
        // SAFETY: The class is static and complete. When the registration is dropped, it is
        // unregistered before the module is unloaded.
        let result = to_result(unsafe { cbindings::xprt_register_transport(self.as_raw()) });
        if let Err(error) = result {
            self.registered.store(false, Ordering::Release);
            return Err(error);
        }
        Ok(ClassRegistration {
            class: self,
            _queue: queue,
        })
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::xprt_class {
        // CAST: `class` is the first field of `RawClass`, which is `repr(C)`.
        self.inner.get().cast()
    }

    /// Takes a reference to the module for one transport. Fails with [`EIO`] if the module is being
    /// unloaded, or if the class is not the one that sunrpc knows.
    pub(crate) fn get_module(&self) -> Result {
        if !self.registered.load(Ordering::Acquire) {
            return Err(EIO);
        }
        // SAFETY: By the type invariants `owner` does not change while the class is registered,
        // and sunrpc calls `setup` of registered classes only.
        let owner = unsafe { (*self.inner.get()).class.owner };
        // SAFETY: `owner` is the module that this code is in, which cannot be unloaded now: sunrpc
        // holds a reference to it during `setup`.
        if unsafe { cbindings::try_module_get(owner) } {
            Ok(())
        } else {
            Err(EIO)
        }
    }

    /// Drops a reference that [`Self::get_module`] took.
    ///
    /// # Safety
    ///
    /// There is one, and the caller executes no more code of the module than it takes to return.
    pub(crate) unsafe fn put_module(&self) {
        // SAFETY: By the type invariants `owner` does not change while the class is registered,
        // which it is as long as the caller's module reference is held.
        let owner = unsafe { (*self.inner.get()).class.owner };
        // SAFETY: The caller owns the reference.
        unsafe { cbindings::module_put(owner) };
    }
}

/// Returns `from` in the form that C has for the name of a class.
const fn name(from: &CStr) -> [c_char; 32] {
    let from = from.to_bytes();
    let mut name = [0; 32];
    let mut i = 0;
    assert!(from.len() < name.len());
    while i < from.len() {
        name[i] = from[i] as c_char;
        i += 1;
    }
    name
}

/// Keeps a class registered as long as it lives.
pub struct ClassRegistration {
    class: &'static UntypedClass,
    _queue: Option<RunningQueue>, // Dropped after the last transport.
}

impl Drop for ClassRegistration {
    fn drop(&mut self) {
        // The only error is that it is not registered.
        // SAFETY: The class is registered, by `UntypedClass::register`.
        let _ = unsafe { cbindings::xprt_unregister_transport(self.class.as_raw()) };
        // The last transport gave its module reference back in code of this module, which still had
        // to return. A task that was preempted before it returned has not slept voluntarily since,
        // and this call waits until every task has. To wait for a spin lock with PREEMPT_RT is no
        // such sleep.
        // SAFETY: Module exit may sleep and holds no RCU read lock.
        unsafe { cbindings::synchronize_rcu_tasks() };
        self.class.registered.store(false, Ordering::Release);
    }
}
