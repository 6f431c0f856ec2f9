// SPDX-License-Identifier: GPL-2.0

//! What arrives becomes a call, an error message, or nothing.
//!
//! RFC 8166, sections 3.4.5 and 4.5. A service thread runs this.

use super::{
    config::RECEIVED,
    connection::Connection,
    endpoint::Endpoint,
    rdma_read::{
        copy_out,
        fits_head,
        Form,
        ReadDone, //
    }, //
};
use core::ops::Range;
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use proto::{
    call::{
        self,
        Incoming,
        Policy,
        Rejection, //
    },
    chunk::Limits,
    conn::server::Event,
    rdma_error::ErrorMessage,
    rpc::CallHeader, //
    upper_layer_binding::Binding,
};
use rdma::{
    receive::Message,
    send::Verb,
    transfer::Attached, //
};
use sunrpc::{
    memory::Page,
    AnsweredCallback,
    SavedReplyPages,
    SvcArgs,
    SvcCall,
    SvcXprt, //
};

/// Chunks of a Write list. NFS pairs them with the operations of a compound.
pub(super) const MAX_WRITE_CHUNKS: usize = 16;

/// The place of a call.
pub(super) type Args<'a> = SvcArgs<'a, Message<Endpoint>>;

/// Bytes that surely hold the header of an RPC call.
const HEAD_BYTES: usize = 1024;

/// What a connection context of a call in work.
pub(crate) struct CallContext {
    /// The transaction, if the call came without chunks.
    pub(super) bare: Option<u32>,
    /// Whether results may leave the message.
    pub(super) reduction: bool,
    /// Which may.
    pub(super) results: Results,
    /// What the service thread had for the result.
    pub(super) saved_pages: SavedReplyPages,
}

impl CallContext {
    fn new() -> Self {
        Self {
            bare: None,
            reduction: false,
            results: Results::default(),
            saved_pages: SavedReplyPages::default(),
        }
    }
}

/// Offset and length of each result that may leave the message.
#[derive(Default)]
pub(super) struct Results {
    known: [(usize, usize); MAX_WRITE_CHUNKS],
    count: usize,
}

impl Results {
    /// Adds one. More than there are chunks for stay inside.
    pub(super) fn add(&mut self, offset: usize, len: usize) {
        if let Some(free) = self.known.get_mut(self.count) {
            *free = (offset, len);
            self.count = self.count.saturating_add(1);
        }
    }

    /// All, in the order of the reply.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.known.iter().take(self.count).copied()
    }

    fn clear(&mut self) {
        self.count = 0;
    }
}

/// What this end takes. `max_pull` bounds what is read for one call.
pub(super) fn policy(max_pull: usize) -> Policy {
    Policy {
        limits: Limits {
            // Bounded by the length of a Receive; `proto` bounds the Positions.
            read_segments: usize::MAX,
            write_chunks: MAX_WRITE_CHUNKS,
            segments: usize::MAX,
        },
        max_pull: u64::try_from(max_pull).unwrap_or(u64::MAX),
        reverse: true,
    }
}

/// What is to be known of a call when its message is no longer borrowed.
struct Shape {
    /// Where in the message the RPC is, or what of it is inline.
    rpc: Range<usize>,
    /// The transaction, if there are no chunks.
    bare: Option<u32>,
    /// Whether results may leave the message.
    reduction: bool,
    /// Bytes that may leave it.
    reduced: u64,
}

impl Shape {
    /// That of `call`, which came in `message`; the RPC starts with `head`.
    fn new(call: &call::Call<'_>, message: &[u8], head: &[u8]) -> Self {
        let chunks = call.lists.write.iter().map(|chunk| chunk.total());
        Self {
            // The payload is all that follows the header.
            rpc: message.len().saturating_sub(call.payload.len())..message.len(),
            bare: call.lists.is_empty().then_some(call.xid),
            reduction: CallHeader::parse(head).is_some_and(|header| header.reduction),
            reduced: chunks.max().unwrap_or(0),
        }
    }
}

