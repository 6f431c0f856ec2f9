// SPDX-License-Identifier: GPL-2.0

//! The server transport itself: sunrpc's part and the implementor's, in one allocation, its
//! addresses, and its work items.
//!
//! C headers: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h), `struct
//! svc_xprt`; [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h).
//!
//! # Work items
//!
//! Service threads detach connections and drop last references, and to give up what a connection
//! has of the device takes several waits; and a device that is removed waits for that. So the work
//! queue of this module, which ends with the class, closes and frees connections. Timers run there,
//! too. All of them are scopes without file systems, as what service threads do
//! ([`transport`](crate::svc::transport)).

use crate::prelude::*;
use crate::{
    svc::transport::SvcListener,
    weak::Weak,
    workqueue::SERVER, //
};
use ext::alloc_scope::NoFs;
use kernel::{
    bindings::work_struct,
    static_lock_class,
    sync::atomic::{
        AtomicFlag,
        Full, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};

/// A transport of the sunrpc server: `S` is the state of a listener or of a connection.
///
/// It derefs to `S`.
///
/// After `xpo_free` there is neither a service nor a namespace (`xpt_server`, `xpt_net`): a work
/// item frees the transport later. Until then `xpo_detach` or the work item of
/// [`Self::close_later`] has ended it, and who has work for it knows that.
///
/// # Invariants
///
/// `xprt` is a live `svc_xprt`, and all is initialised, until `free`.
#[repr(C)]
pub struct SvcXprt<S: Send + Sync + 'static> {
    xprt: Opaque<cbindings::svc_xprt>,
    timer: Opaque<cbindings::delayed_work>,
    closing: Opaque<cbindings::delayed_work>,
    /// Set when `closing` was queued.
    is_closing: AtomicFlag,
    freeing: Opaque<cbindings::delayed_work>,
    /// See [`Self::max_message`]. It never changes.
    max_message: usize,
    pub(crate) parts: Parts<S>,
}

/// The functions of a transport's work items.
pub(crate) struct WorkFunctions {
    pub(crate) timer: unsafe extern "C" fn(*mut work_struct),
    pub(crate) close: unsafe extern "C" fn(*mut work_struct),
    pub(crate) free: unsafe extern "C" fn(*mut work_struct),
}

#[pin_data]
pub(crate) struct Parts<S: Send + Sync + 'static> {
    weak: WeakSvcXprt<S>,
    #[pin]
    pub(crate) state: S,
}

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl<S: Send + Sync + 'static> Send for SvcXprt<S> {}
// SAFETY: `S` is `Sync`; work items may be queued by any task; of `xprt` this crate accesses what
// is atomic, and sets up the rest before others see it.
unsafe impl<S: Send + Sync + 'static> Sync for SvcXprt<S> {}

