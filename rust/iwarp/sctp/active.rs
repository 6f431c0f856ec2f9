// SPDX-License-Identifier: GPL-2.0

//! The active side of a session (RFC 5043, section 6.2).

use crate::lower;
use crate::lower::reads;
use crate::lower::Answer;
use crate::lower::Data;
use crate::lower::Failure;
use crate::lower::Progress;
use crate::lower::MAX_READS;
use crate::sctp::heard;
use crate::sctp::heard::Heard;
use crate::sctp::held::Held;
use crate::sctp::open::Open;
use crate::sctp::peer::order;
use crate::sctp::peer::Order;
use crate::sctp::peer::Peer;
use crate::sctp::peer::SETTINGS;
use crate::waker::Waker;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::Addresses;
use provider::cm::Parameters;
use rdmap::enhanced::Agreed;
use rdmap::enhanced::Enhanced;
use rdmap::enhanced::Reads;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Control;
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::State;
use rdmap::sctp::session::Tell;
use socket::sctp::Association;

/// The answer of the peer's consumer.
enum Said {
    Accept(Enhanced, Data),
    Reject(Data),
}

/// A session that this side begins.
pub(crate) struct Active {
    peer: Peer,
    order: Order,
    offer: Enhanced,
    private_data: Data,
    // Segments that have overtaken the Accept.
    held: Held,
    said: Option<Said>,
}

impl Active {
    /// Handles a chunk.
    fn chunk(&mut self, data: &heard::Data) -> Progress {
        let Some(chunk) = data.chunk() else {
            return self.illegal();
        };
        let turn = match chunk.body {
            Body::Segment(_) => self.order.turn(chunk.ssn),
            Body::Control(_) => self.order.pass(chunk.ssn),
        };
        let Ok(turn) = turn else {
            return self.illegal();
        };
        let control = match chunk.body {
            Body::Segment(_) => {
                let action = self.peer.on(Event::Segment { turn });
                return match action.tell {
                    None if !action.place => Progress::Waits,
                    None => match self.held.push(data.ppid, data.octets()) {
                        Ok(()) => Progress::Waits,
                        Err(_) => self.illegal(),
                    },
                    Some(_) => Progress::Failed(Failure::Reset),
                };
            }
            Body::Control(control) => control,
        };
        let action = self.peer.on(Event::Control {
            function: control.function,
            enhanced: control.is_enhanced,
            turn,
            // No Initiate waits for a consumer here, and one from the peer is no answer.
            full: false,
        });
        match (action.tell, lower::data(control.private_data)) {
            (None, _) => Progress::Waits,
            (Some(Tell::Established), Some(data)) => {
                let enhanced = control.enhanced.unwrap_or_default();
                self.said = Some(Said::Accept(enhanced, data));
                Progress::Answered
            }
            (Some(Tell::Rejected), data) => {
                self.said = Some(Said::Reject(data.unwrap_or_default()));
                Progress::Answered
            }
            (Some(Tell::Refused), _) if control.function == Function::Terminate => {
                Progress::Failed(Failure::Refused)
            }
            _ => self.illegal(),
        }
    }

    fn illegal(&mut self) -> Progress {
        self.peer.on(Event::Illegal);
        Progress::Failed(Failure::Reset)
    }

    fn initiate(&mut self) -> Result {
        self.peer.on(Event::Connect { enhanced: true });
        self.peer.begin(&Control {
            function: Function::Initiate,
            enhanced: Some(self.offer),
            is_enhanced: true,
            private_data: self.private_data.as_slice(),
        })
    }

    fn hear(&mut self) -> Progress {
        loop {
            match self.peer.hear() {
                Heard::Nothing => return Progress::Waits,
                Heard::Lost => return Progress::Failed(self.peer.failure()),
                Heard::End | Heard::Wrong => return Progress::Failed(Failure::Reset),
                Heard::Data(data) => {
                    let progress = self.chunk(&data);
                    self.peer.give_back(data);
                    if !matches!(progress, Progress::Waits) {
                        return progress;
                    }
                }
            }
        }
    }
}

impl lower::Active for Active {
    type Open = Open;

    fn connect(
        net: &Net,
        ends: Addresses,
        parameters: Parameters<'_>,
        waker: Arc<Waker>,
    ) -> Result<Self> {
        let private_data = lower::data(parameters.private_data).ok_or(EINVAL)?;
        let order = order()?;
        let association = Association::connect(net, ends.local, ends.peer, &SETTINGS, waker)?;
        Ok(Self {
            peer: Peer::new(association)?,
            order,
            offer: Enhanced {
                ird: Reads::new(reads(parameters.ird)),
                ord: Reads::new(reads(parameters.ord)),
                ..Enhanced::default()
            },
            private_data,
            held: Held::new(),
            said: None,
        })
    }

    fn step(&mut self) -> Progress {
        self.peer.settle();
        let mut progress = self.hear();
        if matches!(progress, Progress::Waits)
            && self.peer.is_ready()
            && self.peer.session.state() == State::Free
            && self.initiate().is_err()
        {
            progress = Progress::Failed(Failure::Reset);
        }
        match self.peer.flush() {
            Ok(_) => progress,
            Err(_) => Progress::Failed(self.peer.failure()),
        }
    }

    fn answer(mut self) -> Answer<Open> {
        match self.said.take() {
            Some(Said::Accept(answer, said)) => {
                let limits = Agreed {
                    ird: MAX_READS,
                    ord: self.offer.ord.number().unwrap_or(MAX_READS),
                };
                match self.offer.accept(&answer, limits) {
                    Ok(reads) => match Open::new(self.peer, self.order, self.held) {
                        Ok(open) => Answer::Accepted { open, reads, said },
                        Err(_) => Answer::NoMemory,
                    },
                    Err(_) => {
                        self.peer.on(Event::Fail);
                        // If it cannot be sent, the end of the association tells the peer.
                        let _ = self.peer.flush();
                        Answer::Wrong
                    }
                }
            }
            Some(Said::Reject(said)) => Answer::Rejected(said),
            None => Answer::Wrong,
        }
    }

    fn give_up(self) {
        match self.peer.session.state() {
            // The session is over, and the last control message is still delivered.
            State::Quiesce | State::Failing => drop(self),
            _ => self.peer.abort(),
        }
    }
}
