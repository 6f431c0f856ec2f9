// SPDX-License-Identifier: GPL-2.0

//! The removal of a device waits for queries of routes.

use super::{
    fixture::{
        address,
        net, //
    },
    handler::{
        TestHandler,
        TIMEOUT_MS, //
    },
};
use crate::prelude::*;
use crate::{
    client::{
        Device,
        RouteQuery, //
    },
    cm::Id, //
};
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use kernel::{
    new_work,
    sync::Completion,
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    }, //
};

/// A port that nobody listens on.
const PORT: u16 = 20_047;

/// The address of no device.
const NONE: usize = 1;

/// The removal of a device, by another task.
#[pin_data]
struct Removal {
    #[pin]
    work: Work<Self>,
    device: Arc<Device>,
    is_done: AtomicBool,
    #[pin]
    done: Completion,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Removal { self.work }
}

impl WorkItem for Removal {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.device.close();
        this.is_done.store(true, Ordering::Release);
        this.done.complete_all();
    }
}

pub(super) fn removal_waits() -> Result<bool> {
    let device = Device::new(NONE)?;
    let query = RouteQuery::begin(device.clone())?;
    let removed = device.clone();
    let removal = Arc::pin_init(
        pin_init!(Removal {
            work <- new_work!("rdma::removal"),
            device: removed,
            is_done: AtomicBool::new(false),
            done <- Completion::new(),
        }),
        GFP_KERNEL,
    )?;
    let _ = workqueue::system_unbound().enqueue(removal.clone());
    // Once it is being removed, no other query begins.
    let mut tries = 1_000;
    while let Ok(another) = RouteQuery::begin(device.clone()) {
        drop(another);
        tries -= 1;
        if tries == 0 {
            return Ok(false);
        }
        fsleep(Delta::from_millis(1));
    }
    fsleep(Delta::from_millis(20));
    let waited = !removal.is_done.load(Ordering::Acquire);
    drop(query);
    removal.done.wait_for_completion();
    Ok(waited && device.running() == 0)
}

/// Returns an id that has found the device, and its context.
fn resolved() -> Result<(Arc<Id<TestHandler>>, Arc<TestHandler>)> {
    let end = TestHandler::new()?;
    let id = Id::new(&net(), end.clone())?;
    id.resolve_address(&address(PORT)?, TIMEOUT_MS)?;
    end.wait(|seen| seen.resolved.then_some(()))?;
    Ok((id, end))
}

pub(super) fn query_ends_with_its_answer() -> Result<bool> {
    let (id, end) = resolved()?;
    let device = Device::find(id.device()?)?;
    id.resolve_route(TIMEOUT_MS)?;
    end.wait(|seen| seen.routed.then_some(()))?;
    let after = device.running();
    // There is a route already.
    let again = id.resolve_route(TIMEOUT_MS);
    Ok(after == 0 && again.is_err() && device.running() == 0)
}

pub(super) fn query_ends_with_its_id() -> Result<bool> {
    let (id, _) = resolved()?;
    let device = Device::find(id.device()?)?;
    id.resolve_route(TIMEOUT_MS)?;
    drop(id);
    Ok(device.running() == 0)
}
