// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! All work runs in the worker of the queue pair: connecting, the stream, and the end. Verbs only
//! enqueue and schedule it, but for one: a process that tells of its requests does the next step
//! itself, unless somebody works for the queue pair already, so that no worker need wake up. A
//! consumer in the kernel may post in any context, so its requests always go to the worker.
//!
//! On entry to the error state all requests, and any posted later, complete as flushed; the
//! connection is handed to [`closing`](crate::closing), which needs no queue pair.
//!
//! # States
//!
//! The consumer sees a [`QpState`]:
//!
//! ```text
//! Reset ---> Init ---> Rtr ---> Rts ---> Closing
//!   |         |         |        |         |
//!   +---------+---------+--------+---------+---> Error
//! ```
//!
//! `modify` goes forwards, also several steps, but to `Closing` from `Rts` only, and to `Error`
//! from everywhere. A queue pair of a process becomes `Rts` by a connection only, which may begin
//! in `Init`: the library that connects does not go on before. It may close what is over. A
//! connection that one side has accepted takes its queue pair from `Rtr` to `Rts`; [`Qp::end`]
//! takes it to `Error`.
//!
//! The [`Phase`] is the part of a connection that there is:
//!
//! ```text
//! Unbound --- accept, in Rtr -----------------------------+
//!   |   |                                                 v
//!   |   +---- connect, in Rtr ---> Connecting --------> Established
//!   |                                |     the peer       |
//!   | 1                              | 1   accepts        | 1, 2 or 3
//!   |                                | or it failed       |
//!   v                                v                    v
//! Over <-----------------------------+--------------------+---> half-closed: a ClosingConn
//!                                                         +---> aborted
//! ```
//!
//! 1. The consumer wants it: the state is `Closing` or `Error`, or the queue pair is destroyed. The
//!    connection is half-closed; over TCP only if the state has been `Closing`, or the queue pair
//!    is of a process, else aborted.
//! 2. The stream has ended in order, or this end has sent a Terminate: half-closed.
//! 3. The stream has ended in another way, or a completion queue has overrun: aborted.
//!
//! A half-closed connection is there until the peer has closed, for three seconds at most.

mod end;

use crate::prelude::*;
use crate::{
    closing::ClosingConns,
    connect::{
        ConnId,
        Connecting, //
    },
    end_reason::EndReason,
    stream::StreamProgress, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU32, //
};
use end::{
    EndCause,
    LOOK_MS, //
};
use iwtrace::QpId;
use kernel::{
    new_mutex,
    sync::Mutex, //
};
use provider::{
    driver::{
        QpAttr,
        QpState,
        QueuePair, //
    },
    new_worker,
    queue::QpEvent,
    region,
    work,
    MemoryCharge, //
};
use rdmap::cm;

/// Rounds of the worker in a row before other work runs.
///
/// The workqueue has the priority of interrupt handlers, nearly, so whatever else is to run on this
/// CPU waits meanwhile: the handlers of completions, and the consumer's threads. A round moves
/// about 64 KiB in each direction over TCP, and over SCTP as many chunks as its budgets say. A
/// queue pair that has more to do than these goes on in the workqueue for long work, where it has
/// as much of a CPU as they have, until it has nothing more to do.
const ROUND_BUDGET: usize = 4;

/// The interval of polling a connection that waits, even without an event, in milliseconds.
const POLL_MS: u32 = 1_000;

/// The next action of the worker after a step.
enum Next {
    /// It runs another one: there may be more to do at once.
    Step,
    /// It waits for an event, or until that many milliseconds are over.
    Wait(Option<u32>),
    /// It ends the connection.
    End(EndCause),
}

/// The phase of a queue pair.
enum Phase<L: Llp> {
    /// There is no connection yet.
    Unbound,
    /// This side connects.
    Connecting(KBox<Connecting<L>>),
    /// There is a connection. It is reported as closed when the token is dropped.
    Established(KBox<Stream<L::Established>>, cm::Established<ConnId>),
    /// The connection is over.
    Over,
}

