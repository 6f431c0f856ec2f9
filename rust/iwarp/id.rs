// SPDX-License-Identifier: GPL-2.0

//! Ids of iw_cm, which keep the order of events that [`rdmap::cm`] defines.

use kernel::prelude::*;
use provider::cm;
use provider::cm::CmId;
use provider::cm::Endpoints;
use provider::cm::EventParams;
use rdmap::cm::ConnectError;
use rdmap::cm::Event;
use rdmap::cm::NoEntry;

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
    fn event(&mut self, event: Event<'_>) -> Result<(), NoEntry> {
        let result = match event {
            Event::ConnectReply(Ok(reply)) => self.id.connected(
                self.endpoints,
                EventParams {
                    ird: reply.ird,
                    ord: reply.ord,
                    private_data: reply.private_data.as_slice(),
                },
            ),
            Event::ConnectReply(Err(refusal)) => {
                let (error, private_data) = match refusal {
                    ConnectError::Refused(data) => (cm::ConnectError::Refused, data.as_slice()),
                    ConnectError::Reset => (cm::ConnectError::Reset, &[][..]),
                    ConnectError::TimedOut => (cm::ConnectError::TimedOut, &[][..]),
                };
                self.id.refused(error, private_data)
            }
            Event::Established => self.id.established(self.ird, self.ord),
            Event::Close => self.id.closed(),
        };
        result.map_err(|_| NoEntry)
    }
}
