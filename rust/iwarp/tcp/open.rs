// SPDX-License-Identifier: GPL-2.0

//! An established connection, on which FPDUs flow.

use crate::event_target::EventTarget;
use crate::llp;
use crate::llp::SendError;
use crate::llp::SendStatus;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use crate::tcp::half_closed::HalfClosed;
use crate::tcp::inbound;
use crate::tcp::outbox::Outbox;
use kernel::prelude::*;
use rdmap::mpa::frame;
use rdmap::mpa::startup::StreamParams;
use rdmap::order::InOrder;
use socket::TcpConn;

/// The interval of polling a stream that waits for the rest of an FPDU, or for space, in
/// milliseconds. Mostly an event reports space, but not if memory was short and nothing is under
/// way whose acknowledgement frees some.
const POLL_MS: u32 = 1_000;

/// The time that the rest of an FPDU may take, in milliseconds. TCP waits twice as long with each
/// retransmission, so after a network that was down for 8 seconds it may come after 13, and after
/// 13 seconds, after 26.
const RECEIVE_TIMEOUT_MS: i64 = 30_000;

/// An established connection, on which FPDUs flow.
pub(crate) struct TcpEstablished {
    connection: TcpConn<EventTarget>,
    outbox: Outbox,
    crc: bool,
    send_markers: bool,
    // The passive side sends nothing before it has received an FPDU (RFC 5044, section 7.1.2).
    gated: bool,
}

impl TcpEstablished {
    /// Creates a connection with the negotiated properties. `reply` is the frame that the passive
    /// side has to send first. Sleeps.
    pub(super) fn new(
        connection: TcpConn<EventTarget>,
        agreed: &StreamParams,
        reply: Option<&[u8]>,
    ) -> Result<Self> {
        let mut outbox = Outbox::new(agreed.send_markers, agreed.crc)?;
        if let Some(reply) = reply {
            outbox.raw(reply)?;
        }
        Ok(Self {
            connection,
            outbox,
            crc: agreed.crc,
            send_markers: agreed.send_markers,
            gated: reply.is_some(),
        })
    }
}

impl llp::EstablishedConn for TcpEstablished {
    type Order = InOrder;
    type HalfClosed = HalfClosed;
    // RFC 5044, section 7.2: either half of a connection ends by itself.
    const HALF_CLOSES: bool = true;

    fn order(&mut self) -> Result<InOrder> {
        Ok(InOrder::new())
    }

    fn mulpdu(&self) -> u32 {
        frame::mulpdu(self.connection.emss(), self.send_markers).min(self.outbox.max_ulpdu())
    }

    fn may_send(&self) -> bool {
        !self.gated
    }

    fn has_space(&self) -> bool {
        let mulpdu = frame::mulpdu(self.connection.emss(), self.send_markers);
        self.outbox.has_space(mulpdu)
    }

    fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<SendStatus, SendError> {
        match self.outbox.fpdu(header, length, payload) {
            Ok(()) => Ok(SendStatus::Queued),
            Err(_) => Err(SendError::Payload),
        }
    }

    fn flush(&mut self) -> Result {
        self.outbox.flush(&mut self.connection)
    }

    fn receive(&mut self, receiver: &mut Receiver<'_, '_, InOrder>) -> Result<Received> {
        inbound::receive(&mut self.connection, &mut self.gated, self.crc, receiver)
    }

    fn finish(&mut self) {
        self.connection.shutdown();
    }

    fn ended(&mut self) -> bool {
        false
    }

    fn poll_after_ms(&self) -> Option<u32> {
        let waits = self.connection.waiting_since().is_some() || !self.outbox.is_empty();
        waits.then_some(POLL_MS)
    }

    fn has_timed_out(&self) -> bool {
        let since = self.connection.waiting_since();
        since.is_some_and(|since| since.elapsed().as_millis() > RECEIVE_TIMEOUT_MS)
    }

    fn close(self, at_once: bool) -> Option<HalfClosed> {
        if at_once {
            self.abort();
            return None;
        }
        Some(self.half_close())
    }

    fn half_close(self) -> HalfClosed {
        HalfClosed::new(self.connection, self.outbox)
    }

    fn abort(self) {
        self.connection.abort();
    }
}
