// SPDX-License-Identifier: GPL-2.0

//! Tests of how a connection of the server ends, or does not begin, without a service and without a
//! network.

use super::{
    buffers::EmptyMessage,
    echo::{
        Caller,
        NO_MODULE, //
    },
    Test, //
};
use crate::prelude::*;
use crate::{
    svc::{
        transport::connection_ops,
        xprt::{
            connection_functions,
            listener_functions, //
        }, //
    },
    task,
    workqueue::SERVER,
    HasSvcCall,
    Net,
    SvcArgs,
    SvcBackchannelClass,
    SvcCall,
    SvcCallback,
    SvcClass,
    SvcListener,
    SvcResult,
    WeakSvcXprt, //
};
use core::{
    ptr::null_mut,
    sync::atomic::{
        AtomicUsize,
        Ordering::Relaxed, //
    }, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    (
        "a connection that is closed gives up its device, though its transport is busy",
        busy_transport_gives_up_its_device,
    ),
    (
        "the listener hears of each peer that is not accepted, whatever keeps it from that",
        listener_hears_of_rejected_peers,
    ),
    (
        "a callback that the client cannot receive fails, whichever task is sending",
        callback_that_is_too_long_fails_alone,
    ),
    (
        "a service thread that has the device of a connection waits for no file system",
        service_threads_wait_for_no_file_system,
    ),
];

/// The longest callback that [`TestConnection`] could send.
const LONGEST_CALLBACK: usize = 8;

/// The number of calls of each method.
#[derive(Default)]
struct Calls {
    detach: AtomicUsize,
    close: AtomicUsize,
    /// Those of `next` and `reply` of a connection, and of `next` of a listener, in a scope without
    /// file systems.
    without_fs: AtomicUsize,
}

impl Calls {
    fn note_scope(&self) {
        // SAFETY: The first function sets a flag of this task and says whether that was clear, and
        // the second one restores it.
        let was_clear = unsafe {
            let was_clear = cbindings::memalloc_nofs_save();
            cbindings::memalloc_nofs_restore(was_clear);
            was_clear
        };
        if was_clear == 0 {
            self.without_fs.fetch_add(1, Relaxed);
        }
    }
}

/// A connection to nobody.
struct TestConnection(Arc<Calls>);

static BACKCHANNEL: SvcBackchannelClass<TestConnection> = SvcBackchannelClass::new();

// SAFETY: It is not registered.
static CLASS: SvcClass<TestConnection> =
    unsafe { SvcClass::with_ops(c"selftest", 0, 0, connection_ops::<TestConnection>()) };

impl HasSvcCall for TestConnection {
    type Message = EmptyMessage;
    type CallContext = ();
}

impl SvcConnection for TestConnection {
    type Listener = ();
    type Work = ();
    type Caller = ();

    const BACKCHANNEL_NAME: &'static CStr = c"selftest";
    // CAST: `XPRT_TRANSPORT_BC` is the sign bit.
    const BACKCHANNEL_IDENT: i32 = (0x7e58_u32 | 1 << 31) as i32;
    const BACKCHANNEL_NETIDS: [&'static CStr; 2] = [c"", c""];
    const BACKCHANNEL_CREDITS: u32 = 1;
    const BACKCHANNEL_PAYLOAD: usize = 0;

    fn backchannel_class() -> &'static SvcBackchannelClass<Self> {
        &BACKCHANNEL
    }

    fn caller(&self) -> Option<()> {
        Some(())
    }

    fn call((): &(), _xid: u32, call: &SvcCallback<'_>) -> Result {
        match call.len() {
            ..=LONGEST_CALLBACK => Err(EAGAIN),
            _ => Err(EMSGSIZE),
        }
    }

    fn start(&self, _xprt: &SvcXprt<Self>) -> Result {
        Ok(())
    }

    fn addresses(&self) -> Result<(SockAddr, SockAddr)> {
        Err(ENODEV)
    }

    fn next(&self, _xprt: &SvcXprt<Self>) -> Option<()> {
        self.0.note_scope();
        None
    }

    fn receive(
        &self,
        _xprt: &SvcXprt<Self>,
        (): (),
        _args: &mut SvcArgs<'_, EmptyMessage>,
    ) -> Option<KBox<SvcCall<Self>>> {
        None
    }

    fn result_payload(&self, (): &mut (), _offset: usize, _len: usize, _pages: usize) {}