impl<S: Send + Sync + 'static> SvcXprt<S> {
    /// The offsets of the work items.
    pub(crate) const TIMER_OFFSET: usize = offset_of!(Self, timer);
    pub(crate) const CLOSING_OFFSET: usize = offset_of!(Self, closing);
    pub(crate) const FREEING_OFFSET: usize = offset_of!(Self, freeing);

    /// Allocates a transport of class `class` for the service `serv` in `net`. Its work items have
    /// these `functions`.
    ///
    /// # Safety
    ///
    /// `class` and `ops` are valid as long as the transport is; `net` and `serv` until `xpo_free`,
    /// or `serv` is null. The functions may be called for the work items of a live `SvcXprt<S>`.
    pub(crate) unsafe fn create<I: PinInit<S, Error>>(
        class: *mut cbindings::svc_xprt_class,
        ops: &'static cbindings::svc_xprt_ops,
        net: *mut cbindings::net,
        serv: *mut cbindings::svc_serv,
        functions: WorkFunctions,
        state: impl FnOnce(WeakSvcXprt<S>) -> I,
    ) -> Result<NonNull<Self>> {
        let mut memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let this = memory.as_mut_ptr();
        let at = NonNull::new(this).ok_or(ENOMEM)?;
        let weak = WeakSvcXprt::new()?;
        let state = state(weak.clone());
        let init = try_pin_init!(Parts {
            weak,
            state <- state,
        });
        // SAFETY: The memory is that of `parts`, which stays where it is.
        unsafe { ext::compat::try_init(&raw mut (*this).parts, init) }?;
        // SAFETY: The memory is that of `xprt`.
        let xprt = unsafe { Opaque::cast_into(&raw const (*this).xprt) };
        // SAFETY: The caller vouches for the arguments.
        unsafe { cbindings::svc_xprt_init(net, class, xprt, serv) };
        // SAFETY: `svc_xprt_init` has initialised it, and nobody else has seen it.
        unsafe { (*xprt).xpt_ops = ops };
        // SAFETY: The memory is that of the work items, which stay where they are.
        let items = unsafe {
            [
                (
                    &raw const (*this).timer,
                    functions.timer,
                    static_lock_class!(),
                ),
                (
                    &raw const (*this).closing,
                    functions.close,
                    static_lock_class!(),
                ),
                // It waits for the timer.
                (
                    &raw const (*this).freeing,
                    functions.free,
                    static_lock_class!(),
                ),
            ]
        };
        // SAFETY: The memory is that of the flag.
        unsafe { (&raw mut (*this).is_closing).write(AtomicFlag::new(false)) };
        // SAFETY: The service is valid now, and its sizes do not change.
        let max_message = unsafe { serv.as_ref() }.map_or(0, |serv| serv.sv_max_mesg as usize);
        // SAFETY: The memory is that of the number.
        unsafe { (&raw mut (*this).max_message).write(max_message) };
        for (item, function, class) in items {
            // SAFETY: The memory is that of the work items, which stay where they are. The caller
            // vouches for the function, and the class is static.
            unsafe {
                cbindings::init_delayed_work(
                    Opaque::cast_into(item),
                    Some(function),
                    class.as_ptr(),
                )
            };
        }
        // INVARIANT: All is initialised.
        let _ = KBox::into_raw(memory);
        // SAFETY: It is complete, and `free` revokes the weak references.
        unsafe { at.as_ref().parts.weak.set(at) };
        Ok(at)
    }

    /// Undoes [`Self::create`] after sunrpc has dropped the last reference. Calls `last` when
    /// nobody else can reach the transport. Sleeps.
    ///
    /// # Safety
    ///
    /// Called once, from `xpo_free` or after that.
    pub(crate) unsafe fn free(this: *mut Self, last: impl FnOnce(&S)) {
        // SAFETY: It is live until the end of this function. The timer is not started again.
        unsafe { cbindings::disable_delayed_work_sync((*this).timer()) };
        // SAFETY: It is live until the end of this function.
        unsafe { (*this).parts.weak.revoke() };
        // SAFETY: The transport is live until the end of this function.
        last(unsafe { &(*this).parts.state });
        // SAFETY: Nobody can reach it any more.
        unsafe { (&raw mut (*this).parts).drop_in_place() };
        // SAFETY: The memory came from a box of `MaybeUninit`, as which it is freed.
        drop(unsafe { KBox::from_raw(this.cast::<core::mem::MaybeUninit<Self>>()) });
    }

    /// # Safety
    ///
    /// `xprt` points to the `xprt` of an `SvcXprt<S>` that is not freed during `'a`.
    pub(crate) unsafe fn from_raw<'a>(xprt: *mut cbindings::svc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*xprt.cast() }
    }

    /// Returns a reference for handlers that does not keep the transport alive.
    pub(crate) fn downgrade(&self) -> WeakSvcXprt<S> {
        self.parts.weak.clone()
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::svc_xprt {
        self.xprt.get()
    }

    pub(crate) fn timer(&self) -> *mut cbindings::delayed_work {
        self.timer.get()
    }

    pub(crate) fn closing(&self) -> *mut cbindings::delayed_work {
        self.closing.get()
    }

    /// Marks the transport as closing. Returns true the first time only.
    pub(crate) fn mark_closing(&self) -> bool {
        !self.is_closing.xchg(true, Full)
    }

    pub(crate) fn freeing(&self) -> *mut cbindings::delayed_work {
        self.freeing.get()
    }

    pub(crate) fn set_flag(&self, flag: u32) {
        // SAFETY: The transport is live. The flags change by atomic operations only.
        unsafe { cbindings::set_bit(flag, &raw mut (*self.as_raw()).xpt_flags) };
    }

    pub(crate) fn clear_flag(&self, flag: u32) {
        // SAFETY: The transport is live. The flags change by atomic operations only.
        unsafe { cbindings::clear_bit(flag, &raw mut (*self.as_raw()).xpt_flags) };
    }

    /// Wakes a service thread for the transport, if its flags say that there is work. Does not
    /// sleep. Not for a transport that may have been freed by sunrpc, as it looks at the namespace
    /// for a trace; on a dead one, which stays busy, at nothing else.
    pub fn enqueue(&self) {
        // SAFETY: The transport is live.
        unsafe { cbindings::svc_xprt_enqueue(self.as_raw()) };
    }

    /// Makes a service thread close the transport. Does not sleep.
    pub fn deferred_close(&self) {
        // SAFETY: The transport is live.
        unsafe { cbindings::svc_xprt_deferred_close(self.as_raw()) };
    }

    /// Returns whether the transport is closed, or will be.
    pub fn is_dead(&self) -> bool {
        // SAFETY: The transport is live.
        unsafe { cbindings::svc_xprt_is_dead(self.as_raw()) }
    }

    /// Returns the length of the longest message that the service accepts.
    pub fn max_message(&self) -> usize {
        // The service may be gone before the transport.
        self.max_message
    }

    /// Reports that something was added to the queue. Called under the lock of the queue, and
    /// followed by [`Self::enqueue`] without it.
    pub fn data_pending(&self) {
        self.set_flag(cbindings::XPT_DATA);
    }

    /// Reports that the queue is empty. Called under the lock of the queue.
    pub fn no_data(&self) {
        self.clear_flag(cbindings::XPT_DATA);
    }

    /// Returns whether client and server are the same host. There each may wait for memory of the
    /// other.
    pub(crate) fn is_local(&self) -> bool {
        // SAFETY: The transport is live. The flags change by atomic operations only.
        let flags = unsafe { (&raw const (*self.as_raw()).xpt_flags).read_volatile() };
        flags & (1 << cbindings::XPT_LOCAL) != 0
    }
}

