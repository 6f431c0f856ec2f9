// SPDX-License-Identifier: GPL-2.0

//! The Requester's end.

use std::collections::BTreeMap;
use std::mem;

use proto::chunk::{ReadSegment, Segment};
use proto::cm_private_data::PrivateData;
use proto::conn::client::{Action, ConnMachine, Event};
use proto::credit::Window;
use proto::header::Call;
use proto::plan::{Plan, ReplyForm, Role, Sizes, Thresholds};
use proto::reply::{self, check_result, Incoming, Offer, Outcome};
use proto::reverse::{self, Header};
use proto::xdr::roundup;

use super::choices::{private_data, Choices, REVERSE_CREDITS};
use super::fabric::{Access, Fabric};
use super::server::Server;
use super::ulp::{put_words, Request};

/// The events of a run, so that a test can check that it covered something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// RPCs completed with the right reply.
    pub completed: usize,
    /// RPCs refused with an RDMA_ERROR.
    pub refused: usize,
    /// RPCs that could not be planned.
    pub unplannable: usize,
    /// Calls in the reverse direction, answered.
    pub reversed: usize,
    /// Connections lost.
    pub lost: usize,
    /// Calls that went with a Read chunk, or with a Position-Zero chunk.
    pub long_calls: usize,
    /// Replies that used a Write chunk, or the Reply chunk.
    pub long_replies: usize,
}

/// Segments per chunk.
const SEGMENTS: usize = 4;

/// A Call in flight, and the memory registered for it.
#[derive(Debug)]
struct Pending {
    request: Request,
    read: Vec<Segment>,
    write: Option<Vec<Segment>>,
    reply: Option<Vec<Segment>>,
}

#[derive(Debug)]
pub struct Client {
    connection: ConnMachine,
    sizes: PrivateData,
    thresholds: Thresholds,
    window: Window,
    /// RPCs to send.
    queue: Vec<Request>,
    pending: BTreeMap<u32, Pending>,
}

