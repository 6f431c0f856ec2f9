// SPDX-License-Identifier: GPL-2.0

//! Work items of a workqueue of the module, which run at once or after a delay.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! A [`Worker`] is part of the object that it works for. While it is queued, or its timer runs, it
//! holds a reference to that. Its function runs in process context, in a scope in which no
//! allocation starts I/O: the block device whose page is to be written may be reached through this
//! very connection.

use crate::alloc_scope::NoIo;
use cbindings::delayed_work;
use core::{
    mem::offset_of,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        Ordering, //
    }, //
};
use kernel::{
    bindings::{
        work_struct,
        workqueue_struct, //
    },
    ffi,
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

/// A workqueue.
///
/// # Invariants
///
/// The queue exists.
pub struct Workqueue(NonNull<workqueue_struct>);

// SAFETY: Any task may queue work and destroy a workqueue; it has its own locks.
unsafe impl Send for Workqueue {}
// SAFETY: Any task may queue work; a workqueue has its own locks.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Creates a workqueue with this name for work that memory reclaim may wait for. Sleeps.
    ///
    /// Work runs on the CPU where it was queued, as that of the core's completion queues does. Work
    /// that is queued there meanwhile, such as the handlers of completions, is done by the same
    /// thread right after it, unless the work sleeps. An unbound workqueue would wake another
    /// thread for each item.
    pub fn per_cpu(name: &'static CStr) -> Result<Self> {
        Self::new(
            name,
            cbindings::wq_flags_WQ_MEM_RECLAIM
                | cbindings::wq_flags_WQ_PERCPU
                | cbindings::wq_flags_WQ_HIGHPRI,
        )
    }

    /// Creates a workqueue for work that processes cause: it has the priority of a process, on any
    /// CPU, and nothing waits behind it. Sleeps.
    pub fn for_processes(name: &'static CStr) -> Result<Self> {
        Self::new(name, cbindings::wq_flags_WQ_UNBOUND)
    }

    /// Creates a workqueue for work that goes on for long, and that memory reclaim may wait for: it
    /// has the priority of a process, on any CPU. Sleeps.
    pub fn for_long_work(name: &'static CStr) -> Result<Self> {
        Self::new(
            name,
            cbindings::wq_flags_WQ_MEM_RECLAIM | cbindings::wq_flags_WQ_UNBOUND,
        )
    }

    /// Creates a workqueue with this name, and with flags of `alloc_workqueue`. Sleeps.
    pub fn new(name: &'static CStr, flags: c_uint) -> Result<Self> {
        // SAFETY: The name is a static string.
        let queue = unsafe { cbindings::alloc_workqueue(name.as_char_ptr(), flags) };
        // INVARIANT: The workqueue was just created.
        Ok(Self(NonNull::new(queue).ok_or(ENOMEM)?))
    }

    /// Returns the C workqueue, which exists until `self` is dropped.
    pub fn as_raw(&self) -> *mut workqueue_struct {
        self.0.as_ptr()
    }

    /// Waits until everything that was queued has run, but not for timers.
    pub fn flush(&self) {
        // SAFETY: By the type invariants the workqueue exists.
        unsafe { cbindings::__flush_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for Workqueue {
    /// Waits for everything that is queued. Must not be dropped by work of its own.
    fn drop(&mut self) {
        // SAFETY: By the type invariants the workqueue exists. Each `Worker` holds a reference to
        // its `Workqueue`, so none is left, and `as_raw` says until when others may use it.
        unsafe { cbindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

kernel::sync::global_lock! {
    // SAFETY: `ModuleQueue::start` initialises it before it sets `READY`, without which nobody uses
    // it.
    unsafe(uninit) static QUEUES: Mutex<Option<[Arc<Workqueue>; 3]>> = None;
}

static STARTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

/// The workqueues of this module: its own, one for work of its own that goes on for long, and one
/// for work that processes cause. When it is dropped, all work that was queued has run.
pub struct ModuleQueue(());

impl ModuleQueue {
    /// Creates the workqueues, with these names. `EBUSY` after the first time. Sleeps.
    pub fn start(
        name: &'static CStr,
        long_name: &'static CStr,
        user_name: &'static CStr,
    ) -> Result<Self> {
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: By the swap of `STARTED` above this is the first and only time.
        unsafe { QUEUES.init() };
        READY.store(true, Ordering::Release);
        let queues = [
            Arc::new(Workqueue::per_cpu(name)?, GFP_KERNEL)?,
            Arc::new(Workqueue::for_long_work(long_name)?, GFP_KERNEL)?,
            Arc::new(Workqueue::for_processes(user_name)?, GFP_KERNEL)?,
        ];
        *QUEUES.lock() = Some(queues);
        Ok(Self(()))
    }
}

impl Drop for ModuleQueue {
    fn drop(&mut self) {
        let queues = QUEUES.lock().take();
        for queue in queues.iter().flatten() {
            // Work that runs may hold references to the workqueue. Afterwards this is the last one.
            queue.flush();
        }
    }
}

/// Returns the workqueues of this module. `ENODEV` if there are none. Sleeps.
fn module_queues() -> Result<[Arc<Workqueue>; 3]> {
    match READY.load(Ordering::Acquire) {
        true => QUEUES.lock().clone().ok_or(ENODEV),
        false => Err(ENODEV),
    }
}

/// Returns the workqueue of this module. `ENODEV` if there is none. Sleeps.
pub fn module_queue() -> Result<Arc<Workqueue>> {
    let [own, _, _] = module_queues()?;
    Ok(own)
}

/// Returns the workqueue of this module for work that goes on for long. `ENODEV` if there is none.
/// Sleeps.
pub fn module_long_queue() -> Result<Arc<Workqueue>> {
    let [_, long, _] = module_queues()?;
    Ok(long)
}

/// Returns the workqueue of this module for work that processes cause. `ENODEV` if there is none.
/// Sleeps.
pub fn module_user_queue() -> Result<Arc<Workqueue>> {
    let [_, _, user] = module_queues()?;
    Ok(user)
}

/// An object with a worker.
pub trait Work: Send + Sync + Sized + 'static {
    /// Returns its worker, which is a field of it.
    fn worker(&self) -> &Worker;

    /// Runs on the workqueue. If it is queued again meanwhile, it runs again; queued at once it
    /// never runs twice at a time, but a timer may run beside it, and so may long work.
    fn run(this: Arc<Self>);
}

/// A work item with a pointer to the object that it works for.
#[pin_data]
struct WorkItem {
    #[pin]
    work: Opaque<delayed_work>,
    // INVARIANT: While the item is queued, this is the object, with a reference from
    // `Arc::into_raw`.
    target: AtomicPtr<()>,
}

impl WorkItem {
    fn new(
        function: unsafe extern "C" fn(*mut work_struct),
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `Opaque::ffi_init` passes a valid pointer to pinned memory, which the
            // reference of a queued item keeps. Name and key are static. Only the workqueue uses
            // the timer, with the function that it expects.
            work <- Opaque::ffi_init(|slot: *mut delayed_work| unsafe {
                kernel::bindings::init_work_with_key(
                    &raw mut (*slot).work,
                    Some(function),
                    false,
                    name.as_char_ptr(),
                    key.as_ptr(),
                );
                cbindings::timer_setup(
                    &raw mut (*slot).timer,
                    Some(cbindings::delayed_work_timer_fn),
                    cbindings::TIMER_IRQSAFE,
                );
            }),
            target: AtomicPtr::new(null_mut()),
        })
    }
}

/// A work item and a timer.
///
/// Work that goes on for long may [continue](Self::queue_long_work) on another workqueue, where it
/// keeps nobody of its priority from a CPU.
///
/// # Examples
///
/// ```
/// # use kernel::{prelude::*, sync::Arc};
/// use ext::{
///     new_worker,
///     work::{
///         Work,
///         Worker,
///         Workqueue, //
///     }, //
/// };
///
/// #[pin_data]
/// struct Connection {
///     #[pin]
///     worker: Worker,
/// }
///
/// impl Connection {
///     fn new(queue: Arc<Workqueue>) -> Result<Arc<Self>> {
///         Arc::pin_init(
///             pin_init!(Self {
///                 worker <- new_worker!(Self, queue),
///             }),
///             GFP_KERNEL,
///         )
///     }
/// }
///
/// impl Work for Connection {
///     fn worker(&self) -> &Worker {
///         &self.worker
///     }
///
///     fn run(this: Arc<Self>) {
///         // What the connection has to do, and again in a second.
///         Worker::queue_work_after(&this, 1_000);
///     }
/// }
///
/// let queue = Arc::new(Workqueue::per_cpu(c"example")?, GFP_KERNEL)?;
/// let connection = Connection::new(queue)?;
/// Worker::queue_work(&connection);
///
/// // It runs no more, and the timer is stopped.
/// Worker::disable_sync(&connection);
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct Worker {
    #[pin]
    work: WorkItem,
    #[pin]
    timer: WorkItem,
    #[pin]
    long: WorkItem,
    queue: Arc<Workqueue>,
    long_queue: Option<Arc<Workqueue>>,
    // What is queued at once goes to `long_queue`.
    is_long: AtomicBool,
}

// SAFETY: The work items have their own locks in C, and the pointers are atomic.
unsafe impl Send for Worker {}
// SAFETY: The work items have their own locks in C, and the pointers are atomic.
unsafe impl Sync for Worker {}

impl Worker {
    /// Creates the worker of a `W`, whose work items are of this lock class; use
    /// [`new_worker!`](crate::new_worker).
    pub fn new<W: Work>(
        queue: Arc<Workqueue>,
        long_queue: Option<Arc<Workqueue>>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            work <- WorkItem::new(run::<W>, name, key),
            timer <- WorkItem::new(run::<W>, name, key),
            long <- WorkItem::new(run::<W>, name, key),
            queue,
            long_queue,
            is_long: AtomicBool::new(false),
        })
    }

    /// Queues the work of `this`. May be called in any context.
    pub fn queue_work<W: Work>(this: &Arc<W>) {
        // Either item runs the same function, so it does not matter if this changes meanwhile.
        match &this.worker().long_queue {
            Some(queue) if this.worker().is_long.load(Ordering::Relaxed) => {
                Self::queue(this, |worker| &worker.long, queue, 0);
            }
            _ => Self::queue(this, |worker| &worker.work, &this.worker().queue, 0),
        }
    }

    /// Queues the work of `this` on the workqueue for long work, if it has one, and until
    /// [`end_long_work`](Self::end_long_work) whatever queues it at once does so, too: for
    /// [`Work::run`] of the same object, which has much to do. May be called in any context.
    pub fn queue_long_work<W: Work>(this: &Arc<W>) {
        this.worker().is_long.store(true, Ordering::Relaxed);
        Self::queue_work(this);
    }

    /// Queues work on the first workqueue again from now on. May be called in any context.
    pub fn end_long_work<W: Work>(this: &Arc<W>) {
        this.worker().is_long.store(false, Ordering::Relaxed);
    }

    /// Queues the work of `this` after this time, if no timer of it runs yet. May be called in any
    /// context.
    pub fn queue_work_after<W: Work>(this: &Arc<W>, delay_ms: u32) {
        // SAFETY: The function only computes.
        let delay = unsafe { kernel::bindings::__msecs_to_jiffies(delay_ms) };
        Self::queue(this, |worker| &worker.timer, &this.worker().queue, delay);
    }

    fn queue<W: Work>(
        this: &Arc<W>,
        item: impl Fn(&Self) -> &WorkItem,
        queue: &Workqueue,
        delay: ffi::c_ulong,
    ) {
        let worker = this.worker();
        // A queued item holds a reference to `this`, so it must be part of it.
        let at = core::ptr::from_ref(worker).addr();
        let from = Arc::as_ptr(this).addr();
        if at < from || at + size_of::<Self>() > from + size_of::<W>() {
            debug_assert!(false, "a worker is no part of what it works for");
            return;
        }
        let item = item(worker);
        let kept = Arc::into_raw(this.clone());
        // INVARIANT: It is the same each time: the object that contains the item.
        item.target.store(kept.cast_mut().cast(), Ordering::Relaxed);
        let queue = queue.as_raw();
        // CAST: It stands for the CPU that this runs on.
        let cpu = cbindings::wq_misc_consts_WORK_CPU_UNBOUND as ffi::c_int;
        // SAFETY: The initialiser of `WorkItem::new` has run, and the reference just taken keeps
        // the item until it has run.
        let queued =
            unsafe { cbindings::queue_delayed_work_on(cpu, queue, item.work.get(), delay) };
        if !queued {
            // SAFETY: The item was queued before, or is disabled: the reference of `into_raw` above
            // is still this function's.
            drop(unsafe { Arc::from_raw(kept) });
        }
    }

    /// Keeps the work of `this` from running again, timers included: for [`Work::run`] of the same
    /// object, which cannot wait for itself. Work that runs already is waited for when the
    /// [`ModuleQueue`] is dropped. May be called in any context.
    pub fn disable<W: Work>(this: &Arc<W>) {
        let worker = this.worker();
        for item in [&worker.work, &worker.timer, &worker.long] {
            // SAFETY: The initialiser of `WorkItem::new` has run, and `this` keeps the item.
            if unsafe { cbindings::disable_delayed_work(item.work.get()) } {
                // SAFETY: The item was queued, with a reference by its invariant, and will not run.
                drop(unsafe { Arc::from_raw(item.target.load(Ordering::Relaxed).cast::<W>()) });
            }
        }
    }

    /// Keeps the work of `this` from running again, and waits for work that runs. Sleeps. Must not
    /// be called by [`Work::run`] of the same object.
    pub fn disable_sync<W: Work>(this: &Arc<W>) {
        let worker = this.worker();
        for item in [&worker.work, &worker.timer, &worker.long] {
            // SAFETY: The initialiser of `WorkItem::new` has run, and `this` keeps the item.
            if unsafe { cbindings::disable_delayed_work_sync(item.work.get()) } {
                // SAFETY: The item was queued, with a reference by its invariant, and will not run.
                drop(unsafe { Arc::from_raw(item.target.load(Ordering::Relaxed).cast::<W>()) });
            }
        }
    }
}

/// The C function of a work item.
///
/// # Safety
///
/// `work` is in a [`WorkItem`] of a `Worker` that is part of a `W`, and was queued by
/// `Worker::queue`.
unsafe extern "C" fn run<W: Work>(work: *mut work_struct) {
    // SAFETY: The caller promises where `work` is; `Opaque` has the layout of its content.
    let item = unsafe {
        work.byte_sub(offset_of!(delayed_work, work))
            .byte_sub(offset_of!(WorkItem, work))
    };
    // SAFETY: The reference of the queued item keeps the object that it is part of.
    let target = unsafe { &(*item.cast::<WorkItem>()).target }.load(Ordering::Relaxed);
    // SAFETY: By the invariant of `target` this is the object, with a reference, which is taken
    // over here.
    let this = unsafe { Arc::from_raw(target.cast::<W>()) };
    let _noio = NoIo::new();
    W::run(this);
}

/// Creates the `Worker` of a type, with a workqueue, and maybe one for long work. Its work items
/// have a lock class of their own: lockdep distinguishes those of one type from those of another,
/// which may wait for them.
#[macro_export]
macro_rules! new_worker {
    ($work:ty, $queue:expr) => {
        $crate::new_worker!($work, $queue, None)
    };
    ($work:ty, $queue:expr, $long_queue:expr) => {
        $crate::work::Worker::new::<$work>(
            $queue,
            $long_queue,
            ::kernel::c_str!(::core::concat!(::core::file!(), ":", ::core::line!())),
            ::kernel::static_lock_class!(),
        )
    };
}
