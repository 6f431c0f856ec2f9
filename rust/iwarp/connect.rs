// SPDX-License-Identifier: GPL-2.0

//! A connection that this side begins, until its result is reported to the consumer.

use crate::counters::Count;
use crate::event_target::EventTarget;
use crate::id::ConnId;
use crate::llp::Active;
use crate::llp::ConnectProgress;
use crate::llp::ConnectReply;
use crate::llp::Llp;
use crate::shared::DeviceState;
use crate::stream::Stream;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::addr::Net;
use provider::cm::CmId;
use provider::cm::ConnParams;
use provider::cm::ConnectError;
use provider::cm::Endpoints;
use provider::queue::Queues;
use rdmap::cm;
use rdmap::cm::clamp_reads;
use rdmap::cm::Established;
use rdmap::cm::PrivateData;
use rdmap::cm::Reply;

/// The time until the peer's answer, in milliseconds.
const CONNECT_TIMEOUT_MS: i64 = 10_000;

/// A stream, and the token of iw_cm for it.
pub(crate) type Connected<L> = (KBox<Stream<<L as Llp>::Established>>, Established<ConnId>);

/// A connection that this side begins.
pub(crate) struct Connecting<L: Llp> {
    active: L::Active,
    since: Instant<Monotonic>,
    // The error, if it failed.
    error: Option<ConnectError>,
    token: cm::Connecting<ConnId>,
}

impl<L: Llp> Connecting<L> {
    /// Begins to connect. If this fails, no event follows. Sleeps, but not for the peer.
    pub(crate) fn new(
        net: &Net,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        id: CmId,
        events: Arc<EventTarget>,
    ) -> Result<KBox<Self>> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let active = L::Active::connect(net, endpoints, parameters, events)?;
        Ok(room.write(Self {
            active,
            since: Instant::now(),
            error: None,
            token: cm::Connecting::new(ConnId {
                id,
                endpoints,
                ird: 0,
                ord: 0,
            }),
        }))
    }

    /// Continues. Returns the time in milliseconds that it may still take, or [`None`] if it can be
    /// [finished](Self::finish).
    pub(crate) fn step(&mut self) -> Option<u32> {
        self.error = match self.active.step() {
            ConnectProgress::Replied => return None,
            ConnectProgress::Failed(error) => Some(error),
            ConnectProgress::Pending => {
                let left = CONNECT_TIMEOUT_MS.saturating_sub(self.since.elapsed().as_millis());
                match u32::try_from(left) {
                    Ok(left) if left > 0 => return Some(left),
                    _ => Some(ConnectError::TimedOut),
                }
            }
        };
        None
    }

    /// Reports the result to the consumer. Returns the stream, if there is one.
    pub(crate) fn finish(
        self: KBox<Self>,
        shared: &DeviceState,
        queues: &Queues,
    ) -> Option<Connected<L>> {
        let this = KBox::into_inner(self);
        let failed = |token: cm::Connecting<ConnId>, error: cm::ConnectError<'_>| {
            shared.counters.add(Count::ConnectFailed);
            token.reply(Err(error));
            None
        };
        if let Some(error) = this.error {
            this.active.abort();
            let error = match error {
                ConnectError::Refused => cm::ConnectError::Refused(PrivateData::default()),
                ConnectError::Reset => cm::ConnectError::Reset,
                ConnectError::TimedOut => cm::ConnectError::TimedOut,
            };
            return failed(this.token, error);
        }
        let (stream, reads, private_data) = match this.active.into_reply() {
            ConnectReply::Accepted {
                conn,
                reads,
                private_data,
            } => (Stream::new(conn, queues, reads), reads, private_data),
            ConnectReply::Rejected(private_data) => {
                let private_data = PrivateData::new(private_data.as_slice()).unwrap_or_default();
                return failed(this.token, cm::ConnectError::Refused(private_data));
            }
            ConnectReply::Invalid => return failed(this.token, cm::ConnectError::Reset),
            ConnectReply::NoMemory => {
                shared.counters.add(Count::NoMemory);
                return failed(this.token, cm::ConnectError::Reset);
            }
        };
        let boxed = stream.and_then(|stream| Ok(KBox::new(stream, GFP_KERNEL)?));
        let Ok(stream) = boxed else {
            shared.counters.add(Count::NoMemory);
            return failed(this.token, cm::ConnectError::Reset);
        };
        let token = this.token.reply(Ok(Reply {
            ird: clamp_reads(reads.ird),
            ord: clamp_reads(reads.ord),
            private_data: PrivateData::new(private_data.as_slice()).unwrap_or_default(),
        }))?;
        shared.counters.add(Count::Connected);
        Some((stream, token))
    }

    /// Ends the attempt when the consumer does not want it any more. A reset is reported.
    pub(crate) fn abort(self: KBox<Self>) {
        let this = KBox::into_inner(self);
        this.active.abort();
        drop(this.token);
    }
}
