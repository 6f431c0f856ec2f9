// SPDX-License-Identifier: GPL-2.0

//! An established connection, on which FPDUs flow.

use crate::lower;
use crate::lower::Added;
use crate::lower::Failed;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use crate::tcp::inbound;
use crate::tcp::lingering::Lingering;
use crate::tcp::outbox::Outbox;
use crate::waker::Waker;
use kernel::prelude::*;
use rdmap::mpa::frame;
use rdmap::mpa::startup::Stream;
use rdmap::order::Arrival;
use socket::Connection;

/// The interval of polling a stream that waits for the rest of an FPDU, or for space, in
/// milliseconds. Mostly an event reports space, but not if memory was short and nothing is under
/// way whose acknowledgement frees some.
const LOOK_MS: u32 = 1_000;

/// The time that the rest of an FPDU may take, in milliseconds. TCP waits twice as long with each
/// retransmission, so after a network that was down for 8 seconds it may come after 13, and after
/// 13 seconds, after 26.
const LATE_MS: i64 = 30_000;

/// An established connection, on which FPDUs flow.
pub(crate) struct Open {
    connection: Connection<Waker>,
    outbox: Outbox,
    crc: bool,
    send_markers: bool,
    // The passive side sends nothing before it has received an FPDU (RFC 5044, section 7.1.2).
    gated: bool,
}

impl Open {
    /// Creates a connection with the negotiated properties. `reply` is the frame that the passive
    /// side has to send first. Sleeps.
    pub(super) fn new(
        connection: Connection<Waker>,
        agreed: &Stream,
        reply: Option<&[u8]>,
    ) -> Result<Self> {
        let mut outbox = Outbox::new(agreed.send_markers, agreed.crc)?;
        if let Some(reply) = reply {
            outbox.plain(reply)?;
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

impl lower::Open for Open {
    type Order = Arrival;
    type Lingering = Lingering;
    // RFC 5044, section 7.2: either half of a connection ends by itself.
    const HALF_CLOSES: bool = true;

    fn order(&mut self) -> Result<Arrival> {
        Ok(Arrival::new())
    }

    fn mulpdu(&self) -> u32 {
        frame::mulpdu(self.connection.emss(), self.send_markers).min(self.outbox.longest())
    }

    fn may_send(&self) -> bool {
        !self.gated
    }

    fn has_room(&self) -> bool {
        let mulpdu = frame::mulpdu(self.connection.emss(), self.send_markers);
        self.outbox.has_room(mulpdu)
    }

    fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<Added, Failed> {
        match self.outbox.fpdu(header, length, payload) {
            Ok(()) => Ok(Added::Done),
            Err(_) => Err(Failed::Payload),
        }
    }

    fn flush(&mut self) -> Result {
        self.outbox.flush(&mut self.connection)
    }

    fn receive(&mut self, receiver: &mut Receiver<'_, '_, Arrival>) -> Result<Received> {
        inbound::take(&mut self.connection, &mut self.gated, self.crc, receiver)
    }

    fn finish(&mut self) {
        self.connection.shutdown();
    }

    fn ended(&mut self) -> bool {
        false
    }

    fn look_again(&self) -> Option<u32> {
        let waits = self.connection.waiting_since().is_some() || !self.outbox.is_empty();
        waits.then_some(LOOK_MS)
    }

    fn is_late(&self) -> bool {
        let since = self.connection.waiting_since();
        since.is_some_and(|since| since.elapsed().as_millis() > LATE_MS)
    }

    fn close(self, at_once: bool) -> Option<Lingering> {
        if at_once {
            self.abort();
            return None;
        }
        Some(self.linger())
    }

    fn linger(self) -> Lingering {
        Lingering::new(self.connection, self.outbox)
    }

    fn abort(self) {
        self.connection.abort();
    }
}
