// SPDX-License-Identifier: GPL-2.0

//! Work items of a queue of their own, at once or after a time.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! A [`Worker`] is part of what it works for. While it is queued, or its timer runs, it keeps that allocated. Its function
//! runs in process context, in a scope in which no allocation starts I/O: the block device whose page is to be written may
//! be reached through this very connection.

use crate::delayed_work;
use crate::noio::NoIo;
use core::mem::offset_of;
use core::mem::size_of;
use core::ptr::null_mut;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering;
use kernel::bindings::work_struct;
use kernel::bindings::workqueue_struct;
use kernel::ffi;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// A queue for work that memory reclaim may wait for.
///
/// Work runs on the CPU where it was queued, as that of the core's completion queues does. What is queued there while work runs,
/// such as the completions of what it has received, is done by the same thread right after it, unless the work sleeps. A queue that
/// is bound to no CPU would wake another thread for each item.
///
/// # Invariants
///
/// The queue exists.
pub struct Queue(NonNull<workqueue_struct>);

// SAFETY: Any task may queue work.
unsafe impl Send for Queue {}
// SAFETY: As above.
unsafe impl Sync for Queue {}

impl Queue {
    /// A queue of this name. Sleeps.
    pub fn new(name: &'static CStr) -> Result<Self> {
        let flags =
            crate::wq_flags_WQ_MEM_RECLAIM | crate::wq_flags_WQ_PERCPU | crate::wq_flags_WQ_HIGHPRI;
        // SAFETY: The name is a string.
        let queue = unsafe { crate::alloc_workqueue(crate::chars(name), flags) };
        // INVARIANT: Just made.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }

    /// Waits until everything that was queued has run. Timers are not waited for.
    pub fn flush(&self) {
        // SAFETY: The queue exists by the type invariants.
        unsafe { crate::__flush_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for Queue {
    /// Waits for what is queued. Not to be dropped by work of its own.
    fn drop(&mut self) {
        // SAFETY: The queue exists. Each `Worker` keeps a count of its `Queue`, so none is left.
        unsafe { crate::destroy_workqueue(self.0.as_ptr()) };
    }
}

kernel::sync::global_lock! {
    // SAFETY: Initialised before `READY` is set, and used afterwards only.
    unsafe(uninit) static CURRENT: Mutex<Option<Arc<Queue>>> = None;
}

static STARTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

/// The queue of this module. Dropped, it is gone, and what was queued has run.
pub struct Service(());

impl Service {
    /// Makes the queue. `EBUSY` but for the first time. Sleeps.
    pub fn start(name: &'static CStr) -> Result<Self> {
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: This is the first time.
        unsafe { CURRENT.init() };
        READY.store(true, Ordering::Release);
        *CURRENT.lock() = Some(Arc::new(Queue::new(name)?, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let queue = CURRENT.lock().take();
        if let Some(queue) = queue {
            // What runs may hold counts of the queue. Afterwards this is the last one.
            queue.flush();
        }
    }
}

/// The queue of this module. `ENODEV` if there is none. Sleeps.
pub fn current() -> Result<Arc<Queue>> {
    match READY.load(Ordering::Acquire) {
        true => CURRENT.lock().clone().ok_or(ENODEV),
        false => Err(ENODEV),
    }
}

/// Something that has a worker.
pub trait Work: Send + Sync + Sized + 'static {
    /// Its worker, which is a field of it.
    fn worker(&self) -> &Worker;

    /// Runs on the queue. Kicked again meanwhile, it runs again; never twice at once from kicks, but a timer may run beside a
    /// kick.
    fn run(this: Arc<Self>);
}

/// A work item that knows what it works for.
#[pin_data]
struct Item {
    #[pin]
    work: Opaque<delayed_work>,
    // INVARIANT: While the item is queued: what it works for, with a count of it from `Arc::into_raw`.
    target: AtomicPtr<()>,
}

impl Item {
    fn new(
        function: unsafe extern "C" fn(*mut work_struct),
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid, and stays where it is as long as the item is queued: that keeps what it is part of. Name
            // and key are static. The timer is used by the work queue only, with the function that it wants.
            work <- Opaque::ffi_init(|slot: *mut delayed_work| unsafe {
                kernel::bindings::init_work_with_key(
                    &raw mut (*slot).work,
                    Some(function),
                    false,
                    crate::chars(name),
                    key.as_ptr(),
                );
                crate::timer_setup(
                    &raw mut (*slot).timer,
                    Some(crate::delayed_work_timer_fn),
                    crate::TIMER_IRQSAFE,
                );
            }),
            target: AtomicPtr::new(null_mut()),
        })
    }
}

/// A work item and a timer.
#[pin_data]
pub struct Worker {
    #[pin]
    now: Item,
    #[pin]
    later: Item,
    queue: Arc<Queue>,
}

// SAFETY: The C side has its own locks.
unsafe impl Send for Worker {}
// SAFETY: As above.
unsafe impl Sync for Worker {}

impl Worker {
    /// The worker of a `W`, whose work items are of this lock class; use [`new_worker!`](crate::new_worker).
    pub fn new<W: Work>(
        queue: Arc<Queue>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            now <- Item::new(run::<W>, name, key),
            later <- Item::new(run::<W>, name, key),
            queue,
        })
    }

    /// Has `this` run soon. May be called in any context.
    pub fn kick<W: Work>(this: &Arc<W>) {
        Self::queue(this, |worker| &worker.now, 0);
    }

    /// Has `this` run after so many milliseconds, if no timer of it runs yet. May be called in any context.
    pub fn kick_later<W: Work>(this: &Arc<W>, milliseconds: u32) {
        // SAFETY: The function only computes.
        let delay = unsafe { kernel::bindings::__msecs_to_jiffies(milliseconds) };
        Self::queue(this, |worker| &worker.later, delay);
    }

    fn queue<W: Work>(this: &Arc<W>, item: impl Fn(&Self) -> &Item, delay: ffi::c_ulong) {
        let worker = this.worker();
        // What is queued keeps `this`, and so must be part of it.
        let at = core::ptr::from_ref(worker).addr();
        let from = Arc::as_ptr(this).addr();
        if at < from || at + size_of::<Self>() > from + size_of::<W>() {
            debug_assert!(false, "a worker is no part of what it works for");
            return;
        }
        let item = item(worker);
        let kept = Arc::into_raw(this.clone());
        // INVARIANT: It is the same each time: what the item is part of.
        item.target.store(kept.cast_mut().cast(), Ordering::Relaxed);
        let queue = worker.queue.0.as_ptr();
        // CAST: It stands for the CPU that this runs on.
        let cpu = crate::wq_misc_consts_WORK_CPU_UNBOUND as ffi::c_int;
        // SAFETY: The item was initialised, and the count just taken keeps it allocated until it has run.
        let queued = unsafe { crate::queue_delayed_work_on(cpu, queue, item.work.get(), delay) };
        if !queued {
            // SAFETY: It was queued before, or may not be any more: the count is still ours.
            drop(unsafe { Arc::from_raw(kept) });
        }
    }

    /// Nothing of `this` begins to run any more, and no timer keeps it: for [`Work::run`] of the same, which cannot wait for
    /// itself. What runs already is waited for when the [`Service`] goes. Any context.
    pub fn finish<W: Work>(this: &Arc<W>) {
        let worker = this.worker();
        for item in [&worker.now, &worker.later] {
            // SAFETY: The item was initialised, and `this` keeps it.
            if unsafe { crate::disable_delayed_work(item.work.get()) } {
                // SAFETY: It was queued, with a count, and will not run.
                drop(unsafe { Arc::from_raw(item.target.load(Ordering::Relaxed).cast::<W>()) });
            }
        }
    }

    /// Nothing of `this` runs when this returns, nor will it. Sleeps. Not to be called by [`Work::run`] of the same.
    pub fn stop<W: Work>(this: &Arc<W>) {
        let worker = this.worker();
        for item in [&worker.now, &worker.later] {
            // SAFETY: The item was initialised, and `this` keeps it.
            if unsafe { crate::disable_delayed_work_sync(item.work.get()) } {
                // SAFETY: It was queued, with a count, and will not run.
                drop(unsafe { Arc::from_raw(item.target.load(Ordering::Relaxed).cast::<W>()) });
            }
        }
    }
}

/// The function of a work item.
///
/// # Safety
///
/// `work` is in an [`Item`] of a `Worker` that is part of a `W`, and was queued by `Worker::queue`.
unsafe extern "C" fn run<W: Work>(work: *mut work_struct) {
    // SAFETY: The caller vouches for where it is; `Opaque` has the layout of what is in it.
    let item = unsafe {
        work.byte_sub(offset_of!(delayed_work, work))
            .byte_sub(offset_of!(Item, work))
    };
    // SAFETY: The item is allocated: it has a count of what it is part of.
    let target = unsafe { &(*item.cast::<Item>()).target }.load(Ordering::Relaxed);
    // SAFETY: By the invariant it is what the item was queued for, with a count, which is taken over here.
    let this = unsafe { Arc::from_raw(target.cast::<W>()) };
    let _noio = NoIo::new();
    W::run(this);
}

/// Makes the [`Worker`](work::Worker) of a type. Its work items have a lock class of their own: lockdep does not take those of one
/// type, which may wait for those of another, for the same.
#[macro_export]
macro_rules! new_worker {
    ($work:ty, $queue:expr) => {
        $crate::work::Worker::new::<$work>(
            $queue,
            ::kernel::c_str!(::core::concat!(::core::file!(), ":", ::core::line!())),
            ::kernel::static_lock_class!(),
        )
    };
}
