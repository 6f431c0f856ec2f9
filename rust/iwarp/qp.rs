// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! All work runs in the worker of the queue pair: connecting, the stream, and the end. Verbs only
//! enqueue and schedule it. On entry to the error state all requests, and any posted later,
//! complete as flushed; the connection is handed to [`ending`](crate::ending), which needs no queue
//! pair.

use crate::connecting::Connecting;
use crate::counters::Count;
use crate::ending::Ending;
use crate::ending::Endings;
use crate::id::Id;
use crate::lower::Lower;
use crate::lower::Open;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::stream::Round;
use crate::stream::Stream;
use crate::waker::Waker;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use provider::driver::Access;
use provider::driver::Change;
use provider::driver::QueuePair;
use provider::driver::State;
use provider::new_worker;
use provider::queue::Queues;
use provider::region::Domain;
use provider::work;
use provider::work::Work;
use provider::work::Worker;
use provider::wr::Status;
use rdmap::cm;
use rdmap::violation::Code;

/// Rounds of the worker in a row before other work runs.
const ROUNDS: usize = 8;

/// The interval of polling a connection that waits, even without an event, in milliseconds.
const LOOK_MS: u32 = 1_000;

/// The number of Terminates of peers that are logged, for each device.
const LINES: u64 = 16;

/// The reason why a connection ends.
#[derive(Clone, Copy)]
enum Why {
    /// The consumer wants it.
    Wanted,
    /// The stream is over.
    Over {
        /// The end is orderly.
        graceful: bool,
    },
}

/// The phase of a queue pair.
enum Phase<L: Lower> {
    /// There is no connection yet.
    Unbound,
    /// This side connects.
    Connecting(KBox<Connecting<L>>),
    /// There is a connection. It is reported as closed when the token is dropped.
    Open(KBox<Stream<L::Open>>, cm::Established<Id>),
    /// The connection is over.
    Over,
}

