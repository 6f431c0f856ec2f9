// SPDX-License-Identifier: GPL-2.0

//! The private state of a connected `svc_xprt`.

use super::{
    config::{
        Config,
        BACKCHANNEL_CREDITS, //
        FIRST_CREDITS,
    },
    endpoint::{
        Endpoint,
        Work, //
    },
    listener::Incoming,
    page_pool::PagePool,
    receive::{
        Args,
        CallContext, //
    }, //
    rejected_calls::RejectedCalls,
    send::SendPath,
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use proto::{
    cm_private_data,
    conn::server::{
        Action,
        Event, //
    },
    plan::{
        Role,
        Thresholds, //
    },
    reverse, //
};
use rdma::{
    cm::{
        ConnectParameters,
        Id, //
    },
    error::not_connected,
    receive::Message,
    ProtectionDomain,
    QueuePair, //
};
use sunrpc::{
    HasSvcCall,
    SockAddr,
    SvcBackchannelClass,
    SvcCall,
    SvcCallback,
    SvcConnection,
    SvcLink,
    SvcResult,
    SvcXprt, //
};

/// Calls kept for the next ones.
const IDLE_CALLS: usize = 32;

/// What finds the way back to a client that gave its server something.
pub(crate) static BACKCHANNEL: SvcBackchannelClass<Connection> = SvcBackchannelClass::new();

/// The private state of a connected `svc_xprt`.
#[pin_data]
pub(crate) struct Connection {
    pub(super) pages: Arc<PagePool>,
    /// Calls that are over, for the next ones.
    #[pin]
    pub(super) idle: SpinLock<KVec<KBox<SvcCall<Self>>>>,
    pub(super) send_path: SendPath,
    id: Arc<Id<Endpoint>>,
}

impl Connection {
    /// Makes all that a connection needs. Sleeps.
    pub(super) fn new(
        incoming: Incoming,
        link: SvcLink<Self>,
        pages: Arc<PagePool>,
        rejected_calls: Arc<RejectedCalls>,
    ) -> impl PinInit<Self, Error> {
        let made = Self::make(&incoming, link, rejected_calls);
        if made.is_err() {
            incoming.id.reject();
        }
        try_pin_init!(Self {
            pages,
            idle <- new_spinlock!(KVec::with_capacity(IDLE_CALLS, GFP_KERNEL)?, "rpcrdma::idle"),
            send_path: made?,
            id: incoming.id,
        })
    }

    fn make(
        incoming: &Incoming,
        link: SvcLink<Self>,
        rejected_calls: Arc<RejectedCalls>,
    ) -> Result<SendPath> {
        let Incoming { id, endpoint } = incoming;
        let mut config = Config::new(&id.limits()?)?;
        let pd = ProtectionDomain::new(id.clone())?;
        let queue = loop {
            match QueuePair::new(id.clone(), pd.clone(), &config.parameters()?) {
                // Its limits promised more than it has.
                Err(EINVAL | ENOMEM) if config.credits > FIRST_CREDITS => {
                    config.halve();
                }
                made => break made?,
            }
        };
        endpoint.introduce(id.remote_address()?, rejected_calls);
        endpoint.attach(link);
        let thresholds = Thresholds::negotiate(Role::Server, config.inline, endpoint.theirs);
        Ok(SendPath {
            queue,
            endpoint: endpoint.clone(),
            config,
            max: thresholds.reply,
            invalidate: cm_private_data::may_invalidate(config.inline, endpoint.theirs),
        })
    }

    fn accept(&self) -> Result {
        let limits = self.id.limits()?;
        let initiator_depth = self
            .send_path
            .endpoint
            .read_depth
            .min(limits.initiator_depth);
        if initiator_depth == 0 {
            // Such a client answers no RDMA Read at all.
            return Err(EINVAL);
        }
        // RFC 8166, section 3.3.1: Receives for the first grant stand before the first Call.
        let first = FIRST_CREDITS.min(self.send_path.config.credits);
        self.send_path.grant(first, GFP_KERNEL)?;
        if self.send_path.endpoint.step(Event::Prepared) != Action::Accept {
            return Err(not_connected());
        }
        self.id.accept(&ConnectParameters {
            private_data: &self.send_path.config.inline.emit(),
            responder_resources: 0,
            initiator_depth,
            retry_count: 0,
            rnr_retry_count: 0,
        })
    }
}

impl HasSvcCall for Connection {
    type Message = Message<Endpoint>;
    type CallContext = CallContext;
}

impl SvcConnection for Connection {
    type Work = Work;
    type Caller = SendPath;

    const BACKCHANNEL_NAME: &'static CStr = c"rdma backchannel";
    // CAST: The bit that marks such a class is the sign.
    const BACKCHANNEL_IDENT: i32 = (256_u32 | 1 << 31) as i32;
    const BACKCHANNEL_NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const BACKCHANNEL_CREDITS: u32 = BACKCHANNEL_CREDITS;
    const BACKCHANNEL_PAYLOAD: usize = kernel::page::PAGE_SIZE - reverse::Header::WIRE_LEN;

    fn backchannel_class() -> &'static SvcBackchannelClass<Self> {
        &BACKCHANNEL
    }

    fn caller(&self) -> SendPath {
        self.send_path.clone()
    }

    fn call(send_path: &SendPath, xid: u32, call: &SvcCallback<'_>) -> Result {
        send_path.call(xid, call)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        self.accept().inspect_err(|_| {
            self.id.reject();
            let _ = self.send_path.endpoint.step(Event::Failed);
        })
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Ok((self.id.local_address()?, self.id.remote_address()?))
    }

    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Work> {
        self.send_path.endpoint.next(|| xprt.no_data())
    }

    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Work,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        match work {
            Work::Message(message) => self.take_message(xprt, message, args),
            Work::ReadDone(pulled) => self.take_pulled(pulled, args),
        }
    }

    fn result_payload(&self, context: &mut CallContext, offset: usize, len: usize) {
        context.results.add(offset, len);
    }

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        message: Message<Endpoint>,
        context: &mut CallContext,
        result: SvcResult<'_>,
    ) -> Result {
        let sent = self.send_reply(message, context, &result);
        // What is left to read is read through pieces.
        result.restore(&mut context.saved_pages);
        sent
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        self.put_away(call);
    }

    fn has_room(&self) -> bool {
        self.send_path.endpoint.has_room()
    }

    fn detach(&self) {
        let _ = self.send_path.endpoint.step(Event::Close);
        self.send_path.endpoint.abandon();
        self.id.disconnect();
    }

    fn close(&self) {
        let _ = self.send_path.endpoint.step(Event::Close);
        self.send_path.queue.drain();
        self.send_path.endpoint.clear();
        let _ = self.send_path.endpoint.step(Event::Drained);
    }
}
