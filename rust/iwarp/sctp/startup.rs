// SPDX-License-Identifier: GPL-2.0

//! The opening of a session (RFC 5043, sections 6.2 and 6.3): the active side, and the passive
//! side.

use crate::prelude::*;
use crate::{
    llp::{
        self,
        ConnectProgress,
        RequestStatus, //
    },
    sctp::{
        association::{
            self,
            order,
            DdpAssociation,
            Order,
            RecvOutcome, //
        },
        established::SctpEstablished,
        inbound::EarlySegments, //
    }, //
};
use rdmap::{
    enhanced::{
        Enhanced,
        ReadDepth, //
    },
    order::Seq,
    sctp::{
        chunk,
        session, //
    }, //
};
use socket::sctp::Association;

/// The answer of the peer's consumer.
enum ReplyData {
    Accept(Enhanced, llp::CmPrivateData),
    Reject(llp::CmPrivateData),
}

/// A session that this side begins.
pub(crate) struct Active {
    assoc: DdpAssociation,
    order: Order,
    offer: Enhanced,
    private_data: llp::CmPrivateData,
    // Segments that have overtaken the Accept.
    early: EarlySegments,
    reply: Option<ReplyData>,
}

impl Active {
    /// Handles a chunk.
    fn chunk(&mut self, data: &association::ChunkData) -> ConnectProgress {
        let Some(chunk) = data.chunk() else {
            return self.illegal();
        };
        match chunk.body {
            chunk::Body::Segment(_) => match self.order.seq(chunk.ssn) {
                Ok(seq) => self.segment(seq, data),
                Err(_) => self.illegal(),
            },
            chunk::Body::Control(control) => match self.order.pass(chunk.ssn) {
                Ok(seq) => self.control(seq, &control),
                Err(_) => self.illegal(),
            },
        }
    }

    /// Keeps a segment, which may have overtaken the Accept.
    fn segment(&mut self, seq: Seq, data: &association::ChunkData) -> ConnectProgress {
        let action = self.assoc.on(session::Event::Segment { seq });
        if action.indication.is_some() {
            return ConnectProgress::Failed(ConnectError::Reset);
        }
        if action.place && self.early.push(&self.assoc, data).is_err() {
            return self.illegal();
        }
        ConnectProgress::Pending
    }

    /// Handles a control message: the answer, or one that must not come here.
    fn control(&mut self, seq: Seq, control: &chunk::Control<'_>) -> ConnectProgress {
        let action = self.assoc.on(session::Event::Control {
            function: control.function,
            enhanced: control.is_enhanced,
            seq,
            // No Initiate waits for a consumer here, and one from the peer is no answer.
            full: false,
        });
        let private_data = llp::cm_private_data(control.private_data);
        match (action.indication, private_data) {
            (None, _) => ConnectProgress::Pending,
            (Some(session::Indication::Established), Some(data)) => {
                let enhanced = control.enhanced.unwrap_or_default();
                self.reply = Some(ReplyData::Accept(enhanced, data));
                ConnectProgress::Replied
            }
            (Some(session::Indication::Rejected), data) => {
                self.reply = Some(ReplyData::Reject(data.unwrap_or_default()));
                ConnectProgress::Replied
            }
            (Some(session::Indication::Refused), _)
                if control.function == chunk::Function::Terminate =>
            {
                ConnectProgress::Failed(ConnectError::Refused)
            }
            _ => self.illegal(),
        }
    }

    fn illegal(&mut self) -> ConnectProgress {
        self.assoc.on(session::Event::Illegal);
        ConnectProgress::Failed(ConnectError::Reset)
    }

    fn initiate(&mut self) -> Result {
        self.assoc.on(session::Event::Connect { enhanced: true });
        self.assoc.queue_control(&chunk::Control {
            function: chunk::Function::Initiate,
            enhanced: Some(self.offer),
            is_enhanced: true,
            private_data: self.private_data.as_slice(),
        })
    }