/// What to do about a message, when it is no longer borrowed.
enum Verdict {
    /// Serve it.
    Serve(Shape),
    /// Pull it.
    Pull(Form),
    /// Drop it in silence.
    Drop,
    /// It answered a callback, or refused it.
    Answer(AnsweredCallback),
    /// Answer with an error.
    Refuse(ErrorMessage),
    /// No memory for it. The client has to send it again.
    Fail,
}

impl Connection {
    /// Takes in `message`.
    pub(super) fn take_message(
        &self,
        xprt: &SvcXprt<Self>,
        message: Message<Endpoint>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        RECEIVED.add(1);
        match dispatch(xprt, message.bytes(), args) {
            Verdict::Serve(shape) => match args.set_message(message, shape.rpc.clone()) {
                Ok(()) => return self.serve(&shape, args),
                Err(message) => self.fail(message),
            },
            Verdict::Pull(form) => return self.pull(message, form, args),
            Verdict::Drop => self.repost(message),
            Verdict::Answer(answered) => {
                self.repost(message);
                xprt.complete_callback(args, answered);
            }
            Verdict::Refuse(refusal) => self.refuse(message, &refusal),
            Verdict::Fail => self.fail(message),
        }
        None
    }

    /// Takes in a call whose memory was pulled.
    pub(super) fn take_pulled(
        &self,
        pulled: ReadDone,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        let verdict = dispatch_read(&pulled);
        let ReadDone {
            message,
            form,
            mut pages,
        } = pulled;
        let shape = match verdict {
            Verdict::Serve(shape) => shape,
            verdict => {
                self.pages.keep(pages);
                match verdict {
                    Verdict::Refuse(refusal) => self.refuse(message, &refusal),
                    Verdict::Fail => self.fail(message),
                    _ => self.repost(message),
                }
                return None;
            }
        };
        let set = match form {
            Form::Reduced { position, len } => {
                args.set_reduced(message, shape.rpc.clone(), position, &mut pages, len)
            }
            Form::Whole { len } => args.set_pages(message, &mut pages, len),
        };
        self.pages.keep(pages);
        match set {
            Ok(()) => self.serve(&shape, args),
            Err(message) => {
                self.fail(message);
                None
            }
        }
    }

    /// Hands over the call that is in its place in `args`.
    fn serve(&self, shape: &Shape, args: &mut Args<'_>) -> Option<KBox<SvcCall<Self>>> {
        let idle = self.idle.lock().pop();
        let call = idle.map_or_else(
            || KBox::new(SvcCall::new(CallContext::new()), GFP_KERNEL),
            Ok,
        );
        let Ok(mut call) = call else {
            if let Some(message) = args.take_message() {
                self.fail(message);
            }
            return None;
        };
        let context = &mut call.context;
        context.bare = shape.bare;
        context.reduction = shape.reduction;
        let pages = self.result_pages(shape.reduced);
        if args
            .save_reply_pages(&mut context.saved_pages, pages)
            .is_err()
        {
            context.saved_pages.clear();
        }
        Some(call)
    }

    /// How many pages a result may take of which `reduced` bytes leave the message: these, the rest,
    /// and what an unaligned start adds.
    fn result_pages(&self, reduced: u64) -> usize {
        let reduced = usize::try_from(reduced).unwrap_or(usize::MAX);
        reduced
            .max(self.send_path.max)
            .div_ceil(PAGE_SIZE)
            .saturating_add(2)
    }

    /// Makes `call` ready for another one.
    pub(super) fn put_away(&self, mut call: KBox<SvcCall<Self>>) {
        if let Some(message) = call.take_message() {
            self.repost(message);
        }
        call.context.results.clear();
        call.context.saved_pages.clear();
        let excess = self.idle.lock().push_within_capacity(call);
        drop(excess);
    }

    /// Posts the Receive of `message` again, in time.
    pub(super) fn repost(&self, message: Message<Endpoint>) {
        self.send_path
            .endpoint
            .repost(&self.send_path.queue, message);
    }

    /// Answers `message` with an RDMA_ERROR. If even that cannot be, the connection ends.
    pub(super) fn refuse(&self, message: Message<Endpoint>, refusal: &ErrorMessage) {
        self.repost(message);
        let Some(mut buffer) = self.send_path.buffer() else {
            return;
        };
        match refusal.emit(self.send_path.credits(), buffer.bytes_mut()) {
            Ok(len) => {
                let _ = self
                    .send_path
                    .post(Attached::Nothing, buffer, len, Verb::Send);
            }
            Err(_) => {
                self.send_path.queue.put_back_send_buffer(buffer);
                self.send_path.endpoint.lost(Event::Unanswered);
            }
        }
    }

