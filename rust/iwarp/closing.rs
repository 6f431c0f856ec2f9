// SPDX-License-Identifier: GPL-2.0

//! Connections in the course of closing, which need no queue pair any more.
//!
//! The device owns them, as their queue pair may be destroyed first. At most [`MAX_CLOSING`] exist,
//! each for [`LINGER_MS`]; removing the device leaves them to the protocol below.

use crate::llp::HalfClosed;
use crate::prelude::*;
use core::sync::atomic::AtomicU32;
use kernel::{
    new_mutex,
    sync::Mutex, //
};
use provider::{
    new_worker,
    table::Table,
    work, //
};

/// The greatest number of connections of a device that may be closing. Others are aborted.
const MAX_CLOSING: u32 = 128;

/// From this number on, those of processes are aborted: they leave places to consumers in the
/// kernel, however many connections they end.
const MAX_BESIDE_KERNEL: u32 = 64;

/// The time that a peer has to close, in milliseconds.
const LINGER_MS: i64 = 3_000;

/// The interval of polling without an event, in milliseconds.
const POLL_MS: u32 = 1_000;

/// The closing state of a connection.
type HalfClosedOf<L> = <<L as Llp>::Established as EstablishedConn>::HalfClosed;

/// The closing connections of a device.
#[pin_data]
pub(crate) struct ClosingConns<L: Llp> {
    #[pin]
    table: Table<Arc<ClosingConn<L>>>,
    count: AtomicU32,
}

impl<L: Llp> ClosingConns<L> {
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
        while let Some(closing_conn) = self.table.pop() {
            closing_conn.events.clear();
            Worker::disable_sync(&closing_conn);
            let conn = closing_conn.conn.lock().take();
            if let Some(mut conn) = conn {
                // It may not have had a chance to send anything.
                conn.step();
            }
        }
    }
}

/// A place among the closing connections, which is free again when it is dropped.
struct ClosingPermit<L: Llp>(Arc<ClosingConns<L>>);

impl<L: Llp> ClosingPermit<L> {
    /// Takes a place. `ENOSPC` if there is none.
    fn take(closing_conns: &Arc<ClosingConns<L>>, of_process: bool) -> Result<Self> {
        let most = match of_process {
            true => MAX_BESIDE_KERNEL,
            false => MAX_CLOSING,
        };
        // If it is one too many, the drop gives it back.
        let before = closing_conns.count.fetch_add(1, Ordering::Relaxed);
        let permit = Self(closing_conns.clone());
        match before < most {
            true => Ok(permit),
            false => Err(ENOSPC),
        }
    }
}

impl<L: Llp> Drop for ClosingPermit<L> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection in the course of closing.
#[pin_data]
pub(crate) struct ClosingConn<L: Llp> {
    permit: ClosingPermit<L>,
    number: AtomicU32,
    since: Instant<Monotonic>,
    events: Arc<EventTarget>,
    #[pin]
    conn: Mutex<Option<HalfClosedOf<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Llp> ClosingConn<L> {
    fn new(
        closing_conns: &Arc<ClosingConns<L>>,
        events: &Arc<EventTarget>,
        of_process: bool,
    ) -> Result<Arc<Self>> {
        let (queue, permit, events) = (
            work::module_queue()?,
            ClosingPermit::take(closing_conns, of_process)?,
            events.clone(),
        );
        let this = Arc::pin_init(
            pin_init!(Self {
                permit,
                number: AtomicU32::new(0),
                since: Instant::now(),
                events,
                conn <- new_mutex!(None, "iwarp_ending"),
                worker <- new_worker!(Self, queue),
            }),
            GFP_KERNEL,
        )?;
        let number = closing_conns.table.insert(|_| this.clone())?;
        this.number.store(number, Ordering::Relaxed);
        Ok(this)
    }

    /// Closes a connection, whose events are delivered through `events` from now on. `of_process`
    /// says whether its queue pair is of a process. Sleeps.
    pub(crate) fn begin(
        closing_conns: &Arc<ClosingConns<L>>,
        events: &Arc<EventTarget>,
        conn: HalfClosedOf<L>,
        of_process: bool,
    ) {
        let Ok(this) = Self::new(closing_conns, events, of_process) else {
            events.clear();
            return conn.abort();
        };
        *this.conn.lock() = Some(conn);
        if events.set(&this).is_err() {
            if let Some(conn) = Self::finish(&this) {
                conn.abort();
            }
        }
    }

    /// Removes it from the device. Nothing of it runs any more. Returns the state that is left.
    fn finish(this: &Arc<Self>) -> Option<HalfClosedOf<L>> {
        Worker::disable(this);
        this.events.clear();
        let number = this.number.load(Ordering::Relaxed);
        drop(this.permit.0.table.remove(number));
        this.conn.lock().take()
    }
}

impl<L: Llp> Work for ClosingConn<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        let over = match &mut *this.conn.lock() {
            Some(conn) => conn.step(),
            None => return,
        };
        let expired = this.since.elapsed().as_millis() > LINGER_MS;
        if !over && !expired {
            return Worker::queue_work_after(&this, POLL_MS);
        }
        if let Some(conn) = Self::finish(&this) {
            match over {
                true => drop(conn),
                false => conn.abort(),
            }
        }
    }
}
