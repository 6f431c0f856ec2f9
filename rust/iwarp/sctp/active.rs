// SPDX-License-Identifier: GPL-2.0

//! The active side of a session (RFC 5043, section 6.2).

use crate::event_target::EventTarget;
use crate::llp;
use crate::llp::limit_reads;
use crate::llp::CmPrivateData;
use crate::llp::ConnectProgress;
use crate::llp::ConnectReply;
use crate::llp::MAX_READS;
use crate::sctp::association::order;
use crate::sctp::association::DdpAssociation;
use crate::sctp::association::Order;
use crate::sctp::association::SETTINGS;
use crate::sctp::early::EarlySegments;
use crate::sctp::open::SctpEstablished;
use crate::sctp::recv;
use crate::sctp::recv::RecvOutcome;
use kernel::prelude::*;
use kernel::sync::Arc;
use provider::addr::Net;
use provider::cm::ConnParams;
use provider::cm::ConnectError;
use provider::cm::Endpoints;
use rdmap::enhanced::Enhanced;
use rdmap::enhanced::ReadDepth;
use rdmap::enhanced::ReadLimits;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Control;
use rdmap::sctp::chunk::Function;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::Indication;
use rdmap::sctp::session::State;
use socket::sctp::Association;

/// The answer of the peer's consumer.
enum ReplyData {
    Accept(Enhanced, CmPrivateData),
    Reject(CmPrivateData),
}

/// A session that this side begins.
pub(crate) struct Active {
    assoc: DdpAssociation,
    order: Order,
    offer: Enhanced,
    private_data: CmPrivateData,
    // Segments that have overtaken the Accept.
    early: EarlySegments,
    reply: Option<ReplyData>,
}

impl Active {
    /// Handles a chunk.
    fn chunk(&mut self, data: &recv::ChunkData) -> ConnectProgress {
        let Some(chunk) = data.chunk() else {
            return self.illegal();
        };
        let seq = match chunk.body {
            Body::Segment(_) => self.order.seq(chunk.ssn),
            Body::Control(_) => self.order.pass(chunk.ssn),
        };
        let Ok(seq) = seq else {
            return self.illegal();
        };
        let control = match chunk.body {
            Body::Segment(_) => {
                let action = self.assoc.on(Event::Segment { seq });
                return match action.indication {
                    None if !action.place => ConnectProgress::Pending,
                    None => match self.early.push(data.ppid, data.octets()) {
                        Ok(()) => ConnectProgress::Pending,
                        Err(_) => self.illegal(),
                    },
                    Some(_) => ConnectProgress::Failed(ConnectError::Reset),
                };
            }
            Body::Control(control) => control,
        };
        let action = self.assoc.on(Event::Control {
            function: control.function,
            enhanced: control.is_enhanced,
            seq,
            // No Initiate waits for a consumer here, and one from the peer is no answer.
            full: false,
        });
        match (
            action.indication,
            llp::cm_private_data(control.private_data),
        ) {
            (None, _) => ConnectProgress::Pending,
            (Some(Indication::Established), Some(data)) => {
                let enhanced = control.enhanced.unwrap_or_default();
                self.reply = Some(ReplyData::Accept(enhanced, data));
                ConnectProgress::Replied
            }
            (Some(Indication::Rejected), data) => {
                self.reply = Some(ReplyData::Reject(data.unwrap_or_default()));
                ConnectProgress::Replied
            }
            (Some(Indication::Refused), _) if control.function == Function::Terminate => {
                ConnectProgress::Failed(ConnectError::Refused)
            }
            _ => self.illegal(),
        }
    }

    fn illegal(&mut self) -> ConnectProgress {
        self.assoc.on(Event::Illegal);
        ConnectProgress::Failed(ConnectError::Reset)
    }

    fn initiate(&mut self) -> Result {
        self.assoc.on(Event::Connect { enhanced: true });
        self.assoc.queue_control(&Control {
            function: Function::Initiate,
            enhanced: Some(self.offer),
            is_enhanced: true,
            private_data: self.private_data.as_slice(),
        })
    }

    fn recv(&mut self) -> ConnectProgress {
        loop {
            match self.assoc.recv() {
                RecvOutcome::Nothing => return ConnectProgress::Pending,
                RecvOutcome::Lost => return ConnectProgress::Failed(self.assoc.connect_error()),
                RecvOutcome::End | RecvOutcome::Violation => {
                    return ConnectProgress::Failed(ConnectError::Reset)
                }
                RecvOutcome::Data(data) => {
                    let progress = self.chunk(&data);
                    self.assoc.return_buffer(data);
                    if !matches!(progress, ConnectProgress::Pending) {
                        return progress;
                    }
                }
            }
        }
    }
}

impl llp::Active for Active {
    type Established = SctpEstablished;

    fn connect(
        net: &Net,
        endpoints: Endpoints,
        parameters: ConnParams<'_>,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        let private_data = llp::cm_private_data(parameters.private_data).ok_or(EINVAL)?;
        let order = order()?;
        let association =
            Association::connect(net, endpoints.local, endpoints.peer, &SETTINGS, events)?;
        Ok(Self {
            assoc: DdpAssociation::new(association)?,
            order,
            offer: Enhanced {
                ird: ReadDepth::new(limit_reads(parameters.ird)),
                ord: ReadDepth::new(limit_reads(parameters.ord)),
                ..Enhanced::default()
            },
            private_data,
            early: EarlySegments::new(),
            reply: None,
        })
    }

    fn step(&mut self) -> ConnectProgress {
        self.assoc.note_acked();
        let mut progress = self.recv();
        if matches!(progress, ConnectProgress::Pending)
            && self.assoc.is_ready()
            && self.assoc.session.state() == State::Free
            && self.initiate().is_err()
        {
            progress = ConnectProgress::Failed(ConnectError::Reset);
        }
        match self.assoc.flush() {
            Ok(_) => progress,
            Err(_) => ConnectProgress::Failed(self.assoc.connect_error()),
        }
    }

    fn into_reply(mut self) -> ConnectReply<SctpEstablished> {
        match self.reply.take() {
            Some(ReplyData::Accept(answer, private_data)) => {
                let limits = ReadLimits {
                    ird: MAX_READS,
                    ord: self.offer.ord.number().unwrap_or(MAX_READS),
                };
                match self.offer.accept(&answer, limits) {
                    Ok(reads) => match SctpEstablished::new(self.assoc, self.order, self.early) {
                        Ok(conn) => ConnectReply::Accepted {
                            conn,
                            reads,
                            private_data,
                        },
                        Err(_) => ConnectReply::NoMemory,
                    },
                    Err(_) => {
                        self.assoc.on(Event::Fail);
                        // If it cannot be sent, the end of the association tells the peer.
                        let _ = self.assoc.flush();
                        ConnectReply::Invalid
                    }
                }
            }
            Some(ReplyData::Reject(private_data)) => ConnectReply::Rejected(private_data),
            None => ConnectReply::Invalid,
        }
    }

    fn abort(self) {
        match self.assoc.session.state() {
            // The session is over, and the last control message is still delivered.
            State::Quiesce | State::Failing => drop(self),
            _ => self.assoc.abort(),
        }
    }
}
