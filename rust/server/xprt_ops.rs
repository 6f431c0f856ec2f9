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
        ServerConn,
        ServerTransport, //
    },
    work_queue::Work, //
};
use kernel::prelude::*;
use proto::reverse;
use rdma::{
    error::not_connected,
    receive::MessageMemory, //
};
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
    type Message = MessageMemory;
    type CallContext = CallContext;
}

impl SvcConnection for ServerTransport {
    type Listener = Listener;
    type Work = Work<ServerConn>;
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

    fn caller(&self) -> Option<SendPath<Self>> {
        self.send_path()
    }

    fn call(send_path: &SendPath<Self>, xid: u32, call: &SvcCallback<'_>) -> Result {
        send_path.send_backchannel_call(xid, call)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        self.responder().ok_or_else(not_connected)?.start()
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        self.responder().ok_or_else(not_connected)?.addresses()
    }

    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Work<ServerConn>> {
        self.connection.next_work(|| xprt.no_data())
    }

    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Work<ServerConn>,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        // If the connection has ended, there is nobody to answer.
        self.responder()?.receive_work(xprt, work, args)
    }

    fn result_payload(&self, context: &mut CallContext, offset: usize, len: usize) {
        context.results.add(offset, len);
    }

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        message: MessageMemory,
        context: &mut CallContext,
        result: SvcResult<'_>,
    ) -> Result {
        let sent = self
            .responder()
            .ok_or_else(not_connected)
            .and_then(|responder| responder.send_reply(message, context, &result))
            .inspect_err(|error| self.connection.trace_send_error(result.xid(), *error));
        // From here on the result is read through pieces that own references to its pages.
        result.restore(&mut context.saved_pages);
        sent
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        self.release_call(call);
    }

    fn timer_expired(&self, _xprt: &SvcXprt<Self>) {
        let Some(responder) = self.responder() else {
            return;
        };
        let SendPath {
            connection, queue, ..
        } = &responder.send_path;
        // Completions serve the waiters. If one were missed, nothing else would.
        connection.retry_waiters(queue);
        connection.watchdog_expired(queue);
        responder.send_path.shrink_work();
        if !connection.is_watched() {
            queue.free_idle_read_mrs();
            responder.free_spares();
            self.drop_free_calls();
        }
    }

    fn detach(&self) {
        if let Some(responder) = self.responder() {
            responder.disconnect();
        }
    }

    fn close(&self) {
        self.drop_responder();
    }
}