    /// Ends the connection, so that the client does not wait for an answer (RFC 8166, section
    /// 4.5.4).
    pub(super) fn fail(&self, message: Message<Endpoint>) {
        self.repost(message);
        self.send_path.endpoint.lost(Event::Unanswered);
    }
}

fn dispatch(xprt: &SvcXprt<Connection>, bytes: &[u8], args: &Args<'_>) -> Verdict {
    let call = match call::parse(bytes, &policy(xprt.max_message())) {
        Ok(Incoming::Call(call)) => call,
        Ok(Incoming::ReverseReply(reply)) => {
            let answered = xprt.answer_callback(args, reply.xid, reply.credits, reply.payload);
            return answered.map_or(Verdict::Drop, Verdict::Answer);
        }
        Ok(Incoming::ReverseError { xid, .. }) => {
            return Verdict::Answer(AnsweredCallback::failed(xid));
        }
        Err(Rejection::Drop(_)) => return Verdict::Drop,
        Err(Rejection::Refuse(refusal, _)) => return Verdict::Refuse(refusal),
    };
    if !call.lists.is_empty() && xprt.send_path.endpoint.was_rejected(call.xid) {
        return Verdict::Refuse(call.refuse());
    }
    if call.lists.read.is_empty() {
        let shape = Shape::new(&call, bytes, call.payload);
        if fits_head(call.payload.len(), shape.reduction) {
            return Verdict::Serve(shape);
        }
    }
    match Form::of(&call, args.max_pages()) {
        Some(form) if is_whole_argument(&call, form) => Verdict::Pull(form),
        _ => Verdict::Refuse(call.refuse()),
    }
}

/// Whether a chunk that is alone in an inline message holds just an argument that may leave it. Of
/// other messages that is known when they were rebuilt.
fn is_whole_argument(call: &call::Call<'_>, form: Form) -> bool {
    let Form::Reduced { position, .. } = form else {
        return true;
    };
    let binding = Binding::of(call.payload);
    let argument = |_, after| binding.argument(call.payload.get(..position)?, after);
    call.check_arguments(argument).is_ok()
}

/// As [`is_whole_argument`], of a message that is in `pages` and starts with `head`.
fn has_whole_arguments(call: &call::Call<'_>, head: &[u8], pages: &KVec<Page>) -> bool {
    let binding = Binding::of(head);
    let argument = |position, after| {
        let position = usize::try_from(position).ok()?;
        let mut before = [0; Binding::REACH];
        let before = before.get_mut(..position.min(Binding::REACH))?;
        copy_out(pages, position.saturating_sub(before.len()), before).ok()?;
        binding.argument(before, after)
    };
    call.check_arguments(argument).is_ok()
}

fn dispatch_read(pulled: &ReadDone) -> Verdict {
    let bytes = pulled.message.bytes();
    // It was a call when it was pulled.
    let Ok(Incoming::Call(call)) = call::parse(bytes, &policy(usize::MAX)) else {
        return Verdict::Drop;
    };
    match pulled.form {
        Form::Reduced { .. } => Verdict::Serve(Shape::new(&call, bytes, call.payload)),
        Form::Whole { len } => {
            let mut head = [0; HEAD_BYTES];
            let head = head.get_mut(..len.min(HEAD_BYTES)).unwrap_or_default();
            match pulled.pages.first().map(|page| page.copy_out(0, head)) {
                Some(Ok(())) => (),
                _ => return Verdict::Fail,
            }
            // The header of the RPC stands before any chunk, so this much is as it was sent.
            if call.check_message(head).is_err() || !has_whole_arguments(&call, head, &pulled.pages)
            {
                return Verdict::Refuse(call.refuse());
            }
            Verdict::Serve(Shape::new(&call, bytes, head))
        }
    }
}

const _: () = assert!(HEAD_BYTES <= PAGE_SIZE);
