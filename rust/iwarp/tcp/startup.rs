// SPDX-License-Identifier: GPL-2.0

//! The start-up of MPA on a socket (RFC 5044, section 7.1): the active side, and the passive side.

use crate::prelude::*;
use crate::{
    llp::{
        self,
        ConnectProgress,
        RequestStatus, //
    },
    tcp::established::{
        Mulpdu,
        TcpEstablished, //
    },
};
use provider::errno::econnrefused;
use rdmap::mpa::startup::{
    Failed,
    Frame,
    Initiator,
    Kind,
    Offer,
    Outcome,
    Responder, //
};
use socket::{
    parameters,
    ConnState,
    Events,
    Next,
    SendBuf,
    Settings,
    TcpConn,
    Then, //
};

/// The time that a peer may leave octets unacknowledged, in milliseconds.
const USER_TIMEOUT_MS: u32 = 60_000;

/// Socket options of every connection.
pub(super) const SETTINGS: Settings = Settings {
    user_timeout_ms: USER_TIMEOUT_MS,
    receive_buffer: None,
};

/// Returns the offer of this side, for the numbers of Reads that its consumer wants. It wants the
/// CRC unless an administrator has said otherwise (RFC 5044, section 4.4).
fn offer(ird: u32, ord: u32) -> Offer {
    Offer {
        crc: parameters::crc(),
        markers: false,
        reads: ReadLimits {
            ird: llp::limit_reads(ird),
            ord: llp::limit_reads(ord),
        },
        max_ird: llp::MAX_READS,
        enhanced: true,
        peer_to_peer: false,
    }
}

/// The outcome of receiving a start-up frame.
enum StartupRecv {
    /// The frame is complete, and has that many octets.
    Frame(usize),
    /// The frame is not complete.
    Pending,
    /// The peer closed the connection, or lost it.
    End,
    /// The octets are no such frame.
    Invalid,
}

/// Receives a start-up frame into `buffer`.
fn receive<E: Events>(
    connection: &mut TcpConn<E>,
    kind: Kind,
    buffer: &mut [u8; Frame::MAX_LEN],
) -> StartupRecv {
    connection.receive(|frames| {
        let length = |head: &[u8]| -> Result<usize> {
            // An error in the header is found when all of it is there.
            Frame::parse(kind, head).map_err(|_| EINVAL)?;
            let length = head.last_chunk().ok_or(EINVAL)?;
            Ok(head
                .len()
                .saturating_add(u16::from_be_bytes(*length).into()))
        };
        match frames.next(Frame::HEADER_LEN, length) {
            Ok(Next::Whole(frame)) => {
                let length = frame.len();
                let copied = buffer
                    .get_mut(..length)
                    .ok_or(EINVAL)
                    .and_then(|to| frame.copy_to_slice(0, to));
                match copied.and_then(|()| frame.take()) {
                    Ok(()) => StartupRecv::Frame(length),
                    Err(_) => StartupRecv::Invalid,
                }
            }
            Ok(Next::Part | Next::Nothing | Next::Budget) => StartupRecv::Pending,
            Ok(Next::End { .. }) => StartupRecv::End,
            Err(error) if error == ENOMEM => StartupRecv::Pending,
            Err(_) => StartupRecv::Invalid,
        }
    })
}

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
        peer_to_peer: bool,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        let initiator = Initiator::new(Offer {
            peer_to_peer,
            ..offer(parameters.ird, parameters.ord)
        });
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let request = initiator.request(parameters.private_data);
        let request_len = request.emit(&mut *buffer).map_err(|_| EINVAL)?;
        let settings = &SETTINGS;
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
        match receive(&mut self.connection, Kind::Reply, &mut self.buffer) {
            StartupRecv::Frame(length) => {
                self.reply = Some(length);
                ConnectProgress::Replied
            }
            StartupRecv::Pending => ConnectProgress::Pending,
            StartupRecv::End | StartupRecv::Invalid => ConnectProgress::Failed(ConnectError::Reset),
        }
    }

    fn into_reply(self) -> llp::ConnectReply<TcpEstablished> {
        let octets = self.buffer.get(..self.reply.unwrap_or(0));
        let Ok(Some((reply, _))) = Frame::parse(Kind::Reply, octets.unwrap_or_default()) else {
            return llp::ConnectReply::Invalid;
        };
        match self.initiator.reply(&reply) {
            Ok(Outcome::Accepted(agreed, private_data)) => {
                let Some(private_data) = llp::cm_private_data(private_data) else {
                    return llp::ConnectReply::Invalid;
                };
                match TcpEstablished::new(self.connection, &agreed, None, Mulpdu::chosen()) {
                    Ok(conn) => llp::ConnectReply::Accepted {
                        conn,
                        reads: agreed.reads,
                        private_data,
                    },
                    Err(_) => llp::ConnectReply::NoMemory,
                }
            }
            Ok(Outcome::Rejected(private_data)) => {
                llp::ConnectReply::Rejected(llp::cm_private_data(private_data).unwrap_or_default())
            }
            Err(_) => llp::ConnectReply::Invalid,
        }
    }

    fn abort(self) {
        self.connection.abort();
    }
}

