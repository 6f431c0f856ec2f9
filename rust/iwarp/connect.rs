// SPDX-License-Identifier: GPL-2.0

//! A connection that this side begins, until its result is reported to the consumer; and the ids of
//! iw_cm, which keep the order of events that [`rdmap::cm`] defines.

use crate::llp::{
    self,
    Active, //
};
use crate::prelude::*;
use iwtrace::QpId;
use provider::cm::CmId;
use rdmap::cm;

/// The time until the peer's answer, in milliseconds.
const CONNECT_TIMEOUT_MS: i64 = 10_000;

/// A stream, and the token of iw_cm for it.
pub(crate) type Connected<L> = (
    KBox<Stream<<L as Llp>::Established>>,
    cm::Established<ConnId>,
);

/// A connection that this side begins.
pub(crate) struct Connecting<L: Llp> {
    active: L::Active,
    since: Instant<Monotonic>,
    // The error, if it failed.
    error: Option<ConnectError>,
    endpoints: Endpoints,
    token: cm::Connecting<ConnId>,
}

impl<L: Llp> Connecting<L> {
    /// Begins to connect. If this fails, no event follows. Sleeps, but not for the peer.
    pub(crate) fn new(
        net: &Net,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        peer_to_peer: bool,
        id: CmId,
        events: Arc<EventTarget>,
    ) -> Result<KBox<Self>> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let active = L::Active::connect(net, endpoints, parameters, peer_to_peer, events)?;
        Ok(room.write(Self {
            active,
            since: Instant::now(),
            error: None,
            endpoints,
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
            llp::ConnectProgress::Replied => return None,
            llp::ConnectProgress::Failed(error) => Some(error),
            llp::ConnectProgress::Pending => {
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
        let endpoints = this.endpoints;
        let failed = |token: cm::Connecting<ConnId>, error: cm::ConnectError<'_>, reason| {
            shared.counters.add(Count::ConnectFailed);
            let Endpoints { local, peer } = endpoints;
            iwtrace::event!(iwarp_connect_err(queues.id(), local, peer, reason));
            token.reply(Err(error));
            None
        };
        if let Some(error) = this.error {
            this.active.abort();
            let (error, reason) = match error {
                ConnectError::Refused => (
                    cm::ConnectError::Refused(cm::PrivateData::default()),
                    c"refused",
                ),
                ConnectError::Reset => (cm::ConnectError::Reset, c"reset"),
                ConnectError::TimedOut => (cm::ConnectError::TimedOut, c"timed out"),
            };
            return failed(this.token, error, reason);
        }
        let (stream, reads, private_data) = match this.active.into_reply() {
            llp::ConnectReply::Accepted {
                conn,
                reads,
                private_data,
            } => (Stream::new(conn, queues, reads), reads, private_data),
            llp::ConnectReply::Rejected(private_data) => {
                let private_data =
                    cm::PrivateData::new(private_data.as_slice()).unwrap_or_default();
                let error = cm::ConnectError::Refused(private_data);
                return failed(this.token, error, c"rejected by the consumer of the peer");
            }
            llp::ConnectReply::Invalid => {
                return failed(this.token, cm::ConnectError::Reset, c"invalid reply");
            }
            llp::ConnectReply::NoMemory => {
                shared.counters.add(Count::NoMemory);
                return failed(this.token, cm::ConnectError::Reset, c"no memory");
            }
        };
        let boxed = stream.and_then(|stream| Ok(KBox::new(stream, GFP_KERNEL_ACCOUNT)?));
        let Ok(stream) = boxed else {
            shared.counters.add(Count::NoMemory);
            return failed(this.token, cm::ConnectError::Reset, c"no memory");
        };
        let token = this.token.reply(Ok(cm::Reply {
            ird: cm::clamp_reads(reads.ird),
            ord: cm::clamp_reads(reads.ord),
            private_data: cm::PrivateData::new(private_data.as_slice()).unwrap_or_default(),
        }))?;
        shared.counters.add(Count::Connected);
        note_established(queues.id(), endpoints, reads);
        Some((stream, token))
    }

    /// Ends the attempt when the consumer does not want it any more. A reset is reported.
    pub(crate) fn abort(self: KBox<Self>, queues: &Queues) {
        let this = KBox::into_inner(self);
        let (Endpoints { local, peer }, reason) = (this.endpoints, c"given up by the consumer");
        iwtrace::event!(iwarp_connect_err(queues.id(), local, peer, reason));
        this.active.abort();
        drop(this.token);
    }
}

/// Traces a connection that is established, on either side.
pub(crate) fn note_established(qp: QpId, ends: Endpoints, reads: ReadLimits) {
    let (Endpoints { local, peer }, ReadLimits { ird, ord }) = (ends, reads);
    iwtrace::event!(iwarp_established(qp, local, peer, ird, ord));
}

/// An id, with the parameters of its events.
pub(crate) struct ConnId {
    /// The id of iw_cm.
    pub(crate) id: CmId,
    /// The endpoints.
    pub(crate) endpoints: Endpoints,
    /// Read Requests that this end accepts, and may have outstanding.
    pub(crate) ird: u8,
    pub(crate) ord: u8,
}

impl rdmap::cm::Id for ConnId {
    fn event(&mut self, event: cm::Event<'_>) -> Result<(), cm::NoEntry> {
        let result = match event {
            cm::Event::ConnectReply(Ok(reply)) => self.id.connected(
                self.endpoints,
                EventParams {
                    ird: reply.ird,
                    ord: reply.ord,
                    private_data: reply.private_data.as_slice(),
                },
            ),
            cm::Event::ConnectReply(Err(error)) => {
                let (error, private_data) = match error {
                    cm::ConnectError::Refused(data) => (ConnectError::Refused, data.as_slice()),
                    cm::ConnectError::Reset => (ConnectError::Reset, &[][..]),
                    cm::ConnectError::TimedOut => (ConnectError::TimedOut, &[][..]),
                };
                self.id.refused(error, private_data)
            }
            cm::Event::Established => self.id.established(self.ird, self.ord),
            cm::Event::Close => self.id.closed(),
        };
        result.map_err(|_| cm::NoEntry)
    }
}
