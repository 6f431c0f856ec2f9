// SPDX-License-Identifier: GPL-2.0

//! The passive side of a connection (RFC 5044, section 7.1).

use crate::event_target::EventTarget;
use crate::llp;
use crate::llp::RequestStatus;
use crate::llp::MAX_READS;
use crate::tcp::open::TcpEstablished;
use crate::tcp::startup;
use crate::tcp::startup::StartupRecv;
use kernel::prelude::*;
use provider::cm::ConnParams;
use provider::cm::EventParams;
use rdmap::cm::clamp_reads;
use rdmap::enhanced::ReadLimits;
use rdmap::mpa::startup::Failed;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Kind;
use rdmap::mpa::startup::Responder;
use socket::SendBuf;
use socket::TcpConn;
use socket::Then;

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
        let mut responder = Responder::new(startup::offer(ird, ord));
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
        match startup::receive(&mut self.connection, Kind::Request, &mut self.buffer) {
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
        // The numbers of the peer; without negotiation the limits of this side.
        let number = |reads: Option<u16>| clamp_reads(reads.unwrap_or(MAX_READS));
        let enhanced = request.enhanced;
        Some(EventParams {
            ird: number(enhanced.and_then(|enhanced| enhanced.ird.number())),
            ord: number(enhanced.and_then(|enhanced| enhanced.ord.number())),
            private_data: request.private_data,
        })
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
        let open = TcpEstablished::new(self.connection, &agreed, Some(reply))?;
        Ok((open, agreed.reads))
    }

    fn reject(self, private_data: &[u8]) -> Result {
        let mut responder = self.responder(MAX_READS.into(), MAX_READS.into())?;
        self.send_reply(&responder.reject(private_data).map_err(|_| EINVAL)?)
    }

    fn refuse(self) {}
}
