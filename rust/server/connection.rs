// SPDX-License-Identifier: GPL-2.0

//! The private state of a connected `svc_xprt`.

use super::{
    config::{
        Config,
        FIRST_CREDITS,
        REVERSE_CREDITS, //
    },
    denied::Denied,
    endpoint::{
        Endpoint,
        Work, //
    },
    listener::Incoming,
    outlet::Outlet,
    page_pool::PagePool,
    receive::{
        Args,
        Notes, //
    }, //
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
    conn::server::{
        Action,
        Event, //
    },
    plan::{
        Role,
        Thresholds, //
    },
    private,
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
    SockAddr,
    SvcCall,
    SvcCallback,
    SvcConnection,
    SvcLink,
    SvcResult,
    SvcReverseClass,
    SvcXprt, //
};

/// Calls kept for the next ones.
const IDLE_CALLS: usize = 32;

/// What finds the way back to a client that gave its server something.
pub(crate) static REVERSE: SvcReverseClass<Connection> = SvcReverseClass::new();

/// The private state of a connected `svc_xprt`.
#[pin_data]
pub(crate) struct Connection {
    pub(super) pages: Arc<PagePool>,
    /// Calls that are over, for the next ones.
    #[pin]
    pub(super) idle: SpinLock<KVec<KBox<SvcCall<Self>>>>,
    pub(super) outlet: Outlet,
    id: Arc<Id<Endpoint>>,
}

impl Connection {
    /// Makes all that a connection needs. Sleeps.
    pub(super) fn new(
        incoming: Incoming,
        link: SvcLink<Self>,
        pages: Arc<PagePool>,
        denied: Arc<Denied>,
    ) -> impl PinInit<Self, Error> {
        let made = Self::make(&incoming, link, denied);
        if made.is_err() {
            incoming.id.reject();
        }
        try_pin_init!(Self {
            pages,
            idle <- new_spinlock!(KVec::with_capacity(IDLE_CALLS, GFP_KERNEL)?, "rpcrdma::idle"),
            outlet: made?,
            id: incoming.id,
        })
    }

    fn make(incoming: &Incoming, link: SvcLink<Self>, denied: Arc<Denied>) -> Result<Outlet> {
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
        endpoint.introduce(id.remote_address()?, denied);
        endpoint.attach(link);
        let thresholds = Thresholds::negotiate(Role::Server, config.inline, endpoint.theirs);
        Ok(Outlet {
            queue,
            endpoint: endpoint.clone(),
            config,
            max: thresholds.reply,
            invalidate: private::may_invalidate(config.inline, endpoint.theirs),
        })
    }

    fn accept(&self) -> Result {
        let limits = self.id.limits()?;
        let initiator_depth = self.outlet.endpoint.read_depth.min(limits.initiator_depth);
        if initiator_depth == 0 {
            // Such a client answers no RDMA Read at all.
            return Err(EINVAL);
        }
        // RFC 8166, section 3.3.1: Receives for the first grant stand before the first Call.
        let first = FIRST_CREDITS.min(self.outlet.config.credits);
        self.outlet.grant(first, GFP_KERNEL)?;
        if self.outlet.endpoint.step(Event::Prepared) != Action::Accept {
            return Err(not_connected());
        }
        self.id.accept(&ConnectParameters {
            private_data: &self.outlet.config.inline.emit(),
            responder_resources: 0,
            initiator_depth,
            retry_count: 0,
            rnr_retry_count: 0,
        })
    }
}

impl SvcConnection for Connection {
    type Work = Work;
    type Message = Message<Endpoint>;
    type Notes = Notes;

    type Caller = Outlet;

    const REVERSE_NAME: &'static CStr = c"rdma backchannel";
    // CAST: The bit that marks such a class is the sign.
    const REVERSE_IDENT: i32 = (256_u32 | 1 << 31) as i32;
    const REVERSE_NETIDS: [&'static CStr; 2] = [c"rdma", c"rdma6"];
    const REVERSE_CREDITS: u32 = REVERSE_CREDITS;
    const REVERSE_PAYLOAD: usize = kernel::page::PAGE_SIZE - reverse::Header::WIRE_LEN;

    fn reverse_class() -> &'static SvcReverseClass<Self> {
        &REVERSE
    }

    fn caller(&self) -> Outlet {
        self.outlet.clone()
    }

    fn call(outlet: &Outlet, xid: u32, call: &SvcCallback<'_>) -> Result {
        outlet.call(xid, call)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        self.accept().inspect_err(|_| {
            self.id.reject();
            let _ = self.outlet.endpoint.step(Event::Failed);
        })
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Ok((self.id.local_address()?, self.id.remote_address()?))
    }

    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Work> {
        self.outlet.endpoint.next(|| xprt.no_data())
    }

    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Work,
        args: &mut Args<'_>,
    ) -> Option<KBox<SvcCall<Self>>> {
        match work {
            Work::Message(message) => self.take_message(xprt, message, args),
            Work::Pulled(pulled) => self.take_pulled(pulled, args),
        }
    }

    fn result_payload(&self, notes: &mut Notes, offset: usize, len: usize) {
        notes.results.add(offset, len);
    }

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        message: Message<Endpoint>,
        notes: &mut Notes,
        result: SvcResult<'_>,
    ) -> Result {
        let sent = self.send_reply(message, notes, &result);
        // What is left to read is read through pieces.
        result.restore(&mut notes.blanks);
        sent
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        self.put_away(call);
    }

    fn has_room(&self) -> bool {
        self.outlet.endpoint.has_room()
    }

    fn detach(&self) {
        let _ = self.outlet.endpoint.step(Event::Close);
        self.outlet.endpoint.abandon();
        self.id.disconnect();
    }

    fn close(&self) {
        let _ = self.outlet.endpoint.step(Event::Close);
        self.outlet.queue.shut_down();
        self.outlet.endpoint.clear();
        let _ = self.outlet.endpoint.step(Event::Drained);
    }
}
