// SPDX-License-Identifier: GPL-2.0

//! The end of a connection of a queue pair, and what is posted behind it.

use super::{
    Inner,
    Phase,
    Qp, //
};
use crate::{
    closing::ClosingConn,
    end_reason::EndReason,
    prelude::*, //
};
use provider::{
    driver::{
        QpState,
        QueuePair, //
    },
    rate_limit::RateLimit,
    wr::Status, //
};

/// The time in milliseconds after which a queue pair of a process in error state looks for requests
/// that nobody tells of, at first and at last.
pub(super) const LOOK_MS: [u32; 2] = [10, 1_000];

/// The number of requests that each of these looks completes, as a process can go on for ever.
const LOOK_LIMIT: usize = 256;

/// The reason why a connection ends.
#[derive(Clone, Copy)]
pub(super) enum EndCause {
    /// The consumer wants it.
    Requested,
    /// The stream is over, and the last segments are still to be delivered to the peer.
    Graceful(EndReason),
    /// The stream failed.
    Abortive(EndReason),
    /// An attempt to connect failed.
    NotConnected,
}

impl EndCause {
    pub(super) fn of(graceful: bool, reason: EndReason) -> Self {
        match graceful {
            true => Self::Graceful(reason),
            false => Self::Abortive(reason),
        }
    }

    fn reason(self) -> EndReason {
        match self {
            Self::Graceful(reason) | Self::Abortive(reason) => reason,
            Self::Requested | Self::NotConnected => EndReason::Requested,
        }
    }
}

impl<L: Llp> Qp<L> {
    /// Ends the connection: reports it to the consumer, and completes everything. Returns whether
    /// there were requests that had not been taken.
    pub(super) fn end(this: &Arc<Self>, inner: &mut Inner<L>, cause: EndCause) -> bool {
        // A consumer that closes and drains its queues wants the error state right behind, and the
        // worker may not have run in between. Requests that completed until then are to arrive all
        // the same. Those of a process, too, which may end, or destroy its queue pair, as soon as
        // they are complete: elsewhere that says that they have arrived.
        let at_once = this.state() != QpState::Closing
            && !this.closed.load(Ordering::Relaxed)
            && !this.queues.is_of_process();
        this.set_state(QpState::Error);
        let limit = match inner.phase {
            Phase::Over if this.queues.is_of_process() => LOOK_LIMIT,
            _ => usize::MAX,
        };
        match core::mem::replace(&mut inner.phase, Phase::Over) {
            Phase::Unbound | Phase::Over => {}
            Phase::Connecting(connecting) => {
                this.shared.counters.add(Count::ConnectFailed);
                connecting.abort(&this.queues);
            }
            Phase::Established(stream, token) => {
                if let Some(id) = token.id() {
                    this.report_end(&stream, id.endpoints, cause, at_once);
                }
                let open = KBox::into_inner(stream).end(&this.queues);
                // Everything that was posted so far completes before iw_cm learns of the end.
                Self::flush(&this.queues, usize::MAX);
                let half_closed = match cause {
                    EndCause::Requested => open.close(at_once),
                    EndCause::Graceful(_) => Some(open.half_close()),
                    EndCause::Abortive(_) | EndCause::NotConnected => {
                        open.abort();
                        None
                    }
                };
                if let (Some(half_closed), Some(events)) = (half_closed, inner.events.take()) {
                    let of_process = this.queues.is_of_process();
                    ClosingConn::begin(&this.closing_conns, &events, half_closed, of_process);
                }
                drop(token);
            }
        }
        let flushed = Self::flush(&this.queues, limit);
        if let Some(events) = inner.events.take() {
            events.clear();
        }
        flushed
    }