impl Client {
    pub fn new(choices: &mut impl Choices, rpcs: usize) -> Self {
        let queue = (0..rpcs)
            .map(|xid| Request::new(choices, u32::try_from(xid).unwrap()))
            .collect();
        Self {
            connection: ConnMachine::new(),
            sizes: private_data(choices),
            thresholds: Thresholds::DEFAULT,
            window: Window::new(1 + u32::try_from(choices.below(8)).unwrap()),
            queue,
            pending: BTreeMap::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.pending.is_empty()
    }

    pub fn connect(
        &mut self,
        choices: &mut impl Choices,
        fabric: &mut Fabric,
        server: &mut Server,
    ) {
        self.step(Event::Connect, Action::ResolveAddress);
        self.step(Event::AddressResolved, Action::ResolveRoute);
        self.step(Event::RouteResolved, Action::Request);
        // Either end may keep quiet about its sizes. The other then knows nothing.
        let ours = Some(self.sizes).filter(|_| !choices.one_in(5));
        let theirs = server.accept(choices, fabric, ours, self.sizes.receive_size());
        // Section 3.3.3: a peer that heard nothing from us assumes the least, so we must as well.
        self.thresholds = match ours {
            Some(ours) => Thresholds::negotiate(Role::Client, ours, theirs),
            None => Thresholds::DEFAULT,
        };
        self.step(Event::Established, Action::Announce);
        self.window = Window::new(self.window.requested());
        fabric.to_client.post_receives(REVERSE_CREDITS);
    }

    pub fn lose_connection(&mut self, fabric: &mut Fabric) {
        fabric.disconnect();
        self.step(Event::Disconnected, Action::TearDown);
        // Drained: now the memory comes back, and the Calls are sent anew on the next connection.
        for pending in mem::take(&mut self.pending).into_values() {
            pending.fence(fabric);
            self.queue.push(pending.request);
        }
        assert!(fabric.is_fenced());
        self.step(Event::Drained, Action::Release);
    }

    #[track_caller]
    fn step(&mut self, event: Event, expected: Action) {
        assert_eq!(self.connection.on(event), expected);
    }

    /// Sends the next Call, if there is one and a credit for it.
    pub fn send_call(
        &mut self,
        choices: &mut impl Choices,
        fabric: &mut Fabric,
        summary: &mut Summary,
    ) {
        let Some(request) = self.queue.last().copied() else {
            return;
        };
        let message = request.call();
        let sizes = Sizes {
            call: message.len(),
            argument: Some(request.argument()),
            reply: request.max_reply(),
            result: Some(request.result),
            reduction: !request.protected,
            segments: SEGMENTS,
        };
        let plan = match Plan::new(&sizes, &self.thresholds) {
            Ok(plan) => plan,
            Err(_) => {
                summary.unplannable += 1;
                self.queue.pop();
                return;
            }
        };
        let in_flight = u32::try_from(self.pending.len()).unwrap();
        if in_flight >= self.window.window() {
            return;
        }
        self.queue.pop();

        let mut room = |length: usize| {
            let chunk = vec![0xA5; length];
            Some(fabric.register(choices, Access::Write, &chunk, SEGMENTS))
        };
        let (write, reply) = match plan.reply {
            ReplyForm::Inline => (None, None),
            ReplyForm::WriteChunk { write } => (room(write), None),
            ReplyForm::WriteAndReplyChunk { write, reply } => (room(write), room(reply)),
            ReplyForm::ReplyChunk { reply } => (None, room(reply)),
        };
        let (position, read) = match plan.call.read_chunk(message.len()) {
            None => (0, Vec::new()),
            Some((position, range)) => {
                summary.long_calls += 1;
                let chunk = fabric.register(choices, Access::Read, &message[range], SEGMENTS);
                (position, chunk)
            }
        };
        let list: Vec<_> = read
            .iter()
            .map(|segment| ReadSegment {
                position,
                segment: *segment,
            })
            .collect();
        let write_list: Vec<&[Segment]> = write.iter().map(|chunk| &chunk[..]).collect();
        let call = Call {
            xid: request.xid,
            credits: self.window.requested(),
            body: plan.call.body(),
            read: &list,
            write: &write_list,
            reply: reply.as_deref(),
        };
        let mut send = Vec::with_capacity(call.wire_len() + message.len());
        send.resize(call.wire_len(), 0);
        call.emit(&mut send).unwrap();
        for range in plan.call.inline(message.len()) {
            send.extend_from_slice(&message[range]);
        }
        assert!(send.len() <= self.thresholds.call);
        // One Receive for the reply, before the Call is posted.
        fabric.to_client.post_receives(1);
        fabric.to_server.send(send);
        let pending = Pending {
            request,
            read,
            write,
            reply,
        };
        let twin = self.pending.insert(request.xid, pending);
        assert!(twin.is_none(), "two Calls with one number");
    }

    pub fn receive(&mut self, fabric: &mut Fabric, summary: &mut Summary) {
        let Some(message) = fabric.to_client.receive() else {
            return;
        };
        match reply::parse(&message).unwrap() {
            Incoming::ReverseCall(call) => self.answer_reverse(fabric, &call, summary),
            Incoming::Error { xid, credits, .. } => {
                let pending = self.pending.remove(&xid).unwrap();
                pending.fence(fabric);
                self.window.on_reply(credits);
                summary.refused += 1;
            }
            Incoming::Reply(reply) => {
                let pending = self.pending.remove(&reply.xid).unwrap();
                let write = pending.write.as_deref();
                let write: Vec<&[Segment]> = write.into_iter().collect();
                let offer = Offer {
                    write: &write,
                    reply: pending.reply.as_deref(),
                };
                let outcome = reply.check(&offer).unwrap();
                pending.complete(fabric, &outcome, summary);
                self.window.on_reply(reply.credits);
                summary.completed += 1;
            }
        }
    }

    fn answer_reverse(
        &self,
        fabric: &mut Fabric,
        call: &reverse::Message<'_>,
        summary: &mut Summary,
    ) {
        let mut reply = vec![0; Header::WIRE_LEN];
        let header = Header {
            xid: call.xid,
            credits: REVERSE_CREDITS,
        };
        header.emit(&mut reply).unwrap();
        put_words(&mut reply, &[call.xid, 1, 0, 0, 0, 0]);
        assert!(reply.len() <= self.thresholds.call);
        fabric.to_client.post_receives(1);
        fabric.to_server.send(reply);
        summary.reversed += 1;
    }
}

impl Pending {
    /// Deregisters the memory that the server must not access any more.
    fn fence(&self, fabric: &mut Fabric) {
        let write = self.write.iter();
        for chunk in write.chain(&self.reply).chain([&self.read]) {
            fabric.invalidate(chunk, 0);
        }
    }

    /// Checks that the reply is the right one, wherever its parts travelled.
    fn complete(&self, fabric: &mut Fabric, outcome: &Outcome<'_>, summary: &mut Summary) {
        fabric.invalidate(&self.read, 0);
        let mut take = |chunk: &Option<Vec<Segment>>, length| match chunk {
            Some(chunk) => fabric.invalidate(chunk, length),
            None => Vec::new(),
        };
        let data = take(&self.write, outcome.written_len);
        let long = take(&self.reply, outcome.reply_chunk_len);
        let message = match outcome.reply_chunk_len {
            0 => outcome.inline,
            _ => &long[..],
        };
        summary.long_replies += usize::from(!data.is_empty() || !long.is_empty());

        let (head, result, rest) = self.request.reply();
        let length = result.map(<[u8]>::len);
        let offered = self.write.is_some();
        assert_eq!(check_result(data.len(), length), Ok(data.len()));
        let mut expected = head;
        if let Some(result) = result {
            if offered {
                assert_eq!(data, result);
            } else {
                expected.extend_from_slice(result);
                expected.resize(roundup(expected.len()), 0);
            }
        }
        expected.extend_from_slice(rest);
        assert_eq!(message, expected);
    }
}