    fn reply(
        &self,
        _xprt: &SvcXprt<Self>,
        _message: EmptyMessage,
        (): &mut (),
        _result: SvcResult<'_>,
    ) -> Result {
        self.0.note_scope();
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

/// A listener with as many peers as `peers` says.
struct TestListener {
    calls: Arc<Calls>,
    peers: AtomicUsize,
    rejected: AtomicUsize,
}

static LISTENER_CLASS: SvcClass<TestListener> = SvcClass::new();

impl SvcListener for TestListener {
    type Connection = TestConnection;
    /// The number of the peer.
    type Incoming = usize;

    const NAME: &'static CStr = c"selftest";
    const IDENT: i32 = 0;
    const MAX_PAYLOAD: u32 = 0;

    fn class() -> &'static SvcClass<Self> {
        &LISTENER_CLASS
    }

    fn new(_link: WeakSvcXprt<Self>) -> impl PinInit<Self, Error> {
        Err::<Self, _>(ENODEV)
    }

    fn listen(&self, _net: Net, _address: &SockAddr) -> Result<SockAddr> {
        Err(ENODEV)
    }

    fn next(&self) -> (Option<usize>, bool) {
        self.calls.note_scope();
        let peers = self.peers.load(Relaxed);
        self.peers.store(peers.saturating_sub(1), Relaxed);
        ((peers != 0).then_some(peers), peers > 1)
    }

    fn peer(_incoming: &usize) -> Result<SockAddr> {
        Err(ENODEV)
    }

    fn rejected(&self, _peer: &Result<SockAddr>, _error: Error) {
        self.rejected.fetch_add(1, Relaxed);
    }

    /// Accepts the first peer only, which has no addresses. There is no memory for others.
    fn accept(
        &self,
        incoming: usize,
        _link: WeakSvcXprt<TestConnection>,
    ) -> impl PinInit<TestConnection, Error> {
        match incoming {
            1 => Ok(TestConnection(self.calls.clone())),
            _ => Err(ENOMEM),
        }
    }

    fn timer_expired(&self, _xprt: &SvcXprt<Self>) {}

    fn detach(&self) {}
}

/// Creates a listener with `peers` that no service has. The caller puts its reference.
fn listener_without_service(
    calls: &Arc<Calls>,
    peers: usize,
) -> Result<NonNull<SvcXprt<TestListener>>> {
    let state = TestListener {
        calls: calls.clone(),
        peers: AtomicUsize::new(peers),
        rejected: AtomicUsize::new(0),
    };
    // SAFETY: The class is static, and so are its operations, which nothing changes. The first
    // namespace is never freed. A transport that no service has is on no list, and nothing of it
    // asks for its service. The functions are those for `TestListener`.
    unsafe {
        SvcXprt::create(
            LISTENER_CLASS.as_raw(),
            &*(*LISTENER_CLASS.as_raw()).xcl_ops,
            &raw mut cbindings::init_net,
            null_mut(),
            listener_functions::<TestListener>(),
            |_link| Ok(state),
        )
    }
}

fn listener_hears_of_rejected_peers() -> Result<bool> {
    // No class is registered yet, so the queue does not run. It is dropped when nothing is queued
    // any more.
    let queue = SERVER.start()?;
    let calls = Arc::new(Calls::default(), GFP_KERNEL)?;
    let xprt = listener_without_service(&calls, 2)?;
    // SAFETY: `create` made it, with the reference that is put below.
    let listener = unsafe { xprt.as_ref() };
    let rejected = [1, 2].map(|count| {
        // SAFETY: What `xpo_accept` needs is there: the listener.
        let made = unsafe { listener.accept(connection_ops::<TestConnection>()) };
        made.is_none() && listener.rejected.load(Relaxed) == count
    });
    // SAFETY: `create` made the transport with this reference. It is not used any more.
    unsafe { cbindings::svc_xprt_put(xprt.as_ptr().cast()) };
    drop(queue);
    Ok(rejected == [true; 2] && calls.close.load(Relaxed) == 1)
}

/// Creates a connection that no service has. The caller puts its reference.
fn connection_without_service(state: TestConnection) -> Result<NonNull<SvcXprt<TestConnection>>> {
    // SAFETY: The class and the operations are static, and the first namespace is never freed. A
    // transport that no service has is on no list, and nothing of it asks for its service. The
    // functions are those for `TestConnection`.
    unsafe {
        SvcXprt::create(
            CLASS.as_raw(),
            connection_ops::<TestConnection>(),
            &raw mut cbindings::init_net,
            null_mut(),
            connection_functions::<TestConnection>(),
            |_link| Ok(state),
        )
    }
}

fn busy_transport_gives_up_its_device() -> Result<bool> {
    // No class is registered yet, so there is no other. It is dropped when nothing is queued any
    // more.
    let queue = SERVER.start()?;
    let calls = Arc::new(Calls::default(), GFP_KERNEL)?;
    let xprt = connection_without_service(TestConnection(calls.clone()))?;
    // `svc_xprt_init` has set `XPT_BUSY`, as if a thread were to come. None does.
    // SAFETY: `create` made it, with the reference that is put below.
    unsafe { xprt.as_ref() }.close_later();
    // The last thing that the work item does.
    let gave_up = (0..500).any(|_| {
        fsleep(Delta::from_millis(10));
        calls.close.load(Relaxed) == 1
    });
    let detached = calls.detach.load(Relaxed) == 1;
    // SAFETY: `create` made the transport with this reference. It is not used any more.
    unsafe { cbindings::svc_xprt_put(xprt.as_ptr().cast()) };
    drop(queue);
    Ok(detached && gave_up && calls.close.load(Relaxed) == 2)
}

fn callback_that_is_too_long_fails_alone() -> Result<bool> {
    // No class is registered yet, so the queue does not run. It is dropped when nothing is queued
    // any more.
    let queue = SERVER.start()?;
    let registered = BACKCHANNEL.register(&NO_MODULE)?;
    let xprt = connection_without_service(TestConnection(Arc::new(Calls::default(), GFP_KERNEL)?))?;
    let caller = Caller::reverse(TestConnection::BACKCHANNEL_IDENT, xprt.as_ptr().cast())?;
    // SAFETY: The transport is live, and its operations are static.
    let send_request = unsafe { (*(*caller.xprt()).ops).send_request }.ok_or(EINVAL)?;
    let send = |len: usize| -> Result<_> {
        let mut task = KBox::new(cbindings::rpc_task::default(), GFP_KERNEL)?;
        let mut rqst = KBox::new(cbindings::rpc_rqst::default(), GFP_KERNEL)?;
        rqst.rq_xprt = caller.xprt();
        rqst.rq_task = &raw mut *task;
        // It has a credit.
        rqst.rq_cong = 1;
        rqst.rq_snd_buf.head[0].iov_len = len;
        // SAFETY: What the function looks at is there: `TestConnection` does not read the call.
        let status = unsafe { send_request(&raw mut *rqst) };
        Ok((status, task.tk_rpc_status))
    };
    let short = send(LONGEST_CALLBACK)?;
    // An error would be that of the task which is sending.
    let long = send(LONGEST_CALLBACK + 1)?;
    drop(caller);
    // SAFETY: `create` made the transport with this reference. It is not used any more.
    unsafe { cbindings::svc_xprt_put(xprt.as_ptr().cast()) };
    drop(queue);
    // sunrpc destroys the transport of the reverse direction in a work item.
    fsleep(Delta::from_millis(200));
    drop(registered);
    Ok(short == (task::ENOBUFS, 0) && long == (0, EIO.to_errno()))
}

fn service_threads_wait_for_no_file_system() -> Result<bool> {
    // No class is registered yet, so the queue does not run. It is dropped when nothing is queued
    // any more.
    let queue = SERVER.start()?;
    let calls = Arc::new(Calls::default(), GFP_KERNEL)?;
    let listener = listener_without_service(&calls, 0)?;
    // SAFETY: The operations of a transport are static.
    let accept = unsafe { (*(*LISTENER_CLASS.as_raw()).xcl_ops).xpo_accept }.ok_or(EINVAL)?;
    // SAFETY: The listener is live, and these are its operations.
    let nobody = unsafe { accept(listener.as_ptr().cast()) }.is_null();
    let xprt = connection_without_service(TestConnection(calls.clone()))?;
    let ops = connection_ops::<TestConnection>();
    let receive = ops.xpo_recvfrom.ok_or(EINVAL)?;
    let send = ops.xpo_sendto.ok_or(EINVAL)?;
    let mut thread = KBox::new(cbindings::svc_rqst::default(), GFP_KERNEL)?;
    thread.rq_xprt = xprt.as_ptr().cast();
    // SAFETY: The transport is live, these are its operations, and `XPT_BUSY` is set, as
    // `svc_xprt_init` has done. Nobody else uses the `svc_rqst`.
    let nothing = unsafe { receive(&raw mut *thread) } == 0;
    let mut call = SvcCall::<TestConnection>::new(());
    call.set_message(EmptyMessage);
    thread.rq_xprt_ctxt = (&raw mut call).cast();
    // SAFETY: As above; the context is a call of the connection, with a message.
    let refused = unsafe { send(&raw mut *thread) } == ENODEV.to_errno();
    // SAFETY: These are the references with which both were made. They are not used any more.
    unsafe {
        cbindings::svc_xprt_put(xprt.as_ptr().cast());
        cbindings::svc_xprt_put(listener.as_ptr().cast());
    }
    drop(queue);
    Ok(nobody && nothing && refused && calls.without_fs.load(Relaxed) == 3)
}
