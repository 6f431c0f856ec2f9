// SPDX-License-Identifier: GPL-2.0

//! The start-up of a connection that this side begins (RFC 5044, section 7.1).

use crate::counters::Count;
use crate::id::Id;
use crate::shared::Shared;
use crate::startup;
use crate::startup::Arrived;
use crate::stream::Stream;
use crate::waker::Waker;
use kernel::error::code::ECONNREFUSED;
use kernel::error::code::ETIMEDOUT;
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
use rdmap::mpa::startup::Answer;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Initiator;
use rdmap::mpa::startup::Kind;
use socket::Connection;
use socket::Octets;
use socket::State;
use socket::Then;

/// Milliseconds from the beginning to the peer's Reply.
const PATIENCE_MS: u32 = 10_000;

/// How far a connection has come.
pub(crate) enum Progress {
    /// Something has to happen, or time to pass: that many milliseconds.
    Waits(u32),
    /// It can be [finished](Connecting::finish).
    Done,
}

/// How it ended.
enum Outcome {
    /// The Reply is in the buffer, and has that many octets.
    Reply(usize),
    /// There is none.
    Refused,
    Reset,
    Timeout,
}

/// A connection that this side begins.
pub(crate) struct Connecting {
    connection: Connection<Waker>,
    initiator: Initiator,
    // The Request, of which some may be sent; then the Reply.
    buffer: [u8; Frame::MAX_LEN],
    request_len: usize,
    sent: usize,
    since: Instant<Monotonic>,
    outcome: Option<Outcome>,
    token: cm::Connecting<Id>,
}

impl Connecting {
    /// Begins. If it fails, no event follows. Sleeps, but not for the peer.
    pub(crate) fn new(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        id: CmId,
        waker: Arc<Waker>,
    ) -> Result<KBox<Self>> {
        let initiator = Initiator::new(startup::offer(parameters.ird, parameters.ord));
        let mut buffer = [0; Frame::MAX_LEN];
        let request = initiator.request(parameters.private_data);
        let request_len = request.emit(&mut buffer).map_err(|_| EINVAL)?;
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let connection =
            Connection::connect(net, ends.local, ends.peer, &startup::SETTINGS, waker)?;
        Ok(room.write(Self {
            connection,
            initiator,
            buffer,
            request_len,
            sent: 0,
            since: Instant::now(),
            outcome: None,
            token: cm::Connecting::new(Id {
                id,
                ends,
                ird: 0,
                ord: 0,
            }),
        }))
    }

    /// Goes on.
    pub(crate) fn step(&mut self) -> Progress {
        self.outcome = self.look();
        if self.outcome.is_some() {
            return Progress::Done;
        }
        let waited = self.since.elapsed().as_millis();
        let left = i64::from(PATIENCE_MS).saturating_sub(waited);
        match u32::try_from(left) {
            Ok(left) if left > 0 => Progress::Waits(left),
            _ => {
                self.outcome = Some(Outcome::Timeout);
                Progress::Done
            }
        }
    }

    fn look(&mut self) -> Option<Outcome> {
        match self.connection.state() {
            State::Connecting => return None,
            State::Open | State::PeerClosed => {}
            State::Failed(error) if error == ECONNREFUSED => return Some(Outcome::Refused),
            State::Failed(error) if error == ETIMEDOUT => return Some(Outcome::Timeout),
            State::Failed(_) | State::Closed => return Some(Outcome::Reset),
        }
        while self.sent < self.request_len {
            let octets = self.buffer.get(self.sent..self.request_len)?;
            let sent = self.connection.send([Octets::from(octets)], Then::Push);
            match sent {
                Ok(sent) => self.sent = self.sent.saturating_add(sent),
                Err(error) if error == EAGAIN => return None,
                Err(_) => return Some(Outcome::Reset),
            }
        }
        match startup::receive(&mut self.connection, Kind::Reply, &mut self.buffer) {
            Arrived::Frame(length) => Some(Outcome::Reply(length)),
            Arrived::Nothing => None,
            Arrived::End | Arrived::Wrong => Some(Outcome::Reset),
        }
    }

    /// Tells the consumer how it ended. Returns the stream, if there is one.
    pub(crate) fn finish(
        self: KBox<Self>,
        shared: &Shared,
        queues: &Queues,
    ) -> Option<(KBox<Stream>, Established<Id>)> {
        let this = KBox::into_inner(self);
        let failed = |token: cm::Connecting<Id>, refusal| {
            shared.counters.add(Count::ConnectFailed);
            token.reply(Err(refusal));
            None
        };
        let length = match this.outcome {
            Some(Outcome::Reply(length)) => length,
            Some(Outcome::Refused) => {
                let nothing = PrivateData::default();
                return failed(this.token, Refusal::Refused(nothing));
            }
            Some(Outcome::Timeout) => return failed(this.token, Refusal::Timeout),
            Some(Outcome::Reset) | None => return failed(this.token, Refusal::Reset),
        };
        let octets = this.buffer.get(..length).unwrap_or_default();
        let Ok(Some((reply, _))) = Frame::parse(Kind::Reply, octets) else {
            return failed(this.token, Refusal::Reset);
        };
        let (agreed, told) = match this.initiator.reply(&reply) {
            Ok(Answer::Accepted(agreed, told)) => (agreed, told),
            Ok(Answer::Rejected(told)) => {
                let told = PrivateData::new(told).unwrap_or_default();
                return failed(this.token, Refusal::Refused(told));
            }
            Err(_) => return failed(this.token, Refusal::Reset),
        };
        let (Some(told), Ok(stream)) = (
            PrivateData::new(told),
            Stream::new(this.connection, queues, &agreed, None),
        ) else {
            shared.counters.add(Count::NoMemory);
            return failed(this.token, Refusal::Reset);
        };
        let Ok(stream) = KBox::new(stream, GFP_KERNEL) else {
            shared.counters.add(Count::NoMemory);
            return failed(this.token, Refusal::Reset);
        };
        let token = this.token.reply(Ok(Reply {
            ird: clamp_reads(agreed.reads.ird),
            ord: clamp_reads(agreed.reads.ord),
            private_data: told,
        }))?;
        shared.counters.add(Count::Connected);
        Some((stream, token))
    }

    /// The consumer does not want it any more. It hears of a reset.
    pub(crate) fn give_up(self: KBox<Self>) {
        let this = KBox::into_inner(self);
        this.connection.abort();
        drop(this.token);
    }
}
