// SPDX-License-Identifier: GPL-2.0

//! The Responder's end.

use std::collections::VecDeque;

use proto::answer::filled;
use proto::answer::Answer;
use proto::answer::Place;
use proto::answer::Placement;
use proto::call;
use proto::call::Call;
use proto::call::Incoming;
use proto::call::Part;
use proto::call::Policy;
use proto::chunk::Limits;
use proto::chunk::Segment;
use proto::conn::server::Action;
use proto::conn::server::Connection;
use proto::conn::server::Event;
use proto::credit::Grants;
use proto::credit::Window;
use proto::header::Body;
use proto::plan::Role;
use proto::plan::Thresholds;
use proto::private::PrivateData;
use proto::refusal::Refusal;
use proto::reverse::Header;
use proto::xdr;

use super::client::private_data;
use super::client::REVERSE_CREDITS;
use super::fabric::Fabric;
use super::ulp::put_words;
use super::ulp::Request;
use super::Choices;

const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 16,
        write_chunks: 1,
        segments: 16,
    },
    max_pull: 20_000,
    reverse: true,
};

#[derive(Debug)]
pub struct Server {
    connection: Connection,
    sizes: PrivateData,
    thresholds: Thresholds,
    grants: Grants,
    /// Messages received, not answered.
    serving: Vec<Vec<u8>>,
    /// What the Sends on their way say about forward credits. Reverse Calls say nothing.
    sent: VecDeque<Option<u32>>,
    reverse: Window,
    reverse_xid: u32,
}

impl Server {
    pub fn new(choices: &mut impl Choices) -> Self {
        Self {
            connection: Connection::new(),
            sizes: private_data(choices),
            thresholds: Thresholds::DEFAULT,
            grants: Grants::new(),
            serving: Vec::new(),
            sent: VecDeque::new(),
            reverse: Window::new(REVERSE_CREDITS),
            reverse_xid: 0,
        }
    }

    /// A client asks for a connection.
    pub fn accept(
        &mut self,
        choices: &mut impl Choices,
        fabric: &mut Fabric,
        theirs: Option<PrivateData>,
        client_receives: usize,
    ) -> Option<PrivateData> {
        self.connection = Connection::new();
        self.grants = Grants::new();
        self.reverse.reset();
        fabric.connect(self.sizes.receive_size(), client_receives);
        self.post_receives(fabric, self.grants.missing());
        let ours = Some(self.sizes).filter(|_| theirs.is_some() && !choices.one_in(5));
        self.thresholds = match ours {
            Some(ours) => Thresholds::negotiate(Role::Server, ours, theirs),
            None => Thresholds::DEFAULT,
        };
        assert_eq!(self.connection.on(Event::Prepared), Action::Accept);
        ours.and_then(|ours| PrivateData::parse(&ours.emit()))
    }

    pub fn lose_connection(&mut self) {
        assert_eq!(self.connection.on(Event::Disconnected), Action::TearDown);
        self.serving.clear();
        self.sent.clear();
        assert_eq!(self.connection.on(Event::Drained), Action::Release);
    }

    fn post_receives(&mut self, fabric: &mut Fabric, count: u32) {
        fabric.to_server.post_receives(count);
        self.grants.posted(count);
    }

    pub fn receive(&mut self, fabric: &mut Fabric) {
        let Some(message) = fabric.to_server.receive() else {
            return;
        };
        let action = self.connection.on(Event::Received);
        assert!(matches!(action, Action::Serve | Action::AnnounceAndServe));
        match call::parse(&message, &POLICY).unwrap() {
            Incoming::Call(_) => {
                self.grants.received().unwrap();
                self.serving.push(message);
            }
            Incoming::ReverseReply(reply) => {
                // It used a Receive of its own, posted with the Call.
                self.reverse.on_reply(reply.credits);
                self.reverse.give_back().unwrap();
            }
            Incoming::ReverseError { .. } => unreachable!(),
        }
    }

    /// Calls the client, if it may.
    pub fn send_reverse_call(&mut self, fabric: &mut Fabric) {
        if !self.reverse.take() {
            return;
        }
        let xid = self.reverse_xid;
        self.reverse_xid += 1;
        let header = Header {
            xid,
            credits: self.reverse.requested(),
        };
        let mut call = vec![0; Header::WIRE_LEN];
        header.emit(&mut call).unwrap();
        put_words(&mut call, &[xid, 0, 2, 0x4000_0000, 1, 0, 0, 0, 0, 0]);
        fabric.to_server.post_receives(1);
        fabric.to_client.send(call);
        self.sent.push_back(None);
    }

