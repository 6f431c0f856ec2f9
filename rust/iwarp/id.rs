// SPDX-License-Identifier: GPL-2.0

//! Ids of iw_cm, which keep the order of events that [`rdmap::cm`] defines.

use kernel::prelude::*;
use provider::cm;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Told;
use rdmap::cm::Event;
use rdmap::cm::NoEntry;
use rdmap::cm::Refusal;

/// An id, with the parameters of its events.
pub(crate) struct Id {
    /// The id of iw_cm.
    pub(crate) id: CmId,
    /// The endpoints.
    pub(crate) ends: Addresses,
    /// Read Requests that this end accepts, and may have outstanding.
    pub(crate) ird: u8,
    pub(crate) ord: u8,
}

impl rdmap::cm::Id for Id {
    fn event(&mut self, event: Event<'_>) -> Result<(), NoEntry> {
        let told = match event {
            Event::ConnectReply(Ok(reply)) => self.id.connected(
                self.ends,
                Told {
                    ird: reply.ird,
                    ord: reply.ord,
                    private_data: reply.private_data.as_slice(),
                },
            ),
            Event::ConnectReply(Err(refusal)) => {
                let (why, private_data) = match refusal {
                    Refusal::Refused(data) => (cm::Refusal::Refused, data.as_slice()),
                    Refusal::Reset => (cm::Refusal::Reset, &[][..]),
                    Refusal::Timeout => (cm::Refusal::Timeout, &[][..]),
                };
                self.id.refused(why, private_data)
            }
            Event::Established => self.id.established(self.ird, self.ord),
            Event::Close => self.id.closed(),
        };
        told.map_err(|_| NoEntry)
    }
}