/// A reference to an [`SvcXprt`] that does not keep it alive, for completion and event handlers.
pub type WeakSvcXprt<S> = Weak<SvcXprt<S>>;

impl<S: Send + Sync + 'static> Deref for SvcXprt<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.parts.state
    }
}

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
        unsafe { cbindings::rpc_ntop(address.as_raw(), text.as_mut_ptr(), text.len()) };
        // The reply cache of NFSv3 identifies a client by its address. The client does not choose
        // the port, and has another one after each reconnect.
        // SAFETY: `store` has written the address.
        unsafe { cbindings::rpc_set_port((&raw mut (*xprt).xpt_remote).cast(), 0) };
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
unsafe fn store(address: &SockAddr, to: *mut cbindings::__kernel_sockaddr_storage) {
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
        family if family == cbindings::AF_INET => size_of::<cbindings::sockaddr_in>(),
        family if family == cbindings::AF_INET6 => size_of::<cbindings::sockaddr_in6>(),
        _ => address.len(),
    }
}

impl<C: SvcConnection> SvcXprt<C> {
    /// Ends the connection, closes the transport, and releases its resources of the device, in a
    /// work item. Does not sleep.
    pub fn close_later(&self) {
        // A second caller would have a reference to put. If that were the last one, `svc_xprt_free`
        // would sleep here.
        if !self.mark_closing() {
            return;
        }
        let raw = self.as_raw();
        // SAFETY: The transport is live, and the count changes by atomic operations only.
        if unsafe { cbindings::kref_get_unless_zero(&raw mut (*raw).xpt_ref) } == 0 {
            return;
        }
        // SAFETY: `create` initialised the work item, and the reference just taken keeps the
        // transport. It was not queued before, and there is a queue as long as there are
        // transports.
        unsafe { SERVER.queue(self.closing(), 0) };
    }

    /// Frees the transport in a work item, after its last reference was dropped.
    ///
    /// # Safety
    ///
    /// Called once, from `xpo_free`.
    pub(crate) unsafe fn free_later(this: *mut Self) {
        // SAFETY: `create` initialised the work item, and nobody frees the transport before it has
        // run.
        if !unsafe { SERVER.queue((*this).freeing(), 0) } {
            // SAFETY: The caller vouches for it.
            unsafe { Self::free(this, C::close) };
        }
    }
}

