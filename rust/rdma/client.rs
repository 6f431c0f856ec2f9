// SPDX-License-Identifier: GPL-2.0

//! The module as a client of the RDMA core, for the sake of devices that are removed.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! When a device is removed, the RDMA CM reports that to an id, and only then cancels what the id
//! was doing. If that was a query for a route, it reads the id's device, which a task that destroys
//! the id meanwhile has set to null. (The callback cannot leave the destruction to the CM, as the
//! id has other users.) The core calls its clients in the reverse order of their registration, so
//! this one before the RDMA CM, on which the module depends. The removal waits here until no id of
//! the device queries a route, and no id begins to.

use crate::prelude::*;
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use ext::alloc_scope::NoIo;
use kernel::{
    new_condvar,
    new_mutex,
    str::CStrExt,
    sync::{
        CondVar,
        Mutex, //
    },
    types::Opaque, //
};

kernel::sync::global_lock! {
    // SAFETY: `ClientRegistration::new` initialises it before it sets `READY`, without which nobody
    // uses it.
    unsafe(uninit) static DEVICES: Mutex<KVec<Arc<Device>>> = KVec::new();
}

static STARTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);

/// The registration as a client. Without it no id finds a route.
///
/// # Invariants
///
/// The structure is registered.
pub struct ClientRegistration(KBox<Opaque<cbindings::ib_client>>);

// SAFETY: Any task may unregister a client.
unsafe impl Send for ClientRegistration {}
// SAFETY: There is nothing to do with a reference.
unsafe impl Sync for ClientRegistration {}

impl ClientRegistration {
    /// Registers the module. [`EBUSY`] after the first time. Sleeps.
    pub fn new() -> Result<Self> {
        if STARTED.swap(true, Ordering::Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: By the swap of `STARTED` above this is the first and only time.
        unsafe { DEVICES.init() };
        READY.store(true, Ordering::Release);
        let client = cbindings::ib_client {
            name: c"rpcrdma".as_char_ptr(),
            add: Some(add),
            remove: Some(remove),
            ..Default::default()
        };
        let client = KBox::new(Opaque::new(client), GFP_KERNEL)?;
        // SAFETY: The structure is initialised as the call demands, and lives, in its box, until it
        // is unregistered: if the call fails it is not registered.
        to_result(unsafe { cbindings::ib_register_client(client.get()) })?;
        // INVARIANT: It was just registered.
        Ok(Self(client))
    }
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is registered. The call waits for running callbacks.
        unsafe { cbindings::ib_unregister_client(self.0.get()) };
        // A static is never dropped.
        *DEVICES.lock() = KVec::new();
    }
}

/// A device, and how many ids query a route through it.
#[pin_data]
pub(crate) struct Device {
    /// Its address, which is only compared.
    address: usize,
    #[pin]
    queries: Mutex<Queries>,
    #[pin]
    ended: CondVar,
}

#[derive(Default)]
struct Queries {
    running: usize,
    /// Whether the device is being removed.
    closed: bool,
}

impl Device {
    pub(crate) fn new(address: usize) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                address,
                queries <- new_mutex!(Queries::default(), "rdma::route_queries"),
                ended <- new_condvar!("rdma::route_queries_ended"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the entry of `device`. `ENOTCONN` if it is being removed. Sleeps.
    pub(crate) fn find(device: NonNull<cbindings::ib_device>) -> Result<Arc<Self>> {
        if !READY.load(Ordering::Acquire) {
            return Err(ENODEV);
        }
        let address = device.as_ptr().addr();
        let devices = DEVICES.lock();
        let found = devices.iter().find(|known| known.address == address);
        found.cloned().ok_or(enotconn())
    }

    /// Lets no further query begin, and waits for those that run.
    pub(crate) fn close(&self) {
        let mut queries = self.queries.lock();
        queries.closed = true;
        while queries.running > 0 {
            self.ended.wait(&mut queries);
        }
    }

    /// Returns the number of queries that run.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn running(&self) -> usize {
        self.queries.lock().running
    }
}

/// An id's query for a route, during which the removal of the device does not get to the RDMA CM.
pub(crate) struct RouteQuery(Arc<Device>);

impl RouteQuery {
    /// Begins a query through `device`. `ENOTCONN` if it is being removed, after which sunrpc tries
    /// again. Sleeps.
    pub(crate) fn begin(device: Arc<Device>) -> Result<Self> {
        let mut queries = device.queries.lock();
        if queries.closed {
            return Err(enotconn());
        }
        queries.running += 1;
        drop(queries);
        Ok(Self(device))
    }
}

impl Drop for RouteQuery {
    fn drop(&mut self) {
        self.0.queries.lock().running -= 1;
        self.0.ended.notify_all();
    }
}

/// Notes that there is a device.
///
/// # Safety
///
/// Only the core calls this, for a registered client.
unsafe extern "C" fn add(device: *mut cbindings::ib_device) -> c_int {
    let added = || -> Result {
        // Who connects takes the lock, and write-back may wait for that.
        let _no_io = NoIo::new();
        let device = Device::new(device.addr())?;
        Ok(DEVICES.lock().push(device, GFP_KERNEL)?)
    };
    match added() {
        Ok(()) => 0,
        Err(error) => {
            pr_err!("no connections through an RDMA device that was added: {error:?}\n");
            error.to_errno()
        }
    }
}

/// Forgets a device that is being removed.
///
/// # Safety
///
/// Only the core calls this, for a device that it has added.
unsafe extern "C" fn remove(device: *mut cbindings::ib_device, _data: *mut c_void) {
    let address = device.addr();
    let known = {
        let mut devices = DEVICES.lock();
        let at = devices.iter().position(|known| known.address == address);
        at.map(|at| devices.remove(at))
    };
    if let Some(Ok(known)) = known {
        known.close();
    }
}
