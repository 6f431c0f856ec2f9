// SPDX-License-Identifier: GPL-2.0

//! The passive side of a session (RFC 5043, section 6.3).

use crate::lower;
use crate::lower::reads;
use crate::lower::Asked;
use crate::lower::Data;
use crate::lower::MAX_READS;
use crate::sctp::heard;
use crate::sctp::heard::Heard;
use crate::sctp::held::Held;
use crate::sctp::open::Open;
use crate::sctp::peer::order;
use crate::sctp::peer::Order;
use crate::sctp::peer::Peer;
use crate::waker::Waker;
use kernel::prelude::*;
use provider::cm::Parameters;
use provider::cm::Told;
use rdmap::cm::clamp_reads;
use rdmap::enhanced::Agreed;
use rdmap::enhanced::Enhanced;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Control;
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::Tell;
use socket::sctp::Association;

/// The number of chunks of a refused peer that are discarded.
const MOST_REFUSED: usize = 64;

/// The fields of the Initiate.
struct Request {
    enhanced: Option<Enhanced>,
    private_data: Data,
}

/// A session that a peer began.
pub(crate) struct Passive {
    peer: Peer,
    order: Order,
    request: Option<Request>,
    // The peer does not speak DDP, or has restarted: the association is aborted (RFC 5043, sections
    // 8 and 11.1).
    aborts: bool,
}

impl Passive {
    /// Waits for the Initiate. Sleeps.
    pub(super) fn new(association: Association<Waker>) -> Result<Self> {
        Ok(Self {
            order: order()?,
            peer: Peer::new(association)?,
            request: None,
            aborts: false,
        })
    }

    /// Handles the first chunk.
    fn chunk(&mut self, data: &heard::Data, admit: impl FnOnce() -> bool) -> Asked {
        let Some(chunk) = data.chunk() else {
            self.peer.on(Event::Illegal);
            return Asked::End;
        };
        let Ok(turn) = self.order.pass(chunk.ssn) else {
            self.peer.on(Event::Illegal);
            return Asked::End;
        };
        let control = match chunk.body {
            Body::Segment(_) => {
                self.peer.on(Event::Segment { turn });
                return Asked::End;
            }
            Body::Control(control) => control,
        };
        let action = self.peer.on(Event::Control {
            function: control.function,
            enhanced: control.is_enhanced,
            turn,
            // Section 6.4: a peer beyond the limit receives a Terminate.
            full: control.function == Function::Initiate && !admit(),
        });
        if action.tell != Some(Tell::Request) {
            return Asked::End;
        }
        let Some(private_data) = lower::data(control.private_data) else {
            // iw_cm cannot take so much private data, so its consumer cannot decide.
            self.peer.on(Event::Timeout);
            return Asked::End;
        };
        self.request = Some(Request {
            enhanced: control.enhanced,
            private_data,
        });
        Asked::Request
    }

    fn hear(&mut self, admit: impl FnOnce() -> bool) -> Asked {
        match self.peer.hear() {
            Heard::Nothing => Asked::Nothing,
            Heard::End => Asked::End,
            Heard::Lost | Heard::Wrong => {
                self.aborts = true;
                Asked::End
            }
            Heard::Data(data) => {
                let asked = self.chunk(&data, admit);
                self.peer.give_back(data);
                asked
            }
        }
    }

    /// Discards everything else that has arrived. Unread chunks would make SCTP abort the
    /// association, and the last control message would be lost.
    fn drain(&mut self) {
        for _ in 0..MOST_REFUSED {
            let Heard::Data(data) = self.peer.hear() else {
                return;
            };
            self.peer.give_back(data);
        }
    }

    /// Sends a message that there will be no session.
    fn say(mut self, function: Function, private_data: &[u8]) -> Result {
        self.peer.begin(&Control {
            function,
            enhanced: None,
            is_enhanced: self.peer.session.is_enhanced(),
            private_data,
        })?;
        self.peer.flush().map(drop)
    }
}

impl lower::Passive for Passive {
    type Open = Open;

    fn step(&mut self, admit: impl FnOnce() -> bool) -> Asked {
        let asked = self.hear(admit);
        if asked == Asked::End {
            // This is the last message. If it cannot be sent, the end of the association tells the
            // peer.
            let _ = self.peer.flush();
        }
        asked
    }

    fn waits(&mut self) -> bool {
        // Notifications stay in the socket until they are received, and nothing limits how often a
        // peer restarts an association.
        self.step(|| false) == Asked::Nothing
    }

    fn told(&self) -> Option<Told<'_>> {
        let request = self.request.as_ref()?;
        // The numbers of the peer; without negotiation the limits of this side.
        let number = |reads: Option<u16>| clamp_reads(reads.unwrap_or(MAX_READS));
        let enhanced = request.enhanced;
        Some(Told {
            ird: number(enhanced.and_then(|enhanced| enhanced.ird.number())),
            ord: number(enhanced.and_then(|enhanced| enhanced.ord.number())),
            private_data: request.private_data.as_slice(),
        })
    }

    fn accept(mut self, parameters: Parameters<'_>) -> Result<(Open, Agreed)> {
        let request = self.request.as_ref().ok_or(EINVAL)?;
        let wanted = Agreed {
            ird: reads(parameters.ird),
            ord: reads(parameters.ord),
        };
        let limits = Agreed {
            ird: MAX_READS,
            ..wanted
        };
        let (enhanced, agreed) = match request.enhanced.map(|request| request.answer(limits)) {
            None => (None, wanted),
            Some(Ok((answer, agreed))) => (Some(answer), agreed),
            // RFC 6581, section 7: a request that plain negotiation would have accepted is rejected
            // so.
            Some(Err(_)) => {
                self.peer.on(Event::Reject);
                self.say(Function::Reject, &[])?;
                return Err(EINVAL);
            }
        };
        self.peer.on(Event::Accept);
        self.peer.begin(&Control {
            function: Function::Accept,
            enhanced,
            is_enhanced: enhanced.is_some(),
            private_data: parameters.private_data,
        })?;
        let open = Open::new(self.peer, self.order, Held::new())?;
        Ok((open, agreed))
    }

    fn reject(mut self, private_data: &[u8]) -> Result {
        self.peer.on(Event::Reject);
        self.say(Function::Reject, private_data)
    }

    fn refuse(mut self) {
        if self.aborts {
            return self.peer.abort();
        }
        self.peer.on(Event::Timeout);
        // If it cannot be sent, the end of the association tells the peer.
        let _ = self.peer.flush();
        self.drain();
    }
}
