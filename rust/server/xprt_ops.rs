// SPDX-License-Identifier: GPL-2.0

//! The `svc_xprt_ops` of a connection, and the class of its backchannel.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).

use super::{
    call_context::CallContext,
    listener::Listener,
    queue_limits::BACKCHANNEL_CREDITS,
    send::SendPath,
    transport::{
        Args,
        Connection,
        ServerTransport, //
    },
    work_queue::Work,
};
use kernel::prelude::*;
use proto::reverse;
use rdma::receive::Message;
use sunrpc::{
    HasSvcCall,
    SockAddr,
    SvcBackchannelClass,
    SvcCall,
    SvcCallback,
    SvcConnection,
    SvcResult,
    SvcXprt, //
};

/// The transport class for backchannel calls, which NFS makes over the connection of a client that
/// may have to return a delegation or a layout.
pub(crate) static BACKCHANNEL: SvcBackchannelClass<ServerTransport> = SvcBackchannelClass::new();

impl HasSvcCall for ServerTransport {
    type Message = Message<Connection>;
    type CallContext = CallContext;
}

impl SvcConnection for ServerTransport {
    type Listener = Listener;
    type Work = Work<Connection>;
    type Caller = SendPath<Self>;

    const BACKCHANNEL_NAME: &'static CStr = c"rdma backchannel";
    // CAST: `XPRT_TRANSPORT_BC` is the sign bit.
    const BACKCHANNEL_IDENT: i32 = (256_u32 | 1 << 31) as i32;
    const BACKCHANNEL_NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const BACKCHANNEL_CREDITS: u32 = BACKCHANNEL_CREDITS;
    const BACKCHANNEL_PAYLOAD: usize = kernel::page::PAGE_SIZE - reverse::Header::WIRE_LEN;

    fn backchannel_class() -> &'static SvcBackchannelClass<Self> {
        &BACKCHANNEL
    }

    fn caller(&self) -> SendPath<Self> {
        self.send_path.clone()
    }

    fn call(send_path: &SendPath<Self>, xid: u32, call: &SvcCallback<'_>) -> Result {
        send_path.send_backchannel_call(xid, call)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        ServerTransport::start(self)
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        ServerTransport::addresses(self)
    }

    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Work<Connection>> {
        self.send_path.connection.next_work(|| xprt.no_data())
    }

    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Work<Connection>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        self.receive_work(xprt, work, args)
    }

    fn result_payload(&self, context: &mut CallContext, offset: usize, len: usize) {
        context.results.add(offset, len);
    }

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        message: Message<Connection>,
        context: &mut CallContext,
        result: SvcResult<'_>,
    ) -> Result {
        let sent = self
            .send_reply(message, context, &result)
            .inspect_err(|error| {
                let connection = &self.send_path.connection;
                connection.trace_send_error(result.xid(), *error);
            });
        // From here on the result is read through pieces that have references to its pages.
        result.restore(&mut context.saved_pages);
        sent
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        self.release_call(call);
    }

    fn timer_expired(&self, _xprt: &SvcXprt<Self>) {
        let SendPath {
            connection, queue, ..
        } = &self.send_path;
        // What waits is served by completions. If one were missed, nothing else would come.
        connection.resume_waiting(queue);
        connection.check_progress(queue);
        self.send_path.shrink_work();
        if !connection.is_watched() {
            queue.give_up_sinks();
            self.give_up_calls();
        }
    }

    fn detach(&self) {
        self.disconnect();
    }

    fn close(&self) {
        self.drain();
    }
}
