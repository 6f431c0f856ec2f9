// SPDX-License-Identifier: GPL-2.0

//! Connections in the course of closing, which need no queue pair any more.
//!
//! The device owns them, as their queue pair may be destroyed first. At most [`MOST`] exist, each
//! for [`PATIENCE_MS`]; removing the device aborts them.

use crate::lower::Lingering;
use crate::lower::Lower;
use crate::lower::Open;
use crate::waker::Waker;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::new_worker;
use provider::table::Table;
use provider::work;
use provider::work::Work;
use provider::work::Worker;

/// The greatest number of connections of a device that may be closing. Others are aborted.
const MOST: u32 = 128;

/// The time that a peer has to close, in milliseconds.
const PATIENCE_MS: i64 = 3_000;

/// The interval of polling without an event, in milliseconds.
const LOOK_MS: u32 = 1_000;

/// The closing state of a connection.
type Last<L> = <<L as Lower>::Open as Open>::Lingering;

/// The closing connections of a device.
#[pin_data]
pub(crate) struct Endings<L: Lower> {
    #[pin]
    table: Table<Arc<Ending<L>>>,
    count: AtomicU32,
}

impl<L: Lower> Endings<L> {
    /// Creates an empty set. Sleeps.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- Table::new(),
                count: AtomicU32::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Ends all of them, as the device goes. Sleeps.
    pub(crate) fn stop(&self) {
        while let Some(ending) = self.table.pop() {
            ending.waker.let_go();
            Worker::stop(&ending);
            let last = ending.last.lock().take();
            if let Some(mut last) = last {
                // It may not have had a chance to send anything.
                last.step();
            }
        }
    }
}

/// A place among the closing connections, which is free again when it is dropped.
struct Place<L: Lower>(Arc<Endings<L>>);

impl<L: Lower> Place<L> {
    /// Takes a place. `ENOSPC` if there is none.
    fn take(endings: &Arc<Endings<L>>) -> Result<Self> {
        // If it is one too many, the drop gives it back.
        let before = endings.count.fetch_add(1, Ordering::Relaxed);
        let place = Self(endings.clone());
        match before < MOST {
            true => Ok(place),
            false => Err(ENOSPC),
        }
    }
}

impl<L: Lower> Drop for Place<L> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection in the course of closing.
#[pin_data]
pub(crate) struct Ending<L: Lower> {
    place: Place<L>,
    number: AtomicU32,
    since: Instant<Monotonic>,
    waker: Arc<Waker>,
    #[pin]
    last: Mutex<Option<Last<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Lower> Ending<L> {
    fn new(endings: &Arc<Endings<L>>, waker: &Arc<Waker>) -> Result<Arc<Self>> {
        let (queue, place, waker) = (work::current()?, Place::take(endings)?, waker.clone());
        let this = Arc::pin_init(
            pin_init!(Self {
                place,
                number: AtomicU32::new(0),
                since: Instant::now(),
                waker,
                last <- new_mutex!(None, "iwarp_ending"),
                worker <- new_worker!(Self, queue),
            }),
            GFP_KERNEL,
        )?;
        let number = endings.table.insert(|_| this.clone())?;
        this.number.store(number, Ordering::Relaxed);
        Ok(this)
    }

    /// Closes a connection, whose events are delivered through `waker` from now on. Sleeps.
    pub(crate) fn begin(endings: &Arc<Endings<L>>, waker: &Arc<Waker>, last: Last<L>) {
        let Ok(this) = Self::new(endings, waker) else {
            waker.let_go();
            return last.give_up();
        };
        *this.last.lock() = Some(last);
        if waker.point_at(&this).is_err() {
            if let Some(last) = Self::finish(&this) {
                last.give_up();
            }
        }
    }

    /// Removes it from the device. Nothing of it runs any more. Returns the state that is left.
    fn finish(this: &Arc<Self>) -> Option<Last<L>> {
        Worker::finish(this);
        this.waker.let_go();
        let number = this.number.load(Ordering::Relaxed);
        drop(this.place.0.table.remove(number));
        this.last.lock().take()
    }
}

impl<L: Lower> Work for Ending<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        let over = match &mut *this.last.lock() {
            Some(last) => last.step(),
            None => return,
        };
        let late = this.since.elapsed().as_millis() > PATIENCE_MS;
        if !over && !late {
            return Worker::kick_later(&this, LOOK_MS);
        }
        if let Some(last) = Self::finish(&this) {
            match over {
                true => drop(last),
                false => last.give_up(),
            }
        }
    }
}