    /// Looks later for requests that a process posts to a queue pair that has ended: of Receives
    /// nobody tells. There are `more` if there were some just now.
    pub(super) fn look_later(this: &Arc<Self>, more: bool) {
        if !this.queues.is_of_process() {
            return;
        }
        let [first, last] = LOOK_MS;
        let milliseconds = match more {
            true => first,
            false => this.look_ms.load(Ordering::Relaxed),
        };
        let next = milliseconds.saturating_mul(2).min(last);
        this.look_ms.store(next, Ordering::Relaxed);
        Worker::queue_work_after(this, milliseconds);
    }

    /// Traces the end of a connection, and logs the reason unless that is an end in order.
    fn report_end(
        &self,
        stream: &Stream<L::Established>,
        ends: Endpoints,
        cause: EndCause,
        at_once: bool,
    ) {
        let (qp, Endpoints { local, peer }) = (self.id(), ends);
        let reason = cause.reason();
        if let EndReason::PeerTerminated(Code { layer, etype, code }) = reason {
            iwtrace::event!(iwarp_terminate_received(
                qp, local, peer, layer, etype, code
            ));
        }
        if let Some(Code { layer, etype, code }) = stream.sent_terminate() {
            iwtrace::event!(iwarp_terminate_sent(qp, local, peer, layer, etype, code));
        }
        let aborted = match cause {
            EndCause::Requested => at_once && L::Established::HALF_CLOSES,
            EndCause::Graceful(_) => false,
            EndCause::Abortive(_) | EndCause::NotConnected => true,
        };
        let (text, error) = (reason.text(), reason.error());
        iwtrace::event!(iwarp_end(qp, local, peer, text, error, aborted));
        if !reason.is_orderly() {
            log_end(peer, reason, self.queues.is_of_process());
        }
    }

    /// Completes the posted requests that were not taken, at most `limit` of each queue, and no
    /// more than there is room for at a time. Returns whether there were some.
    fn flush(queues: &Queues, limit: usize) -> bool {
        let sizes = queues.queue_sizes();
        let mut flushed = false;
        for _ in 0..sizes.sends.min(limit) {
            let Some(request) = queues.take_send_to_flush() else {
                break;
            };
            queues.complete_send(request, Status::Flushed);
            flushed = true;
        }
        for _ in 0..sizes.receives.min(limit) {
            let Some(request) = queues.take_receive() else {
                break;
            };
            queues.complete_receive(request, Status::Flushed, 0, false, None);
            flushed = true;
        }
        flushed
    }
}

/// Logs the reason for the end of a connection, within limits: peers can cause any number of lines.
/// Their Terminates have a limit of their own, as nothing else tells of their reasons; and so have
/// the queue pairs of processes, which would else keep lines about those of the kernel out.
fn log_end(peer: SocketAddr, reason: EndReason, is_of_process: bool) {
    static TERMINATES: RateLimit = RateLimit::new();
    static OTHERS: RateLimit = RateLimit::new();
    static PROCESSES: RateLimit = RateLimit::new();
    let limit = match reason {
        _ if is_of_process => &PROCESSES,
        EndReason::PeerTerminated(_) => &TERMINATES,
        _ => &OTHERS,
    };
    let Some(left_out) = limit.allows() else {
        return;
    };
    if left_out != 0 {
        pr_info!("{left_out} lines about connections were left out\n");
    }
    let text = reason.text();
    match reason {
        EndReason::PeerTerminated(Code { layer, etype, code }) => {
            pr_info!("{peer:?} ended its connection with a Terminate: layer {layer}, type {etype}, code {code:#04x}\n");
        }
        EndReason::Failed {
            cause,
            is_told: true,
        } => {
            let Code { layer, etype, code } = cause.code();
            pr_info!("the connection of {peer:?} was ended with a Terminate: layer {layer}, type {etype}, code {code:#04x}, {cause:?}\n");
        }
        EndReason::Failed { cause, .. } => {
            pr_info!("connection to {peer:?} lost: {text}, {cause:?}\n");
        }
        EndReason::Error(error) => pr_info!("connection to {peer:?} lost: {text} ({error})\n"),
        _ => pr_info!("connection to {peer:?} lost: {text}\n"),
    }
}