impl<S: Send + Sync + 'static> SvcXprt<S> {
    /// Schedules a call of `timer_expired` of the listener or the connection after `delay`, unless
    /// the timer runs already, or the transport is being freed. Does not sleep.
    pub fn start_timer(&self, delay: Msecs) {
        // SAFETY: `create` initialised the work item, and `free` disables it before the transport
        // is freed.
        unsafe { SERVER.queue(self.timer(), msecs_to_jiffies(delay)) };
    }

    /// Returns the transport with this timer.
    ///
    /// # Safety
    ///
    /// `work` is that of the timer of a live `SvcXprt<S>`, whose function runs during `'a`.
    unsafe fn of_timer<'a>(work: *mut work_struct) -> &'a Self {
        let offset = Self::TIMER_OFFSET + offset_of!(cbindings::delayed_work, work);
        // SAFETY: The caller says which structure contains `work`; `free` waits until the function
        // has returned.
        unsafe { &*work.byte_sub(offset).cast::<Self>() }
    }
}

/// The function of the timer of a connection.
///
/// # Safety
///
/// `work` is that of the timer of a live `SvcXprt<C>`.
unsafe extern "C" fn connection_timer<C: SvcConnection>(work: *mut work_struct) {
    // SAFETY: This is the function of the timer.
    let xprt = unsafe { SvcXprt::<C>::of_timer(work) };
    let _scope = NoFs::new();
    xprt.timer_expired(xprt);
}

/// The function of the timer of a listener.
///
/// # Safety
///
/// `work` is that of the timer of a live `SvcXprt<L>`.
unsafe extern "C" fn listener_timer<L: SvcListener>(work: *mut work_struct) {
    // SAFETY: This is the function of the timer.
    let xprt = unsafe { SvcXprt::<L>::of_timer(work) };
    let _scope = NoFs::new();
    xprt.timer_expired(xprt);
}

/// The work item that ends a connection and closes its transport.
///
/// # Safety
///
/// `work` is that of a live `SvcXprt<C>`, with a reference to it.
unsafe extern "C" fn close<C: SvcConnection>(work: *mut work_struct) {
    let _scope = NoFs::new();
    let offset = SvcXprt::<C>::CLOSING_OFFSET + offset_of!(cbindings::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`. `xprt` is its first field.
    let xprt = unsafe { work.byte_sub(offset).cast::<cbindings::svc_xprt>() };
    // SAFETY: The work item has a reference.
    unsafe { cbindings::svc_xprt_close(xprt) };
    // While the transport is busy, that only sets a flag for the thread that has it, or that is to
    // come for it, and all threads may be waiting for disks. The connection ends now all the same.
    // This is not done before the flag is set: a thread that waits for the connection would keep
    // the transport busy.
    // SAFETY: The work item has a reference to the transport, which is an `SvcXprt<C>`.
    let connection = unsafe { SvcXprt::<C>::from_raw(xprt) };
    C::detach(connection);
    // Whatever sunrpc is doing with calls of it.
    C::close(connection);
    // SAFETY: The work item has this reference. The transport is not used any more.
    unsafe { cbindings::svc_xprt_put(xprt) };
}

/// The work item that frees a connection.
///
/// # Safety
///
/// `work` is that of a live `SvcXprt<C>`, and [`SvcXprt::free_later`] queued it.
unsafe extern "C" fn free<C: SvcConnection>(work: *mut work_struct) {
    let _scope = NoFs::new();
    let offset = SvcXprt::<C>::FREEING_OFFSET + offset_of!(cbindings::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`. The last reference is gone.
    unsafe { SvcXprt::<C>::free(work.byte_sub(offset).cast(), C::close) };
}

/// Returns the functions of the work items of a connection `C`.
pub(crate) const fn connection_functions<C: SvcConnection>() -> WorkFunctions {
    WorkFunctions {
        timer: connection_timer::<C>,
        close: close::<C>,
        free: free::<C>,
    }
}

/// Returns the functions of the work items of a listener `L`. sunrpc closes and frees it in any
/// context, so only its timer is ever queued.
pub(crate) const fn listener_functions<L: SvcListener>() -> WorkFunctions {
    WorkFunctions {
        timer: listener_timer::<L>,
        close: unused,
        free: unused,
    }
}

/// # Safety
///
/// None.
unsafe extern "C" fn unused(_work: *mut work_struct) {}
