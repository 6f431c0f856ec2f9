// SPDX-License-Identifier: GPL-2.0

//! The Responder's end.

use proto::call::{self, Call, Incoming, Part, Policy};
use proto::chunk::{Limits, Segment};
use proto::cm_private_data::PrivateData;
use proto::conn::server::{Action, ConnMachine, Event};
use proto::credit::{self, Window};
use proto::header::Body;
use proto::plan::{Role, Thresholds};
use proto::rdma_error::ErrorMessage;
use proto::reply_builder::{written_segments, Destination, Placement, ReplyBuilder};
use proto::reverse::Header;
use proto::xdr;

use super::choices::{private_data, Choices, REVERSE_CREDITS};
use super::fabric::Fabric;
use super::ulp::{put_words, Request};

const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 16,
        write_chunks: 1,
        segments: 16,
    },
    max_read_bytes: 20_000,
    reverse: true,
};

/// The most credits granted.
const CREDITS: u32 = 12;

#[derive(Debug)]
pub struct Server {
    connection: ConnMachine,
    sizes: PrivateData,
    thresholds: Thresholds,
    /// Credits for which there are Receives.
    granted: u32,
    /// Receives that wait for a Call.
    posted: u32,
    /// Messages received, not answered.
    serving: Vec<Vec<u8>>,
    reverse: Window,
    /// Calls in the reverse direction that are not answered.
    calling: u32,
    reverse_xid: u32,
}

impl Server {
    pub fn new(choices: &mut impl Choices) -> Self {
        Self {
            connection: ConnMachine::new(),
            sizes: private_data(choices),
            thresholds: Thresholds::DEFAULT,
            granted: 1,
            posted: 0,
            serving: Vec::new(),
            reverse: Window::new(REVERSE_CREDITS),
            calling: 0,
            reverse_xid: 0,
        }
    }

    /// Creates the end that a client has requested a connection of.
    pub fn accept(
        &mut self,
        choices: &mut impl Choices,
        fabric: &mut Fabric,
        theirs: Option<PrivateData>,
        client_receives: usize,
    ) -> Option<PrivateData> {
        self.connection = ConnMachine::new();
        self.granted = 1;
        self.posted = 0;
        self.reverse = Window::new(REVERSE_CREDITS);
        self.calling = 0;
        fabric.connect(self.sizes.receive_size(), client_receives);
        self.post_receives(fabric);
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
        assert_eq!(self.connection.on(Event::Drained), Action::Nothing);
    }

    /// Posts the Receives that the grant needs.
    fn post_receives(&mut self, fabric: &mut Fabric) {
        fabric.to_server.post_receives(self.granted - self.posted);
        self.posted = self.granted;
    }

    pub fn receive(&mut self, fabric: &mut Fabric) {
        let Some(message) = fabric.to_server.receive() else {
            return;
        };
        let action = self.connection.on(Event::Received);
        assert_eq!(action, Action::Serve);
        match call::parse(&message, &POLICY).unwrap() {
            Incoming::Call(_) => {
                self.posted -= 1;
                self.serving.push(message);
            }
            Incoming::ReverseReply(reply) => {
                // It used a Receive of its own, posted with the Call.
                self.reverse.on_reply(reply.credits);
                self.calling -= 1;
            }
            Incoming::ReverseError { .. } => unreachable!(),
        }
    }

    /// Calls the client, if it may.
    pub fn send_reverse_call(&mut self, fabric: &mut Fabric) {
        if self.calling >= self.reverse.window() {
            return;
        }
        self.calling += 1;
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
    }

    /// Answers any of the Calls that wait for a reply.
    pub fn finish_one(&mut self, choices: &mut impl Choices, fabric: &mut Fabric) {
        if self.serving.is_empty() {
            return;
        }
        let serving = u32::try_from(self.serving.len()).unwrap();
        let message = self.serving.swap_remove(choices.below(self.serving.len()));
        let Ok(Incoming::Call(call)) = call::parse(&message, &POLICY) else {
            unreachable!();
        };
        let request = execute(fabric, &call);

        if let Some(granted) = credit::raised_grant(self.granted, serving, CREDITS, CREDITS) {
            self.granted = granted;
        }
        self.post_receives(fabric);
        // Ours never says less than it has Receives for. Another Responder may.
        let less = if choices.one_in(4) {
            choices.below(usize::try_from(self.granted).unwrap())
        } else {
            0
        };
        let grant = self.granted - u32::try_from(less).unwrap();

        let send = match self.reply(choices, fabric, &call, &request, grant) {
            Some(send) => send,
            None => {
                let mut out = [0; ErrorMessage::MAX_LEN];
                let length = call.refuse().emit(grant, &mut out).unwrap();
                out[..length].to_vec()
            }
        };
        assert!(send.len() <= self.thresholds.reply);
        fabric.to_client.send(send);
    }

    /// Writes the results to the client's memory, and returns the message to send.
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
                Destination::Inline => {
                    payload.extend_from_slice(result);
                    payload.resize(xdr::roundup(payload.len()), 0);
                }
                Destination::Chunk { index, segments } => {
                    written.resize(index + 1, 0);
                    written[index] = length;
                    placed = Some((segments, length, result));
                }
            }
        }
        payload.extend_from_slice(rest);
        let length = u64::try_from(payload.len()).unwrap();
        let answer = ReplyBuilder::new(call, &written, length, self.thresholds.reply).ok()?;
        if let Some((segments, length, result)) = placed {
            let segments: Vec<Segment> = written_segments(segments, length).collect();
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

/// Reads the chunks of the Call, and passes the whole message to the upper layer.
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
            Part::Padding(count) => {
                message.resize(message.len() + usize::try_from(count).unwrap(), 0)
            }
        }
    }
    assert_eq!(u64::try_from(message.len()).unwrap(), call.message_len());
    let (request, argument) = Request::parse(&message);
    assert_eq!(message, request.call());
    call.check_arguments(|position, _| (position == argument.position).then_some(argument.length))
        .unwrap();
    request
}
