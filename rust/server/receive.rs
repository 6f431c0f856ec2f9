// SPDX-License-Identifier: GPL-2.0

//! Reception: decides about each message, and turns it into a call in the `svc_rqst` of an nfsd
//! thread, the reply to a backchannel call, or an RDMA_ERROR message.
//!
//! RFC 8166, sections 3.4.5 and 4.5; RFC 8167 for replies to backchannel calls.

use super::{
    call::{
        copy_out,
        fits_head,
        policy,
        CallLayout,
        ParsedCall, //
    },
    transport::Args,
    work_queue::Work, //
};
use crate::prelude::*;
use core::ops::{
    Range,
    RangeInclusive, //
};
use proto::{
    call::Outline,
    rdma_error::ErrorMessage,
    reply_builder,
    rpc::CallHeader,
    upper_layer_binding::Binding, //
};
use sunrpc::{
    SvcCall,
    SvcCallbackReply, //
};

impl Responder {
    /// Does `work`. If that completes a call, puts the call into `args` and returns its context.
    /// Sleeps.
    pub(super) fn receive_work(
        &self,
        xprt: &SvcXprt<ServerTransport>,
        work: Work,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<ServerTransport>>> {
        match work {
            Work::Received(message) => self.receive_message(xprt, message, args),
            Work::ReadDone(read) => {
                let queue = &self.send_path.queue;
                trace::event!(svcrdma_read_finished(read.message.id(queue)));
                self.receive_read(xprt, read, args)
            }
            Work::Reads(reads) => {
                let complete = self.try_read(reads);
                complete.and_then(|read| self.receive_read(xprt, read, args))
            }
        }
    }

    fn receive_message(
        &self,
        xprt: &SvcXprt<ServerTransport>,
        message: Message<ServerConn>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<ServerTransport>>> {
        config::RECEIVED.add(1);
        match dispatch(self, xprt, &message, args) {
            Disposition::Execute(info) => {
                let set =
                    |args: &mut Args<'_>, memory| args.set_message(memory, info.inline.clone());
                return self.begin_call(xprt, message, &info, args, set);
            }
            Disposition::Read(layout, outline) => {
                let complete = self.read_chunks(message, layout, outline);
                return complete.and_then(|read| self.receive_read(xprt, read, args));
            }
            Disposition::Drop => self.repost(message),
            Disposition::BackchannelReply(answered) => {
                self.repost(message);
                xprt.complete_callback(args, answered);
            }
            Disposition::SendError(error) => self.send_error(message, &error),
            Disposition::Close => self.close_unanswered(message),
        }
        None
    }

    /// Receives a call whose RDMA Reads have completed, or that needs none.
    fn receive_read(
        &self,
        xprt: &SvcXprt<ServerTransport>,
        read: WithMessage<ChunkedCall>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<ServerTransport>>> {
        let disposition = dispatch_read(&self.send_path.connection, &read);
        let WithMessage { message, state } = read;
        let ChunkedCall {
            layout,
            mut pages,
            permit,
            ..
        } = state;
        let info = match disposition {
            Disposition::Execute(info) => info,
            disposition => {
                self.page_pool.keep(pages);
                drop(permit);
                match disposition {
                    Disposition::SendError(error) => self.send_error(message, &error),
                    Disposition::Close => self.close_unanswered(message),
                    _ => self.repost(message),
                }
                return None;
            }
        };
        // Exchanges the pages for pages of the thread, which so keeps their number.
        let set = |args: &mut Args<'_>, memory| match layout {
            CallLayout::ReadChunk { position, len } => {
                args.set_reduced(memory, info.inline.clone(), position, &mut pages, len)
            }
            CallLayout::PayloadStream { len } => args.set_pages(memory, &mut pages, len),
        };
        let call = self.begin_call(xprt, message, &info, args, set);
        self.page_pool.keep(pages);
        // After that, as a call that waits for pages is retried.
        drop(permit);
        call
    }

    /// Begins the execution of the call in `message` with the properties `info`, which `set` puts
    /// into `args`. Returns its context.
    fn begin_call(
        &self,
        xprt: &SvcXprt<ServerTransport>,
        message: Message<ServerConn>,
        info: &CallInfo,
        args: &mut Args<'_>,
        set: impl FnOnce(&mut Args<'_>, MessageMemory) -> Result<(), MessageMemory>,
    ) -> Option<KBox<SvcCall<ServerTransport>>> {
        let Some(mut call) = xprt.take_free_call().or_else(|| self.new_call()) else {
            self.close_unanswered(message);
            return None;
        };
        let context = &mut call.context;
        let memory = context.lend(message);
        if let Err(memory) = set(args, memory) {
            if let Some(message) = context.take_back(memory) {
                self.close_unanswered(message);
            }
            xprt.release_call(call);
            return None;
        }
        context.parsed = info.parsed;
        context.reduction = info.reduction;
        let pages = self.reply_pages(info.write_chunk_bytes);
        if args
            .save_reply_pages(&mut context.saved_pages, pages)
            .is_err()
        {
            context.saved_pages.clear();
        }
        Some(call)
    }

    /// Returns the fewest and the most pages of a reply whose Write chunks have
    /// `write_chunk_bytes`: enough for these or for an inline reply, and two more, as the data may
    /// begin within a page. Only the operations of a call without a Write chunk would tell whether
    /// its reply has data. The client chooses the length of the chunks, but no more pages are saved
    /// than the thread has, which suffices for the longest payload that nfsd returns.
    fn reply_pages(&self, write_chunk_bytes: u64) -> RangeInclusive<usize> {
        let pages = |bytes: usize| bytes.div_ceil(PAGE_SIZE).saturating_add(2);
        let bytes = usize::try_from(write_chunk_bytes).unwrap_or(usize::MAX);
        let most = pages(bytes.max(self.send_path.inline_threshold));
        match write_chunk_bytes {
            0 => 1..=most,
            _ => most..=most,
        }
    }
}

/// An upper bound for the length of an RPC call header.
const MAX_RPC_HEADER_BYTES: usize = 1024;

const _: () = assert!(MAX_RPC_HEADER_BYTES <= PAGE_SIZE);

/// The properties of a call that are needed after the borrow of its message has ended.
pub(super) struct CallInfo {
    /// The range of the message that holds the Payload stream, or its inline part.
    pub(super) inline: Range<usize>,
    /// The part of it that the reply depends on.
    pub(super) parsed: ParsedCall,
    /// Whether results may be reduced (RFC 8166, section 3.4).
    pub(super) reduction: bool,
    /// The length of the longest Write chunk, or zero if the call can have no DDP-eligible result.
    pub(super) write_chunk_bytes: u64,
}

impl CallInfo {
    /// Returns the properties of `call`, which came in `message` and whose Payload stream begins
    /// with `head`.
    fn new(call: &call::Call<'_>, message: &[u8], head: &[u8]) -> Self {
        let chunks = call.lists.write.iter().map(|chunk| chunk.total());
        // If the procedure has no DDP-eligible result, the length of a Write chunk is irrelevant.
        let longest = chunks.max().filter(|_| Binding::has_results(head));
        Self {
            // The part that follows the transport header.
            inline: message.len().saturating_sub(call.payload.len())..message.len(),
            parsed: ParsedCall::of(call),
            reduction: CallHeader::parse(head).is_some_and(|header| header.reduction),
            write_chunk_bytes: longest.unwrap_or(0),
        }
    }
}

/// A decision about a message.
pub(super) enum Disposition {
    /// The call is complete: nfsd executes it.
    Execute(CallInfo),
    /// The Read chunks of the call must be read first.
    Read(CallLayout, Outline),
    /// The message is dropped without a reply.
    Drop,
    /// The message is the reply to a backchannel call, or an error in place of it.
    BackchannelReply(SvcCallbackReply),
    /// The reply is an RDMA_ERROR message.
    SendError(ErrorMessage),
    /// Memory is short. The client must send the call again, over another connection.
    Close,
}

/// Decides about `message`, which `responder` of `xprt` has just received.
fn dispatch(
    responder: &Responder,
    xprt: &SvcXprt<ServerTransport>,
    message: &Message<ServerConn>,
    args: &Args<'_>,
) -> Disposition {
    let bytes = message.bytes();
    let call = match call::parse(bytes, &policy(xprt.max_message())) {
        Ok(call::Incoming::Call(call)) => {
            trace_decoded(responder, message, call.payload);
            let connection = &responder.send_path.connection;
            connection.credits.request(call.credits);
            connection.note_call(message);
            call
        }
        Ok(call::Incoming::ReverseReply(reply)) => {
            trace_decoded(responder, message, reply.payload);
            let answered = xprt.copy_callback_reply(args, reply.xid, reply.credits, reply.payload);
            if answered.is_none() {
                let xid = reply.xid;
                responder.send_path.connection.note_malformed(message);
                responder.send_path.connection.log_message(|client| {
                    pr_info!("dropped a reply of {client} to the callback {xid:#010x}, which does not wait for one\n");
                });
            }
            return answered.map_or(Disposition::Drop, Disposition::BackchannelReply);
        }
        Ok(call::Incoming::ReverseError { xid, kind, .. }) => {
            // It is unknown here whether there is such a callback.
            responder.send_path.connection.note_malformed(message);
            responder.send_path.connection.log_message(|client| {
                pr_info!("{client} refuses the callback {xid:#010x}: {kind:?}\n");
            });
            return Disposition::BackchannelReply(SvcCallbackReply::failed(xid));
        }
        Err(call::Rejection::Drop(reason)) => {
            let SendPath {
                queue, connection, ..
            } = &responder.send_path;
            connection.note_dropped(queue, message, reason);
            return Disposition::Drop;
        }
        Err(call::Rejection::Refuse(error, reason)) => {
            let id = message.id(&responder.send_path.queue);
            let connection = &responder.send_path.connection;
            config::BAD_CALLS.add(1);
            connection.note_malformed(message);
            connection.log_message(|client| {
                let xid = error.xid;
                pr_info!("refused the call {xid:#010x} of {client}: {reason:?}\n");
            });
            match reason {
                call::Reason::Version(_) => trace::event!(svcrdma_decode_badvers_err(id, bytes)),
                call::Reason::Procedure(_) => trace::event!(svcrdma_decode_badproc_err(id, bytes)),
                _ => trace::event!(svcrdma_decode_parse_err(id, bytes)),
            }
            return Disposition::SendError(error);
        }
    };
    let connection = &responder.send_path.connection;
    if !call.lists.is_empty() && connection.was_denied(call.xid) {
        return refuse(connection, &call, c"its chunks were denied before");
    }
    let threshold = responder.send_path.inline_threshold;
    if !call.lists.is_empty() && !reply_builder::can_reply(&call, threshold) {
        return refuse(connection, &call, c"its chunks leave no room for a reply");
    }
    if call.lists.read.is_empty() {
        let info = CallInfo::new(&call, bytes, call.payload);
        if fits_head(call.payload.len(), info.reduction) {
            return Disposition::Execute(info);
        }
    }
    match CallLayout::of(&call, args.max_pages()) {
        Some(layout) if chunk_is_argument(&call, layout) => {
            Disposition::Read(layout, call.outline())
        }
        _ => refuse(
            connection,
            &call,
            c"its Read chunks are no arguments, or too long",
        ),
    }
}

/// Counts and logs that `call` is refused for this `reason`, and returns that disposition.
fn refuse(connection: &ServerConn, call: &call::Call<'_>, reason: &CStr) -> Disposition {
    config::BAD_CALLS.add(1);
    let xid = call.xid;
    connection
        .log_message(|client| pr_info!("refused the call {xid:#010x} of {client}: {reason}\n"));
    Disposition::SendError(call.refuse())
}

/// Traces the header of `message`, which precedes `payload`.
fn trace_decoded(responder: &Responder, message: &Message<ServerConn>, payload: &[u8]) {
    trace::event!(svcrdma_decode_rqst(
        message.id(&responder.send_path.queue),
        message.bytes(),
        message.bytes().len().saturating_sub(payload.len())
    ));
}

/// Decides about `read`, whose RDMA Reads have completed.
fn dispatch_read(connection: &ServerConn, read: &WithMessage<ChunkedCall>) -> Disposition {
    let ChunkedCall {
        layout,
        outline,
        pages,
        ..
    } = &read.state;
    let bytes = read.message.bytes();
    let Some(call) = outline.call(bytes) else {
        return Disposition::Close;
    };
    let CallLayout::PayloadStream { len } = *layout else {
        return Disposition::Execute(CallInfo::new(&call, bytes, call.payload));
    };
    let mut head = [0; MAX_RPC_HEADER_BYTES];
    let head = head
        .get_mut(..len.min(MAX_RPC_HEADER_BYTES))
        .unwrap_or_default();
    match pages.first().map(|page| page.copy_out(0, head)) {
        Some(Ok(())) => (),
        _ => return Disposition::Close,
    }
    // The RPC header precedes all chunks, so the Payload stream has it as the client sent it.
    if call.check_message(head).is_err() || !chunks_are_arguments(&call, head, pages) {
        return refuse(connection, &call, c"its Read chunks are no arguments");
    }
    Disposition::Execute(CallInfo::new(&call, bytes, head))
}

/// Returns whether the only Read chunk of an inline message is one DDP-eligible argument. For a
/// call whose Payload stream is reassembled, [`chunks_are_arguments`] decides later.
fn chunk_is_argument(call: &call::Call<'_>, layout: CallLayout) -> bool {
    let CallLayout::ReadChunk { position, .. } = layout else {
        return true;
    };
    let binding = Binding::of(call.payload);
    let argument = |_, after| binding.argument(call.payload.get(..position)?, after);
    call.check_arguments(argument).is_ok()
}

/// Returns whether each Read chunk is one DDP-eligible argument of the call whose Payload stream is
/// in `pages` and begins with `head`.
fn chunks_are_arguments(call: &call::Call<'_>, head: &[u8], pages: &[Page]) -> bool {
    let binding = Binding::of(head);
    let argument = |position, after| {
        let position = usize::try_from(position).ok()?;
        let mut before = [0; Binding::MAX_LOOKBEHIND];
        let before = before.get_mut(..position.min(Binding::MAX_LOOKBEHIND))?;
        copy_out(pages, position.saturating_sub(before.len()), before).ok()?;
        binding.argument(before, after)
    };
    call.check_arguments(argument).is_ok()
}