struct Inner<L: Llp> {
    phase: Phase<L>,
    events: Option<Arc<EventTarget>>,
    // The consumer knows that no Receive of its shared receive queue is taken any more.
    has_told_last: bool,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp<L: Llp> {
    shared: Arc<DeviceState>,
    queues: Arc<Queues>,
    closing_conns: Arc<ClosingConns<L>>,
    pd: region::ProtectionDomain,
    // Of the memory of a connection: of a consumer in the kernel nobody's.
    charge: MemoryCharge,
    // One of `QpState`.
    state: AtomicU32,
    // The consumer has closed the connection, whatever state it wanted next.
    closed: AtomicBool,
    access: AtomicU32,
    // The time until the next look for requests in error state.
    look_ms: AtomicU32,
    #[pin]
    inner: Mutex<Inner<L>>,
    #[pin]
    worker: Worker,
}

const STATES: [QpState; 6] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Closing,
    QpState::Error,
];

impl<L: Llp> Qp<L> {
    /// Creates a queue pair. If it is for a process, that calls, and pays for the memory of the
    /// connection. Sleeps.
    pub(crate) fn new(
        shared: Arc<DeviceState>,
        queues: Arc<Queues>,
        closing_conns: Arc<ClosingConns<L>>,
        pd: region::ProtectionDomain,
    ) -> Result<Arc<Self>> {
        let (queue, long_queue, charge, flags) = match queues.is_of_process() {
            true => (
                work::module_user_queue()?,
                None,
                MemoryCharge::caller(),
                GFP_KERNEL_ACCOUNT,
            ),
            false => (
                work::module_queue()?,
                Some(work::module_long_queue()?),
                MemoryCharge::nobody(),
                GFP_KERNEL,
            ),
        };
        let inner = Inner {
            phase: Phase::Unbound,
            events: None,
            has_told_last: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                shared,
                queues,
                closing_conns,
                pd,
                charge,
                state: AtomicU32::new(QpState::Reset as u32),
                closed: AtomicBool::new(false),
                access: AtomicU32::new(0),
                look_ms: AtomicU32::new(LOOK_MS[0]),
                inner <- new_mutex!(inner, "iwarp_qp"),
                worker <- new_worker!(Self, queue, long_queue),
            }),
            flags,
        )
    }

    fn set_state(&self, state: QpState) {
        let from = self.state.swap(state as u32, Ordering::SeqCst);
        if from != state as u32 {
            iwtrace::event!(iwarp_qp_state(self.id(), from, state as u32));
        }
    }

    /// Changes the state, unless somebody else changed it.
    fn advance(&self, from: QpState, to: QpState) -> bool {
        let (from, to) = (from as u32, to as u32);
        let changed = self
            .state
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        if changed && from != to {
            iwtrace::event!(iwarp_qp_state(self.id(), from, to));
        }
        changed
    }

    /// Returns its numbers.
    pub(crate) fn id(&self) -> QpId {
        self.queues.id()
    }

    /// Returns whether it is one of a process.
    pub(crate) fn is_of_process(&self) -> bool {
        self.queues.is_of_process()
    }

    /// Returns whether it may be connected.
    fn is_connectable(&self) -> bool {
        match self.state() {
            QpState::Rtr => true,
            QpState::Init => self.queues.is_of_process(),
            _ => false,
        }
    }

    /// Takes note of a connection.
    fn set_connected(&self) {
        let from = |state| self.advance(state, QpState::Rts);
        let connected = from(QpState::Rtr);
        if !connected && self.queues.is_of_process() && !from(QpState::Init) {
            // It may have gone from the one to the other meanwhile.
            from(QpState::Rtr);
        }
    }

    /// Returns the access that it grants to the peer. Libraries do not set what processes expect
    /// on the side that connects, so there the rights of regions alone decide.
    fn access(&self) -> region::AccessFlags {
        if self.queues.is_of_process() {
            return region::AccessFlags {
                remote_read: true,
                remote_write: true,
            };
        }
        let access = self.access.load(Ordering::Relaxed);
        region::AccessFlags {
            remote_read: access & 1 != 0,
            remote_write: access & 2 != 0,
        }
    }

    /// Begins to connect. `EINVAL` unless it is ready to receive, and has no connection.
    pub(crate) fn connect(
        this: &Arc<Self>,
        begin: impl FnOnce(Arc<EventTarget>) -> Result<KBox<Connecting<L>>>,
    ) -> Result {
        let mut inner = this.inner.lock();
        if !matches!(inner.phase, Phase::Unbound) || !this.is_connectable() {
            return Err(EINVAL);
        }
        let events = EventTarget::new()?;
        events.set(this)?;
        match begin(events.clone()) {
            Ok(connecting) => {
                inner.phase = Phase::Connecting(connecting);
                inner.events = Some(events);
                Worker::queue_work(this);
                Ok(())
            }
            Err(error) => {
                events.clear();
                Err(error)
            }
        }
    }

    /// Takes over a connection that a peer began and the consumer accepts. `begin` creates the
    /// stream, when it is sure that it will be used, and the token.
    // Argues for S6-2.
    pub(crate) fn accept(
        this: &Arc<Self>,
        events: Arc<EventTarget>,
        begin: impl FnOnce(&Queues) -> Result<(KBox<Stream<L::Established>>, cm::Accepting<ConnId>)>,
    ) -> Result {
        let mut inner = this.inner.lock();
        if !matches!(inner.phase, Phase::Unbound) || !this.is_connectable() {
            return Err(EINVAL);
        }
        let (stream, token) = this.charge.apply(|| begin(&this.queues))?;
        events.set(this)?;
        inner.events = Some(events);
        // If the consumer has gone on to the error state, the worker ends it.
        this.set_connected();
        inner.phase = Phase::Established(stream, token.established());
        Worker::queue_work(this);
        Ok(())
    }

    /// Runs one step of the worker.
    fn step(this: &Arc<Self>, inner: &mut Inner<L>) -> Next {
        if matches!(this.state(), QpState::Closing | QpState::Error) {
            return Next::End(EndCause::Requested);
        }
        // What steps and sends stays where it is, as it is large.
        match &mut inner.phase {
            Phase::Established(stream, _) => return Self::stream_step(this, stream),
            Phase::Connecting(connecting) => {
                if let Some(milliseconds) = connecting.step() {
                    // A timer that runs longer would delay a shorter one of the stream.
                    return Next::Wait(Some(milliseconds.min(POLL_MS)));
                }
            }
            _ => return Next::Wait(None),
        }
        Self::finish_connecting(this, inner)
    }

    /// Ends the attempt to connect that this side has made, with a stream or without.
    ///
    /// Much is moved here. The space for that must not be on the stack while a stream sends: on
    /// PREEMPT_RT, packets that arrive meanwhile may be received on the same stack. All that may be
    /// sent from here is the end of an attempt that has failed.
    #[inline(never)]
    fn finish_connecting(this: &Arc<Self>, inner: &mut Inner<L>) -> Next {
        let Phase::Connecting(connecting) = core::mem::replace(&mut inner.phase, Phase::Over)
        else {
            return Next::Wait(None);
        };
        // Consumers may send as soon as the event arrives.
        this.set_connected();
        match connecting.finish(&this.shared, &this.queues) {
            Some((stream, token)) => {
                inner.phase = Phase::Established(stream, token);
                Next::Step
            }
            None => Next::End(EndCause::NotConnected),
        }
    }

    /// Runs one round of the stream.
    fn stream_step(this: &Arc<Self>, stream: &mut Stream<L::Established>) -> Next {
        let memory = RegisteredMemory {
            regions: &RoundRegions::new(&this.shared.regions),
            pd: this.pd,
            access: this.access(),
        };
        match stream.round(&this.shared, &this.queues, &memory) {
            StreamProgress::Over { graceful, reason } => Next::End(EndCause::of(graceful, reason)),
            StreamProgress::Idle if stream.has_timed_out() => {
                this.shared.counters.add(Count::TimedOut);
                let graceful = stream.terminate_late(&this.shared, &memory);
                Next::End(EndCause::of(graceful, EndReason::Late))
            }
            _ if this.queues.has_overrun() => {
                this.shared.counters.add(Count::CqOverruns);
                Next::End(EndCause::Abortive(EndReason::CqOverrun))
            }
            StreamProgress::More => Next::Step,
            StreamProgress::Idle => Next::Wait(stream.poll_after_ms()),
        }
    }

    /// Runs one step, and does what it asks for. Returns whether there may be more to do at once.
    fn work(this: &Arc<Self>, inner: &mut Inner<L>) -> bool {
        match this.charge.apply(|| Self::step(this, inner)) {
            Next::Step => return true,
            Next::Wait(after) => {
                Worker::end_long_work(this);
                if let Some(milliseconds) = after {
                    Worker::queue_work_after(this, milliseconds);
                }
            }
            Next::End(cause) => {
                Worker::end_long_work(this);
                let more = Self::end(this, inner, cause);
                if !core::mem::replace(&mut inner.has_told_last, true)
                    && this.queues.shared_receives().is_some()
                {
                    this.queues.report(QpEvent::LastReceive);
                }
                Self::look_later(this, more);
            }
        }
        false
    }
}

