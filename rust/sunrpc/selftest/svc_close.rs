// SPDX-License-Identifier: GPL-2.0

//! Tests of how a connection of the server ends, without a service and without a network.

use super::{
    buffers::Nothing,
    Test, //
};
use crate::{
    svc_ops,
    svc_queue::WorkQueue,
    svc_work::connection_functions,
    HasSvcCall,
    SockAddr,
    SvcArgs,
    SvcBackchannelClass,
    SvcCall,
    SvcCallback,
    SvcClass,
    SvcConnection,
    SvcResult,
    SvcXprt, //
};
use core::{
    ptr::null_mut,
    sync::atomic::{
        AtomicUsize,
        Ordering::Relaxed, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[(
    "a connection ends when it is closed, also if its transport waits for a thread",
    busy_transport_is_disconnected,
)];

/// How often a method was called.
#[derive(Default)]
struct Calls {
    detach: AtomicUsize,
    close: AtomicUsize,
}

/// A connection to nobody.
struct Nobody(Arc<Calls>);

static BACKCHANNEL: SvcBackchannelClass<Nobody> = SvcBackchannelClass::new();

// SAFETY: It is not registered.
static CLASS: SvcClass<Nobody> =
    unsafe { SvcClass::with_ops(c"nobody", 0, 0, svc_ops::connection::<Nobody>()) };

impl HasSvcCall for Nobody {
    type Message = Nothing;
    type CallContext = ();
}

impl SvcConnection for Nobody {
    type Listener = ();
    type Work = ();
    type Caller = ();

    const BACKCHANNEL_NAME: &'static CStr = c"nobody";
    const BACKCHANNEL_IDENT: i32 = 0;
    const BACKCHANNEL_NETIDS: [&'static CStr; 2] = [c"", c""];
    const BACKCHANNEL_CREDITS: u32 = 1;
    const BACKCHANNEL_PAYLOAD: usize = 0;

    fn backchannel_class() -> &'static SvcBackchannelClass<Self> {
        &BACKCHANNEL
    }

    fn caller(&self) {}

    fn call((): &(), _xid: u32, _call: &SvcCallback<'_>) -> Result {
        Err(EAGAIN)
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        Ok(())
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Err(ENODEV)
    }

    fn next(&self, _xprt: &SvcXprt<Self>) -> Option<()> {
        None
    }

    fn receive(
        &self,
        _xprt: &SvcXprt<Self>,
        (): (),
        _args: &mut SvcArgs<'_, Nothing>,
    ) -> Option<KBox<SvcCall<Self>>> {
        None
    }

    fn result_payload(&self, (): &mut (), _offset: usize, _len: usize) {}

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        _message: Nothing,
        (): &mut (),
        _result: SvcResult<'_>,
    ) -> Result {
        Err(ENODEV)
    }

    fn release(&self, call: KBox<SvcCall<Self>>) {
        drop(call);
    }

    fn timer_expired(&self, _xprt: &SvcXprt<Self>) {}

    fn detach(&self) {
        self.0.detach.fetch_add(1, Relaxed);
    }

    fn close(&self) {
        self.0.close.fetch_add(1, Relaxed);
    }
}

fn busy_transport_is_disconnected() -> Result<bool> {
    // No class is registered yet, so there is no other. It is dropped when nothing is queued any more.
    let queue = WorkQueue::new()?;
    let calls = Arc::new(Calls::default(), GFP_KERNEL)?;
    let nobody = Nobody(calls.clone());
    // SAFETY: The class and the operations are static, and the first namespace is never freed. A transport that no service has is on
    // no list, and nothing of it asks for its service. The functions are those for `Nobody`.
    let xprt = unsafe {
        SvcXprt::create(
            CLASS.as_raw(),
            svc_ops::connection::<Nobody>(),
            &raw mut raw::init_net,
            null_mut(),
            connection_functions::<Nobody>(),
            |_link| Ok(nobody),
        )
    }?;
    // `svc_xprt_init` has set `XPT_BUSY`, as if a thread were to come. None does.
    // SAFETY: `create` made it, with the reference that is put below.
    unsafe { xprt.as_ref() }.close_later();
    let detached = (0..500).any(|_| {
        fsleep(Delta::from_millis(10));
        calls.detach.load(Relaxed) == 1
    });
    let is_there = calls.close.load(Relaxed) == 0;
    // SAFETY: As above. It is not used any more.
    unsafe { raw::svc_xprt_put(xprt.as_ptr().cast()) };
    drop(queue);
    Ok(detached && is_there && calls.close.load(Relaxed) == 1)
}
