// SPDX-License-Identifier: GPL-2.0

//! A connection that this side begins, until its result is reported to the consumer.

use crate::counters::Count;
use crate::id::Id;
use crate::lower::Active;
use crate::lower::Answer;
use crate::lower::Failure;
use crate::lower::Lower;
use crate::lower::Progress;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::waker::Waker;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::addr::Net;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Parameters;
use provider::queue::Queues;
use rdmap::cm;
use rdmap::cm::clamp_reads;
use rdmap::cm::Established;
use rdmap::cm::PrivateData;
use rdmap::cm::Refusal;
use rdmap::cm::Reply;

/// The time until the peer's answer, in milliseconds.
const PATIENCE_MS: i64 = 10_000;

/// A stream, and the token of iw_cm for it.
pub(crate) type Begun<L> = (KBox<Stream<<L as Lower>::Open>>, Established<Id>);

/// A connection that this side begins.
pub(crate) struct Connecting<L: Lower> {
    active: L::Active,
    since: Instant<Monotonic>,
    // The error, if it failed.
    failure: Option<Failure>,
    token: cm::Connecting<Id>,
}

impl<L: Lower> Connecting<L> {
    /// Begins to connect. If this fails, no event follows. Sleeps, but not for the peer.
    pub(crate) fn new(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        id: CmId,
        waker: Arc<Waker>,
    ) -> Result<KBox<Self>> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let active = L::Active::connect(net, ends, parameters, waker)?;
        Ok(room.write(Self {
            active,
            since: Instant::now(),
            failure: None,
            token: cm::Connecting::new(Id {
                id,
                ends,
                ird: 0,
                ord: 0,
            }),
        }))
    }

    /// Continues. Returns the time in milliseconds that it may still take, or [`None`] if it can be
    /// [finished](Self::finish).
    pub(crate) fn step(&mut self) -> Option<u32> {
        self.failure = match self.active.step() {
            Progress::Answered => return None,
            Progress::Failed(failure) => Some(failure),
            Progress::Waits => {
                let left = PATIENCE_MS.saturating_sub(self.since.elapsed().as_millis());
                match u32::try_from(left) {
                    Ok(left) if left > 0 => return Some(left),
                    _ => Some(Failure::Timeout),
                }
            }
        };
        None
    }

    /// Reports the result to the consumer. Returns the stream, if there is one.
    pub(crate) fn finish(self: KBox<Self>, shared: &Shared, queues: &Queues) -> Option<Begun<L>> {
        let this = KBox::into_inner(self);
        let failed = |token: cm::Connecting<Id>, refusal: Refusal<'_>| {
            shared.counters.add(Count::ConnectFailed);
            token.reply(Err(refusal));
            None
        };
        if let Some(failure) = this.failure {
            this.active.give_up();
            let refusal = match failure {
                Failure::Refused => Refusal::Refused(PrivateData::default()),
                Failure::Reset => Refusal::Reset,
                Failure::Timeout => Refusal::Timeout,
            };
            return failed(this.token, refusal);
        }
        let (stream, reads, said) = match this.active.answer() {
            Answer::Accepted { open, reads, said } => {
                (Stream::new(open, queues, reads), reads, said)
            }
            Answer::Rejected(said) => {
                let said = PrivateData::new(said.as_slice()).unwrap_or_default();
                return failed(this.token, Refusal::Refused(said));
            }
            Answer::Wrong => return failed(this.token, Refusal::Reset),
            Answer::NoMemory => {
                shared.counters.add(Count::NoMemory);
                return failed(this.token, Refusal::Reset);
            }
        };
        let boxed = stream.and_then(|stream| Ok(KBox::new(stream, GFP_KERNEL)?));
        let Ok(stream) = boxed else {
            shared.counters.add(Count::NoMemory);
            return failed(this.token, Refusal::Reset);
        };
        let token = this.token.reply(Ok(Reply {
            ird: clamp_reads(reads.ird),
            ord: clamp_reads(reads.ord),
            private_data: PrivateData::new(said.as_slice()).unwrap_or_default(),
        }))?;
        shared.counters.add(Count::Connected);
        Some((stream, token))
    }

    /// Ends the attempt when the consumer does not want it any more. A reset is reported.
    pub(crate) fn give_up(self: KBox<Self>) {
        let this = KBox::into_inner(self);
        this.active.give_up();
        drop(this.token);
    }
}
