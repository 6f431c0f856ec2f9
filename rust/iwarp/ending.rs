// SPDX-License-Identifier: GPL-2.0

//! Connections that no queue pair needs any more, until the peer has what was said last.
//!
//! They are the device's, for a queue pair may go at any time. There are so many at most, each for so long, and when the device goes
//! none is left.

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

/// Connections of a device that may end at once. More are given up.
const MOST: u32 = 128;

/// Milliseconds that a peer has.
const PATIENCE_MS: i64 = 3_000;

/// Milliseconds between looks, even without an event.
const LOOK_MS: u32 = 1_000;

/// What is left of a connection in the end.
type Last<L> = <<L as Lower>::Open as Open>::Lingering;

/// The connections of a device that end.
#[pin_data]
pub(crate) struct Endings<L: Lower> {
    #[pin]
    table: Table<Arc<Ending<L>>>,
    count: AtomicU32,
}

impl<L: Lower> Endings<L> {
    /// None. Sleeps.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- Table::new(),
                count: AtomicU32::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The device goes, and so do these. Sleeps.
    pub(crate) fn stop(&self) {
        while let Some(ending) = self.table.pop() {
            ending.waker.let_go();
            Worker::stop(&ending);
            let last = ending.last.lock().take();
            if let Some(mut last) = last {
                // It may not have had a chance to say anything.
                last.step();
            }
        }
    }
}

/// One of so many. Dropped, there may be another one.
struct Place<L: Lower>(Arc<Endings<L>>);

impl<L: Lower> Place<L> {
    /// `ENOSPC` if there are enough.
    fn take(endings: &Arc<Endings<L>>) -> Result<Self> {
        // If it is one too many, the drop takes it back.
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

/// A connection that ends.
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

    /// Goes on with what is left of a connection, whose events kick `waker`'s target. Sleeps.
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

    /// It is the device's no longer, and nothing of it will run. Returns what is left.
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
