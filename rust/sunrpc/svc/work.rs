// SPDX-License-Identifier: GPL-2.0

//! The work items of a server transport: its timer, and those that close and free a connection
//! without a service thread.
//!
//! Service threads detach connections and drop last references, and to give up what a connection
//! has of the device takes several waits; and a device that is removed waits for that. So both are
//! done by the work queue of this module, which ends with the class.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::{
    svc::{
        transport::{
            SvcConnection,
            SvcListener, //
        },
        xprt::{
            SvcXprt,
            WorkFunctions, //
        }, //
    },
    workqueue::SERVER, //
};
use core::mem::offset_of;
use kernel::{
    bindings::work_struct,
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};

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
    /// Schedules a call of `timer_expired` of the listener or the connection in so many
    /// milliseconds, unless the timer runs already, or the transport is being freed. Does not
    /// sleep.
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
    xprt.timer_expired(xprt);
}

/// The work item that ends a connection and closes its transport.
///
/// # Safety
///
/// `work` is that of a live `SvcXprt<C>`, with a reference to it.
unsafe extern "C" fn close<C: SvcConnection>(work: *mut work_struct) {
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