impl<L: Llp> Work for Qp<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        // A process can keep it busy for ever.
        let rounds = match this.queues.is_of_process() {
            true => 1,
            false => ROUND_BUDGET,
        };
        for _ in 0..rounds {
            if !Self::work(&this, &mut this.inner.lock()) {
                return;
            }
        }
        Worker::queue_long_work(&this);
    }
}

impl<L: Llp> QueuePair for Qp<L> {
    fn posted(this: &Arc<Self>) {
        Worker::queue_work(this);
    }

    fn doorbell(this: &Arc<Self>) {
        // Whoever has the lock may have looked for requests already, so the worker looks again.
        let has_more = match this.inner.try_lock() {
            Some(mut inner) => Self::work(this, &mut inner),
            None => true,
        };
        if has_more {
            Worker::queue_work(this);
        }
    }

    fn modify(this: &Arc<Self>, attr: QpAttr) -> Result {
        if let Some(access) = attr.access {
            let bits = u32::from(access.remote_read) | u32::from(access.remote_write) << 1;
            this.access.store(bits, Ordering::Relaxed);
        }
        let Some(to) = attr.state else {
            return Ok(());
        };
        loop {
            let from = this.state();
            let is_of_process = this.queues.is_of_process();
            let is_over = matches!(from, QpState::Closing | QpState::Error);
            if is_of_process && to == QpState::Closing && is_over {
                // The peer was faster, or it closes twice.
                return Ok(());
            }
            let allowed = match to {
                QpState::Error => true,
                QpState::Rts if is_of_process => from == QpState::Rts,
                QpState::Closing => from == QpState::Rts,
                QpState::Reset => from == QpState::Reset,
                // Forwards, or the same state.
                _ => from as u32 <= to as u32 && (to as u32) < QpState::Closing as u32,
            };
            if !allowed {
                return Err(EINVAL);
            }
            if to == QpState::Closing {
                // This precedes the state that the worker sees.
                this.closed.store(true, Ordering::Relaxed);
            }
            if this.advance(from, to) {
                break;
            }
        }
        if matches!(to, QpState::Closing | QpState::Error) {
            // The worker may be in the middle of a round of the stream.
            this.queues.stop_sends();
            Worker::queue_work(this);
        }
        Ok(())
    }

    fn state(&self) -> QpState {
        let state = usize::try_from(self.state.load(Ordering::SeqCst)).unwrap_or(0);
        STATES.get(state).copied().unwrap_or(QpState::Error)
    }

    fn destroy(this: Arc<Self>) {
        this.set_state(QpState::Error);
        Worker::disable_sync(&this);
        Self::end(&this, &mut this.inner.lock(), EndCause::Requested);
    }
}
