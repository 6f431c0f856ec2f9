// SPDX-License-Identifier: GPL-2.0

//! Reception: turns messages into calls in the `svc_rqst` of an nfsd thread, replies to backchannel
//! calls, or RDMA_ERROR messages.

use super::{
    call_layout::CallLayout,
    config::RECEIVED,
    dispatch::{
        dispatch,
        dispatch_read,
        CallInfo,
        Disposition, //
    },
    responder::Responder,
    transport::{
        Args,
        ServerConn,
        ServerTransport, //
    },
    work_queue::{
        ChunkedCall,
        Work, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use rdma::receive::{
    Message,
    MessageMemory, //
};
use sunrpc::{
    SvcCall,
    SvcXprt, //
};

impl Responder<ServerTransport> {
    /// Does `work`. If that completes a call, puts the call into `args` and returns its context.
    /// Sleeps.
    pub(super) fn receive_work(
        &self,
        xprt: &SvcXprt<ServerTransport>,
        work: Work<ServerConn>,
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
        RECEIVED.add(1);
        match dispatch(self, xprt, &message, args) {
            Disposition::Execute(info) => {
                let set =
                    |args: &mut Args<'_>, memory| args.set_message(memory, info.inline.clone());
                return self.begin_call(xprt, message, &info, args, set);
            }
            Disposition::Read(layout) => {
                let complete = self.read_chunks(message, layout);
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
        read: ChunkedCall<ServerConn>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<ServerTransport>>> {
        let disposition = dispatch_read(&self.send_path.connection, &read);
        let ChunkedCall {
            message,
            layout,
            mut pages,
            permit,
            ..
        } = read;
        let info = match disposition {
            Disposition::Execute(info) => info,
            disposition => {
                self.page_pool.keep(pages);
                self.send_path.connection.release_read_permit(permit);
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
        self.send_path.connection.release_read_permit(permit);
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
        let Some(mut call) = xprt.take_call() else {
            self.close_unanswered(message);
            return None;
        };
        let (memory, number) = match self.lend(message) {
            Ok(lent) => lent,
            Err(message) => {
                self.close_unanswered(message);
                return None;
            }
        };
        if let Err(memory) = set(args, memory) {
            if let Some(message) = self.take_back(memory, number) {
                self.close_unanswered(message);
            }
            return None;
        }
        let context = &mut call.context;
        context.lent = number;
        context.chunkless_xid = info.chunkless_xid;
        context.reduction = info.reduction;
        let pages = self.max_reply_pages(info.write_chunk_bytes);
        if args
            .save_reply_pages(&mut context.saved_pages, pages)
            .is_err()
        {
            context.saved_pages.clear();
        }
        Some(call)
    }

    /// Returns the most pages of a reply whose Write chunks have `write_chunk_bytes`: enough for
    /// these or for an inline reply, and two more, as the data may begin within a page. The client
    /// chooses the length of the chunks, but no more pages are saved than the thread has, which
    /// suffices for the longest payload that nfsd returns. An inline reply needs few pages, and
    /// only a call without READ needs fewer, which its operations would have to tell.
    fn max_reply_pages(&self, write_chunk_bytes: u64) -> usize {
        usize::try_from(write_chunk_bytes)
            .unwrap_or(usize::MAX)
            .max(self.send_path.inline_threshold)
            .div_ceil(PAGE_SIZE)
            .saturating_add(2)
    }
}