/// A connection that a peer began.
pub(crate) struct Passive {
    connection: TcpConn<EventTarget>,
    buffer: KBox<[u8; Frame::MAX_LEN]>,
    // The length of the Request in octets, once it is there.
    request: usize,
}

impl Passive {
    /// Waits for the Request. Sleeps.
    pub(super) fn new(connection: TcpConn<EventTarget>) -> Result<Self> {
        Ok(Self {
            connection,
            buffer: KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?,
            request: 0,
        })
    }

    fn parse(&self) -> Option<Frame<'_>> {
        let octets = self.buffer.get(..self.request)?;
        let (frame, _) = Frame::parse(Kind::Request, octets).ok()??;
        Some(frame)
    }

    /// Returns the responder to the Request.
    fn responder(&self, ird: u32, ord: u32) -> Result<Responder> {
        let request = self.parse().ok_or(EINVAL)?;
        let mut responder = Responder::new(offer(ird, ord));
        responder.request(&request).map_err(|_| EINVAL)?;
        Ok(responder)
    }

    /// Sends a Reply that is the last message. A peer that does not take so little learns of the
    /// end all the same.
    fn send_reply(mut self, reply: &Frame<'_>) -> Result {
        let length = reply.emit(&mut *self.buffer).map_err(|_| EINVAL)?;
        let octets = self.buffer.get(..length).unwrap_or_default();
        let _ = self.connection.send([SendBuf::from(octets)], Then::Push);
        self.connection.shutdown();
        Ok(())
    }
}

impl llp::Passive for Passive {
    type Established = TcpEstablished;

    fn step(&mut self, _: impl FnOnce() -> bool) -> RequestStatus {
        match receive(&mut self.connection, Kind::Request, &mut self.buffer) {
            StartupRecv::Frame(length) => {
                self.request = length;
                match self.parse() {
                    Some(_) => RequestStatus::Ready,
                    None => RequestStatus::Ended,
                }
            }
            StartupRecv::Pending => RequestStatus::Pending,
            StartupRecv::End | StartupRecv::Invalid => RequestStatus::Ended,
        }
    }

    fn is_intact(&mut self) -> bool {
        // Octets of the peer stay in the socket, whose buffer is limited.
        true
    }

    fn request_params(&self) -> Option<EventParams<'_>> {
        let request = self.parse()?;
        Some(llp::request_params(request.enhanced, request.private_data))
    }

    fn accept(self, parameters: ConnParams<'_>) -> Result<(TcpEstablished, ReadLimits)> {
        let mut responder = self.responder(parameters.ird, parameters.ord)?;
        let (reply, agreed) = match responder.accept(parameters.private_data) {
            Ok(accepted) => accepted,
            Err(Failed::Llp(_)) => {
                self.send_reply(&responder.reject(&[]).map_err(|_| EINVAL)?)?;
                return Err(EINVAL);
            }
            Err(Failed::Misuse(_)) => return Err(EINVAL),
        };
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let length = reply.emit(&mut *buffer).map_err(|_| EINVAL)?;
        let reply = buffer.get(..length).unwrap_or_default();
        let open = TcpEstablished::new(self.connection, &agreed, Some(reply), Mulpdu::chosen())?;
        Ok((open, agreed.reads))
    }

    fn reject(self, private_data: &[u8]) -> Result {
        let mut responder = self.responder(llp::MAX_READS.into(), llp::MAX_READS.into())?;
        self.send_reply(&responder.reject(private_data).map_err(|_| EINVAL)?)
    }

    fn refuse(self) {}
}