    /// Makes the connection that the peer accepted, if its numbers of Reads agree with the offer.
    fn accepted(
        mut self,
        answer: &Enhanced,
        private_data: llp::CmPrivateData,
    ) -> llp::ConnectReply<SctpEstablished> {
        let limits = ReadLimits {
            ird: llp::MAX_READS,
            ord: self.offer.ord.number().unwrap_or(llp::MAX_READS),
        };
        let Ok(reads) = self.offer.accept(answer, limits) else {
            self.assoc.on(session::Event::Fail);
            // If it cannot be sent, the end of the association tells the peer.
            let _ = self.assoc.flush();
            return llp::ConnectReply::Invalid;
        };
        llp::ConnectReply::Accepted {
            conn: SctpEstablished::new(self.assoc, self.order, self.early),
            reads,
            private_data,
        }
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
                    if self.assoc.take(data).is_err() {
                        return ConnectProgress::Failed(self.assoc.connect_error());
                    }
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
        _: bool,
        events: Arc<EventTarget>,
    ) -> Result<Self> {
        let private_data = llp::cm_private_data(parameters.private_data).ok_or(EINVAL)?;
        let order = order()?;
        let association = Association::connect(
            net,
            endpoints.local,
            endpoints.peer,
            &association::SETTINGS,
            events,
        )?;
        Ok(Self {
            assoc: DdpAssociation::new(association)?,
            order,
            offer: Enhanced {
                ird: ReadDepth::new(llp::limit_reads(parameters.ird)),
                ord: ReadDepth::new(llp::limit_reads(parameters.ord)),
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
            && self.assoc.session.state() == session::State::Free
            && self.initiate().is_err()
        {
            progress = ConnectProgress::Failed(ConnectError::Reset);
        }
        match self.assoc.flush() {
            Ok(_) => progress,
            Err(_) => ConnectProgress::Failed(self.assoc.connect_error()),
        }
    }

    fn into_reply(mut self) -> llp::ConnectReply<SctpEstablished> {
        match self.reply.take() {
            Some(ReplyData::Accept(answer, private_data)) => self.accepted(&answer, private_data),
            Some(ReplyData::Reject(private_data)) => llp::ConnectReply::Rejected(private_data),
            None => llp::ConnectReply::Invalid,
        }
    }

    fn abort(self) {
        match self.assoc.session.state() {
            // The session is over, and the last control message is still delivered.
            session::State::Quiesce | session::State::Failing => drop(self),
            _ => self.assoc.abort(),
        }
    }
}

/// The number of chunks of a refused peer that are discarded.
const MAX_DISCARDED: usize = 64;

/// The fields of the Initiate.
struct Request {
    enhanced: Option<Enhanced>,
    private_data: llp::CmPrivateData,
}

/// A session that a peer began.
pub(crate) struct Passive {
    assoc: DdpAssociation,
    order: Order,
    request: Option<Request>,
    // The peer does not speak DDP, or has restarted: the association is aborted (RFC 5043, sections
    // 8 and 11.1).
    aborts: bool,
}

impl Passive {
    /// Waits for the Initiate. Sleeps.
    pub(super) fn new(association: Association<EventTarget>) -> Result<Self> {
        Ok(Self {
            order: order()?,
            assoc: DdpAssociation::new(association)?,
            request: None,
            aborts: false,
        })
    }

    /// Handles the first chunk.
    fn chunk(
        &mut self,
        data: &association::ChunkData,
        admit: impl FnOnce() -> bool,
    ) -> RequestStatus {
        let Some(chunk) = data.chunk() else {
            self.assoc.on(session::Event::Illegal);
            return RequestStatus::Ended;
        };
        let Ok(seq) = self.order.pass(chunk.ssn) else {
            self.assoc.on(session::Event::Illegal);
            return RequestStatus::Ended;
        };
        let control = match chunk.body {
            chunk::Body::Segment(_) => {
                self.assoc.on(session::Event::Segment { seq });
                return RequestStatus::Ended;
            }
            chunk::Body::Control(control) => control,
        };
        let action = self.assoc.on(session::Event::Control {
            function: control.function,
            enhanced: control.is_enhanced,
            seq,
            // Section 6.4: a peer beyond the limit receives a Terminate.
            full: control.function == chunk::Function::Initiate && !admit(),
        });
        if action.indication != Some(session::Indication::Request) {
            return RequestStatus::Ended;
        }
        let Some(private_data) = llp::cm_private_data(control.private_data) else {
            // iw_cm cannot take so much private data, so its consumer cannot decide.
            self.assoc.on(session::Event::Timeout);
            return RequestStatus::Ended;
        };
        self.request = Some(Request {
            enhanced: control.enhanced,
            private_data,
        });
        RequestStatus::Ready
    }

    fn recv(&mut self, admit: impl FnOnce() -> bool) -> RequestStatus {
        match self.assoc.recv() {
            RecvOutcome::Nothing => RequestStatus::Pending,
            RecvOutcome::End => RequestStatus::Ended,
            RecvOutcome::Lost | RecvOutcome::Violation => {
                self.aborts = true;
                RequestStatus::Ended
            }
            RecvOutcome::Data(data) => {
                let status = self.chunk(&data, admit);
                match self.assoc.take(data) {
                    Ok(()) => status,
                    Err(_) => RequestStatus::Ended,
                }
            }
        }
    }

    /// Discards everything else that has arrived. Unread chunks would make SCTP abort the
    /// association, and the last control message would be lost.
    fn drain(&mut self) {
        for _ in 0..MAX_DISCARDED {
            let RecvOutcome::Data(data) = self.assoc.recv() else {
                return;
            };
            if self.assoc.take(data).is_err() {
                return;
            }
        }
    }

    /// Sends a message that there will be no session.
    fn send_refusal(mut self, function: chunk::Function, private_data: &[u8]) -> Result {
        self.assoc.queue_control(&chunk::Control {
            function,
            enhanced: None,
            is_enhanced: self.assoc.session.is_enhanced(),
            private_data,
        })?;
        self.assoc.flush().map(drop)
    }
}

impl llp::Passive for Passive {
    type Established = SctpEstablished;

    fn step(&mut self, admit: impl FnOnce() -> bool) -> RequestStatus {
        let status = self.recv(admit);
        if status == RequestStatus::Ended {
            // This is the last message. If it cannot be sent, the end of the association tells the
            // peer.
            let _ = self.assoc.flush();
        }
        status
    }

    fn is_intact(&mut self) -> bool {
        // Notifications stay in the socket until they are received, and nothing limits how often a
        // peer restarts an association.
        self.step(|| false) == RequestStatus::Pending
    }

    fn request_params(&self) -> Option<EventParams<'_>> {
        let request = self.request.as_ref()?;
        let private_data = request.private_data.as_slice();
        Some(llp::request_params(request.enhanced, private_data))
    }

    fn accept(mut self, parameters: ConnParams<'_>) -> Result<(SctpEstablished, ReadLimits)> {
        let request = self.request.as_ref().ok_or(EINVAL)?;
        let wanted = ReadLimits {
            ird: llp::limit_reads(parameters.ird),
            ord: llp::limit_reads(parameters.ord),
        };
        let limits = ReadLimits {
            ird: llp::MAX_READS,
            ..wanted
        };
        let (enhanced, agreed) = match request.enhanced.map(|request| request.answer(limits)) {
            None => (None, wanted),
            Some(Ok((answer, agreed))) => (Some(answer), agreed),
            // RFC 6581, section 7: a request that plain negotiation would have accepted is rejected
            // so.
            Some(Err(_)) => {
                self.assoc.on(session::Event::Reject);
                self.send_refusal(chunk::Function::Reject, &[])?;
                return Err(EINVAL);
            }
        };
        self.assoc.on(session::Event::Accept);
        self.assoc.queue_control(&chunk::Control {
            function: chunk::Function::Accept,
            enhanced,
            is_enhanced: enhanced.is_some(),
            private_data: parameters.private_data,
        })?;
        let open = SctpEstablished::new(self.assoc, self.order, EarlySegments::new());
        Ok((open, agreed))
    }

    fn reject(mut self, private_data: &[u8]) -> Result {
        self.assoc.on(session::Event::Reject);
        self.send_refusal(chunk::Function::Reject, private_data)
    }

    fn refuse(mut self) {
        if self.aborts {
            return self.assoc.abort();
        }
        self.assoc.on(session::Event::Timeout);
        // If it cannot be sent, the end of the association tells the peer.
        let _ = self.assoc.flush();
        self.drain();
    }
}