    /// Takes the completion of a Send.
    pub fn complete_send(&mut self, fabric: &mut Fabric) {
        if fabric.to_client.completed() {
            if let Some(grant) = self.sent.pop_front().unwrap() {
                self.grants.delivered(grant).unwrap();
            }
        }
    }

    /// Answers any of the Calls that wait for it.
    pub fn finish_one(&mut self, choices: &mut impl Choices, fabric: &mut Fabric) {
        if self.serving.is_empty() {
            return;
        }
        let message = self.serving.swap_remove(choices.below(self.serving.len()));
        let Ok(Incoming::Call(call)) = call::parse(&message, &POLICY) else {
            unreachable!();
        };
        let request = execute(fabric, &call);

        let policy = 1 + u32::try_from(choices.below(12)).unwrap();
        let spare = u32::try_from(choices.below(3)).unwrap();
        self.post_receives(fabric, self.grants.missing_for(1) + spare);
        let grant = self.grants.grant(policy);
        self.grants.reply(grant).unwrap();

        let send = match self.reply(choices, fabric, &call, &request, grant) {
            Some(send) => send,
            None => {
                let mut out = [0; Refusal::MAX_LEN];
                let length = call.refuse().emit(grant, &mut out).unwrap();
                out[..length].to_vec()
            }
        };
        assert!(send.len() <= self.thresholds.reply);
        fabric.to_client.send(send);
        self.sent.push_back(Some(grant));
    }

    /// Writes the results to the client's memory, and returns what to send.
    fn reply(
        &self,
        choices: &mut impl Choices,
        fabric: &mut Fabric,
        call: &Call<'_>,
        request: &Request,
        grant: u32,
    ) -> Option<Vec<u8>> {
        let (mut payload, result, rest) = request.reply();
        let mut placement = Placement::new(call, !request.protected);
        let mut placed = None;
        let mut written = Vec::new();
        if let Some(result) = result {
            let length = u64::try_from(result.len()).unwrap();
            match placement.place(length).ok()? {
                Place::Inline => {
                    payload.extend_from_slice(result);
                    payload.resize(xdr::filled(payload.len()), 0);
                }
                Place::Chunk { index, segments } => {
                    written.resize(index + 1, 0);
                    written[index] = length;
                    placed = Some((segments, length, result));
                }
            }
        }
        payload.extend_from_slice(rest);
        let length = u64::try_from(payload.len()).unwrap();
        let answer = Answer::new(call, &written, length, self.thresholds.reply).ok()?;
        if let Some((segments, length, result)) = placed {
            let segments: Vec<Segment> = filled(segments, length).collect();
            fabric.write(choices, &segments, result);
        }
        let mut send = vec![0; answer.wire_len()];
        answer.emit(grant, &mut send).unwrap();
        match answer.body() {
            Body::Msg => send.extend_from_slice(&payload),
            Body::NoMsg => {
                let segments: Vec<Segment> = answer.reply_segments().collect();
                fabric.write(choices, &segments, &payload);
            }
        }
        Some(send)
    }
}

/// Pulls what the Call has in chunks, and hands the whole to the upper layer.
fn execute(fabric: &Fabric, call: &Call<'_>) -> Request {
    let pull = |position, into: &mut Vec<u8>| {
        let segments = call.lists.read.chunk(position);
        for segment in segments.filter(|segment| segment.length > 0) {
            into.extend_from_slice(fabric.read(&segment));
        }
    };
    let mut long = Vec::new();
    let payload = match call.body {
        Body::Msg => call.payload,
        Body::NoMsg => {
            pull(0, &mut long);
            &long[..]
        }
    };
    call.check_message(payload).unwrap();
    let mut message = Vec::with_capacity(usize::try_from(call.message_len()).unwrap());
    for part in call.parts() {
        match part {
            Part::Payload { from, length } => {
                let from = usize::try_from(from).unwrap();
                let length = usize::try_from(length).unwrap();
                message.extend_from_slice(&payload[from..from + length]);
            }
            Part::Chunk { position, .. } => pull(position, &mut message),
            Part::Fill(count) => message.resize(message.len() + usize::try_from(count).unwrap(), 0),
        }
    }
    assert_eq!(u64::try_from(message.len()).unwrap(), call.message_len());
    let (request, argument) = Request::parse(&message);
    assert_eq!(message, request.call());
    call.check_arguments(|position| (position == argument.position).then_some(argument.length))
        .unwrap();
    request
}