struct Inner<L: Lower> {
    phase: Phase<L>,
    waker: Option<Arc<Waker>>,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp<L: Lower> {
    shared: Arc<Shared>,
    queues: Arc<Queues>,
    endings: Arc<Endings<L>>,
    domain: Domain,
    // One of `State`.
    state: AtomicU32,
    // The consumer has closed the connection, whatever state it wanted next.
    closed: AtomicBool,
    access: AtomicU32,
    #[pin]
    inner: Mutex<Inner<L>>,
    #[pin]
    worker: Worker,
}

const STATES: [State; 6] = [
    State::Reset,
    State::Init,
    State::ReadyToReceive,
    State::ReadyToSend,
    State::Closing,
    State::Error,
];

impl<L: Lower> Qp<L> {
    /// Creates a queue pair. Sleeps.
    pub(crate) fn new(
        shared: Arc<Shared>,
        queues: Arc<Queues>,
        endings: Arc<Endings<L>>,
        domain: Domain,
    ) -> Result<Arc<Self>> {
        let queue = work::current()?;
        let inner = Inner {
            phase: Phase::Unbound,
            waker: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                shared,
                queues,
                endings,
                domain,
                state: AtomicU32::new(State::Reset as u32),
                closed: AtomicBool::new(false),
                access: AtomicU32::new(0),
                inner <- new_mutex!(inner, "iwarp_qp"),
                worker <- new_worker!(Self, queue),
            }),
            GFP_KERNEL,
        )
    }

    fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::SeqCst);
    }

    /// Changes the state, unless somebody else changed it.
    fn advance(&self, from: State, to: State) -> bool {
        let (from, to) = (from as u32, to as u32);
        self.state
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn access(&self) -> Access {
        let access = self.access.load(Ordering::Relaxed);
        Access {
            remote_read: access & 1 != 0,
            remote_write: access & 2 != 0,
        }
    }

    /// Begins to connect. `EINVAL` unless it is ready to receive, and has no connection.
    pub(crate) fn connect(
        this: &Arc<Self>,
        begin: impl FnOnce(Arc<Waker>) -> Result<KBox<Connecting<L>>>,
    ) -> Result {
        let mut inner = this.inner.lock();
        if !matches!(inner.phase, Phase::Unbound) || this.state() != State::ReadyToReceive {
            return Err(EINVAL);
        }
        let waker = Waker::new()?;
        waker.point_at(this)?;
        match begin(waker.clone()) {
            Ok(connecting) => {
                inner.phase = Phase::Connecting(connecting);
                inner.waker = Some(waker);
                Worker::kick(this);
                Ok(())
            }
            Err(error) => {
                waker.let_go();
                Err(error)
            }
        }
    }

    /// Takes over a connection that a peer began and the consumer accepts. `begin` creates the
    /// stream, when it is sure that it will be used, and the token.
    pub(crate) fn accept(
        this: &Arc<Self>,
        waker: Arc<Waker>,
        begin: impl FnOnce(&Queues) -> Result<(KBox<Stream<L::Open>>, cm::Accepting<Id>)>,
    ) -> Result {
        let mut inner = this.inner.lock();
        if !matches!(inner.phase, Phase::Unbound) || this.state() != State::ReadyToReceive {
            return Err(EINVAL);
        }
        let (stream, token) = begin(&this.queues)?;
        waker.point_at(this)?;
        inner.waker = Some(waker);
        // If the consumer has gone on to the error state, the worker ends it.
        this.advance(State::ReadyToReceive, State::ReadyToSend);
        inner.phase = Phase::Open(stream, token.established());
        Worker::kick(this);
        Ok(())
    }

    /// Runs one step of the worker. Says whether it should run again soon.
    fn step(this: &Arc<Self>, inner: &mut Inner<L>) -> bool {
        if matches!(this.state(), State::Closing | State::Error) {
            Self::end(this, inner, Why::Wanted);
            return false;
        }
        let memory = Registered {
            regions: &this.shared.regions,
            domain: this.domain,
            access: this.access(),
        };
        match &mut inner.phase {
            Phase::Unbound | Phase::Over => false,
            Phase::Connecting(connecting) => {
                if let Some(milliseconds) = connecting.step() {
                    // A timer that runs longer would delay a shorter one of the stream.
                    Worker::kick_later(this, milliseconds.min(LOOK_MS));
                    return false;
                }
                // Consumers may send as soon as the event arrives.
                this.advance(State::ReadyToReceive, State::ReadyToSend);
                let Phase::Connecting(connecting) =
                    core::mem::replace(&mut inner.phase, Phase::Over)
                else {
                    return false;
                };
                match connecting.finish(&this.shared, &this.queues) {
                    Some((stream, token)) => {
                        inner.phase = Phase::Open(stream, token);
                        true
                    }
                    None => {
                        Self::end(this, inner, Why::Over { graceful: false });
                        false
                    }
                }
            }
            Phase::Open(stream, _) => match stream.round(&this.shared, &this.queues, &memory) {
                Round::More => true,
                Round::Idle if stream.is_late() => {
                    this.shared.counters.add(Count::Late);
                    let graceful = stream.tell_late(&this.shared, &memory);
                    Self::end(this, inner, Why::Over { graceful });
                    false
                }
                Round::Idle => {
                    if let Some(milliseconds) = stream.look_again() {
                        Worker::kick_later(this, milliseconds);
                    }
                    false
                }
                Round::Over { graceful } => {
                    Self::end(this, inner, Why::Over { graceful });
                    false
                }
            },
        }
    }

    /// Ends the connection: reports it to the consumer, and completes everything.
    fn end(this: &Arc<Self>, inner: &mut Inner<L>, why: Why) {
        // A consumer that closes and drains its queues wants the error state right behind, and the
        // worker may not have run in between. Requests that completed until then are to arrive all
        // the same.
        let at_once = this.state() != State::Closing && !this.closed.load(Ordering::Relaxed);
        this.set_state(State::Error);
        match core::mem::replace(&mut inner.phase, Phase::Over) {
            Phase::Unbound | Phase::Over => {}
            Phase::Connecting(connecting) => {
                this.shared.counters.add(Count::ConnectFailed);
                connecting.give_up();
            }
            Phase::Open(stream, token) => {
                if let (Some(code), Some(id)) = (stream.terminated(), token.id()) {
                    Self::log(this, code, id);
                }
                let open = KBox::into_inner(stream).end(&this.queues);
                // Everything that was posted so far completes before iw_cm learns of the end.
                Self::flush(&this.queues);
                let last = match why {
                    Why::Wanted => open.close(at_once),
                    Why::Over { graceful: true } => Some(open.linger()),
                    Why::Over { graceful: false } => {
                        open.abort();
                        None
                    }
                };
                if let (Some(last), Some(waker)) = (last, inner.waker.take()) {
                    Ending::begin(&this.endings, &waker, last);
                }
                drop(token);
            }
        }
        Self::flush(&this.queues);
        if let Some(waker) = inner.waker.take() {
            waker.let_go();
        }
    }

    /// Logs the reason for which a peer ended a connection. Any number of peers can cause this as
    /// often as they like, so only the first ones of a device are logged.
    fn log(this: &Self, code: Code, id: &Id) {
        if this.shared.counters.get(Count::TerminateReceived) > LINES {
            return;
        }
        let (peer, Code { layer, etype, code }) = (id.ends.peer, code);
        pr_info!("{peer:?} ended its connection with a Terminate: layer {layer}, type {etype}, code {code:#04x}\n");
    }

    /// Completes the posted requests that were not taken.
    fn flush(queues: &Queues) {
        while let Some(request) = queues.take_send_to_flush() {
            queues.complete_send(request, Status::Flushed);
        }
        while let Some(request) = queues.take_receive() {
            queues.complete_receive(request, Status::Flushed, 0, false, None);
        }
    }
}

