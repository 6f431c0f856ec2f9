// SPDX-License-Identifier: GPL-2.0

//! The active side of a connection (RFC 5044, section 7.1).

use crate::lower;
use crate::lower::data;
use crate::lower::Answer;
use crate::lower::Failure;
use crate::lower::Progress;
use crate::tcp::open::Open;
use crate::tcp::startup;
use crate::tcp::startup::Arrived;
use crate::waker::Waker;
use kernel::error::code::ETIMEDOUT;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::Addresses;
use provider::cm::Parameters;
use provider::errno::econnrefused;
use rdmap::mpa::startup::Answer as Said;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Initiator;
use rdmap::mpa::startup::Kind;
use socket::Connection;
use socket::Octets;
use socket::State;
use socket::Then;

/// A connection that this side begins.
pub(crate) struct Active {
    connection: Connection<Waker>,
    initiator: Initiator,
    // The Request, which may be sent in part; then the Reply.
    buffer: KBox<[u8; Frame::MAX_LEN]>,
    request_len: usize,
    sent: usize,
    // The length of the Reply in octets, once it is there.
    reply: Option<usize>,
}

impl lower::Active for Active {
    type Open = Open;

    fn connect(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        let initiator = Initiator::new(startup::offer(parameters.ird, parameters.ord));
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let request = initiator.request(parameters.private_data);
        let request_len = request.emit(&mut *buffer).map_err(|_| EINVAL)?;
        let settings = &startup::SETTINGS;
        Ok(Self {
            connection: Connection::connect(net, ends.local, ends.peer, settings, waker)?,
            initiator,
            buffer,
            request_len,
            sent: 0,
            reply: None,
        })
    }

    fn step(&mut self) -> Progress {
        match self.connection.state() {
            State::Connecting => return Progress::Waits,
            State::Open | State::PeerClosed => {}
            State::Failed(error) if error == econnrefused() => {
                return Progress::Failed(Failure::Refused)
            }
            State::Failed(error) if error == ETIMEDOUT => {
                return Progress::Failed(Failure::Timeout)
            }
            State::Failed(_) | State::Closed => return Progress::Failed(Failure::Reset),
        }
        while self.sent < self.request_len {
            let octets = self.buffer.get(self.sent..self.request_len);
            let octets = Octets::from(octets.unwrap_or_default());
            match self.connection.send([octets], Then::Push) {
                Ok(sent) => self.sent = self.sent.saturating_add(sent),
                Err(error) if error == EAGAIN => return Progress::Waits,
                Err(_) => return Progress::Failed(Failure::Reset),
            }
        }
        match startup::receive(&mut self.connection, Kind::Reply, &mut self.buffer) {
            Arrived::Frame(length) => {
                self.reply = Some(length);
                Progress::Answered
            }
            Arrived::Nothing => Progress::Waits,
            Arrived::End | Arrived::Wrong => Progress::Failed(Failure::Reset),
        }
    }

    fn answer(self) -> Answer<Open> {
        let octets = self.buffer.get(..self.reply.unwrap_or(0));
        let Ok(Some((reply, _))) = Frame::parse(Kind::Reply, octets.unwrap_or_default()) else {
            return Answer::Wrong;
        };
        match self.initiator.reply(&reply) {
            Ok(Said::Accepted(agreed, said)) => {
                let Some(said) = data(said) else {
                    return Answer::Wrong;
                };
                match Open::new(self.connection, &agreed, None) {
                    Ok(open) => Answer::Accepted {
                        open,
                        reads: agreed.reads,
                        said,
                    },
                    Err(_) => Answer::NoMemory,
                }
            }
            Ok(Said::Rejected(said)) => Answer::Rejected(data(said).unwrap_or_default()),
            Err(_) => Answer::Wrong,
        }
    }

    fn give_up(self) {
        self.connection.abort();
    }
}
