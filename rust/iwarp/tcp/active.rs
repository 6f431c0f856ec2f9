// SPDX-License-Identifier: GPL-2.0

//! The active side of a connection (RFC 5044, section 7.1).

use crate::event_target::EventTarget;
use crate::llp;
use crate::llp::cm_private_data;
use crate::llp::ConnectProgress;
use crate::llp::ConnectReply;
use crate::tcp::open::TcpEstablished;
use crate::tcp::startup;
use crate::tcp::startup::StartupRecv;
use kernel::error::code::ETIMEDOUT;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::ConnParams;
use provider::cm::ConnectError;
use provider::cm::Endpoints;
use provider::errno::econnrefused;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Initiator;
use rdmap::mpa::startup::Kind;
use rdmap::mpa::startup::Outcome;
use socket::ConnState;
use socket::SendBuf;
use socket::TcpConn;
use socket::Then;

/// A connection that this side begins.
pub(crate) struct Active {
    connection: TcpConn<EventTarget>,
    initiator: Initiator,
    // The Request, which may be sent in part; then the Reply.
    buffer: KBox<[u8; Frame::MAX_LEN]>,
    request_len: usize,
    sent: usize,
    // The length of the Reply in octets, once it is there.
    reply: Option<usize>,
}

impl llp::Active for Active {
    type Established = TcpEstablished;

    fn connect(
        net: &Net,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        let initiator = Initiator::new(startup::offer(parameters.ird, parameters.ord));
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let request = initiator.request(parameters.private_data);
        let request_len = request.emit(&mut *buffer).map_err(|_| EINVAL)?;
        let settings = &startup::SETTINGS;
        Ok(Self {
            connection: TcpConn::connect(net, endpoints.local, endpoints.peer, settings, events)?,
            initiator,
            buffer,
            request_len,
            sent: 0,
            reply: None,
        })
    }

    fn step(&mut self) -> ConnectProgress {
        match self.connection.state() {
            ConnState::Connecting => return ConnectProgress::Pending,
            ConnState::Open | ConnState::PeerClosed => {}
            ConnState::Failed(error) if error == econnrefused() => {
                return ConnectProgress::Failed(ConnectError::Refused)
            }
            ConnState::Failed(error) if error == ETIMEDOUT => {
                return ConnectProgress::Failed(ConnectError::TimedOut)
            }
            ConnState::Failed(_) | ConnState::Closed => {
                return ConnectProgress::Failed(ConnectError::Reset)
            }
        }
        while self.sent < self.request_len {
            let octets = self.buffer.get(self.sent..self.request_len);
            let octets = SendBuf::from(octets.unwrap_or_default());
            match self.connection.send([octets], Then::Push) {
                Ok(sent) => self.sent = self.sent.saturating_add(sent),
                Err(error) if error == EAGAIN => return ConnectProgress::Pending,
                Err(_) => return ConnectProgress::Failed(ConnectError::Reset),
            }
        }
        match startup::receive(&mut self.connection, Kind::Reply, &mut self.buffer) {
            StartupRecv::Frame(length) => {
                self.reply = Some(length);
                ConnectProgress::Replied
            }
            StartupRecv::Pending => ConnectProgress::Pending,
            StartupRecv::End | StartupRecv::Invalid => ConnectProgress::Failed(ConnectError::Reset),
        }
    }

    fn into_reply(self) -> ConnectReply<TcpEstablished> {
        let octets = self.buffer.get(..self.reply.unwrap_or(0));
        let Ok(Some((reply, _))) = Frame::parse(Kind::Reply, octets.unwrap_or_default()) else {
            return ConnectReply::Invalid;
        };
        match self.initiator.reply(&reply) {
            Ok(Outcome::Accepted(agreed, private_data)) => {
                let Some(private_data) = cm_private_data(private_data) else {
                    return ConnectReply::Invalid;
                };
                match TcpEstablished::new(self.connection, &agreed, None) {
                    Ok(conn) => ConnectReply::Accepted {
                        conn,
                        reads: agreed.reads,
                        private_data,
                    },
                    Err(_) => ConnectReply::NoMemory,
                }
            }
            Ok(Outcome::Rejected(private_data)) => {
                ConnectReply::Rejected(cm_private_data(private_data).unwrap_or_default())
            }
            Err(_) => ConnectReply::Invalid,
        }
    }

    fn abort(self) {
        self.connection.abort();
    }
}