impl<L: Lower> Work for Qp<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        for _ in 0..ROUNDS {
            let mut inner = this.inner.lock();
            let more = Self::step(&this, &mut inner);
            if matches!(inner.phase, Phase::Open(..)) && this.queues.have_overflown() {
                return Self::end(&this, &mut inner, Why::Over { graceful: false });
            }
            if !more {
                return;
            }
        }
        Worker::kick(&this);
    }
}

impl<L: Lower> QueuePair for Qp<L> {
    fn posted(this: &Arc<Self>) {
        Worker::kick(this);
    }

    fn modify(this: &Arc<Self>, change: Change) -> Result {
        if let Some(access) = change.access {
            let bits = u32::from(access.remote_read) | u32::from(access.remote_write) << 1;
            this.access.store(bits, Ordering::Relaxed);
        }
        let Some(to) = change.state else {
            return Ok(());
        };
        loop {
            let from = this.state();
            let allowed = match to {
                State::Error => true,
                State::Closing => from == State::ReadyToSend,
                State::Reset => from == State::Reset,
                // Forwards, or the same state.
                _ => from as u32 <= to as u32 && (to as u32) < State::Closing as u32,
            };
            if !allowed {
                return Err(EINVAL);
            }
            if to == State::Closing {
                // This precedes the state that the worker sees.
                this.closed.store(true, Ordering::Relaxed);
            }
            if this.advance(from, to) {
                break;
            }
        }
        if matches!(to, State::Closing | State::Error) {
            // The worker may be in the middle of a round of the stream.
            this.queues.close_sends();
            Worker::kick(this);
        }
        Ok(())
    }

    fn state(&self) -> State {
        let state = usize::try_from(self.state.load(Ordering::SeqCst)).unwrap_or(0);
        STATES.get(state).copied().unwrap_or(State::Error)
    }

    fn destroy(this: Arc<Self>) {
        this.set_state(State::Error);
        Worker::stop(&this);
        Self::end(&this, &mut this.inner.lock(), Why::Wanted);
    }
}
