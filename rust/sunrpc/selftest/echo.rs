// SPDX-License-Identifier: GPL-2.0

//! A transport that needs no network, as `send` itself delivers the reply, and a client over it.

use crate::prelude::*;
use crate::{
    clnt::timeouts::{
        rpc_timeout,
        HZ, //
    },
    task,
    CallbackRqst,
    Class,
    DisconnectReason,
    SendError,
    Stats, //
};
use core::{
    cell::UnsafeCell,
    ptr::{
        null,
        null_mut, //
    },
    sync::atomic::{
        AtomicI32,
        AtomicU32,
        Ordering::Relaxed, //
    }, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    sync::Completion,
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue, //
};

/// The number of times that an [`Echo`] connected, and the number of those that exist.
pub(super) static CONNECTED: AtomicU32 = AtomicU32::new(0);
pub(super) static ALIVE: AtomicU32 = AtomicU32::new(0);

/// Makes the next attempt to connect fail.
pub(super) static FAIL: AtomicBool = AtomicBool::new(false);

/// The number of attempts to connect that are to fail with ENOTCONN, after which sunrpc does not
/// wait.
pub(super) static BROKEN_OFF: AtomicU32 = AtomicU32::new(0);

/// The number of attempts to connect that are to have no answer.
pub(super) static UNANSWERED: AtomicU32 = AtomicU32::new(0);

/// Set while no call can be sent.
pub(super) static BUSY: AtomicBool = AtomicBool::new(false);

/// Set while an attempt to connect takes its time, up to two seconds; and while there is such an
/// attempt.
pub(super) static SLOW: AtomicBool = AtomicBool::new(false);
pub(super) static CONNECTING: AtomicBool = AtomicBool::new(false);

/// Set while a call that is sent has no reply.
pub(super) static SILENT: AtomicBool = AtomicBool::new(false);

/// Makes the next reply say that the arguments are garbage.
pub(super) static REFUSE: AtomicBool = AtomicBool::new(false);

/// Set when a connection was given up because there was no reply in time.
pub(super) static TIMED_OUT: AtomicBool = AtomicBool::new(false);

/// Set while the peer may read the memory of a call that has no reply.
pub(super) static READABLE: AtomicBool = AtomicBool::new(false);

/// Set when a call was encoded while [`READABLE`].
pub(super) static ENCODED_READABLE: AtomicBool = AtomicBool::new(false);

/// The time that it takes to close a connection over which the peer may read.
const DRAIN: Delta = Delta::from_millis(50);

pub(super) static CLASS: Class<Echo> = Class::new();

// SAFETY: The module that has these tests cannot be unloaded while it runs them, so they need no
// reference.
pub(super) static NO_MODULE: ThisModule = unsafe { ThisModule::from_ptr(null_mut()) };

/// A transport that replies by itself.
pub(super) struct Echo;

impl Drop for Echo {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Relaxed);
    }
}

impl HasSlot for Echo {
    type Slot = ();

    fn new_slot() -> impl PinInit<(), Error> {
        Ok(())
    }
}

impl Transport for Echo {
    const NAME: &'static CStr = c"selftest";
    const IDENT: i32 = 0x7e57;
    const NETIDS: [&'static CStr; 2] = [c"selftest", c"selftest6"];
    const CALLBACK_SLOTS: u32 = 2;

    fn class() -> &'static Class<Self> {
        &CLASS
    }

    fn new(_: usize) -> impl PinInit<Self, Error> {
        ALIVE.fetch_add(1, Relaxed);
        Ok(Self)
    }

    fn slots() -> usize {
        4
    }

    fn max_payload() -> usize {
        4096
    }

    fn connect(&self, _: &Xprt<Self>) -> Result {
        CONNECTING.store(true, Relaxed);
        // Longer than any queue takes whose work does not wait for this.
        for _ in 0..6_000 {
            if !SLOW.load(Relaxed) {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        CONNECTING.store(false, Relaxed);
        if FAIL.swap(false, Relaxed) {
            return Err(EIO);
        }
        let left = BROKEN_OFF.load(Relaxed);
        if left != 0 {
            BROKEN_OFF.store(left - 1, Relaxed);
            return Err(Error::from_errno(task::ENOTCONN));
        }
        let left = UNANSWERED.load(Relaxed);
        if left != 0 {
            UNANSWERED.store(left - 1, Relaxed);
            return Err(ehostunreach());
        }
        CONNECTED.fetch_add(1, Relaxed);
        Ok(())
    }

    fn prepare(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, _: Flags) -> Result<(), SendError> {
        if !BUSY.load(Relaxed) {
            xprt.write_space();
        }
        if rqst.reply_max() > IMPOSSIBLE_REPLY {
            return Err(SendError::TooBig);
        }
        Ok(())
    }

    fn send(&self, xprt: &Xprt<Self>, rqst: &Rqst<Self>, _: bool) -> Result<(), SendError> {
        if BUSY.load(Relaxed) {
            return Err(SendError::Again);
        }
        if rqst.reply_max() > UNSENDABLE_REPLY {
            return Err(SendError::Io);
        }
        if SILENT.load(Relaxed) {
            READABLE.store(true, Relaxed);
            return Ok(());
        }
        if let Some(mut pending) = xprt.lookup(rqst.xid()) {
            // A reply: MSG_ACCEPTED, an empty verifier, SUCCESS.
            let mut reply = [0; 24];
            reply[..4].copy_from_slice(&rqst.xid().to_be_bytes());
            reply[7] = 1;
            if REFUSE.swap(false, Relaxed) {
                // GARBAGE_ARGS.
                reply[23] = 4;
            }
            let received = pending
                .copy_inline(&reply, None)
                .map_err(|_| SendError::Io)?;
            xprt.reply_received();
            pending.complete(received);
        }
        Ok(())
    }

    fn flush(&self) -> Result {
        Ok(())
    }

    fn close(&self, _: &Xprt<Self>) {
        if READABLE.load(Relaxed) {
            fsleep(DRAIN);
            READABLE.store(false, Relaxed);
        }
    }

    fn expire(&self) {}

    fn release(&self, _: &Xprt<Self>, _: &Rqst<Self>) {
        READABLE.store(false, Relaxed);
    }

    fn conditional_disconnect(
        &self,
        xprt: &Xprt<Self>,
        connect_cookie: u32,
        reason: DisconnectReason,
    ) {
        if matches!(reason, DisconnectReason::ReplyTimedOut) {
            TIMED_OUT.store(true, Relaxed);
        }
        if xprt.connect_cookie() == connect_cookie {
            xprt.force_disconnect();
        }
    }

    fn inject_disconnect(&self, _: &Xprt<Self>) {}

    fn source(&self) -> Option<SockAddr> {
        None
    }

    fn stats(&self, _: &Xprt<Self>) -> Stats {
        Stats::default()
    }

    fn callback_max_payload(&self) -> usize {
        0
    }

    fn send_callback_reply(
        &self,
        _: &Xprt<Self>,
        _: &CallbackRqst,
        _: bool,
    ) -> Result<(), SendError> {
        Err(SendError::Io)
    }
}

/// A description of a program for sunrpc, which counts calls in it.
struct StaticCell<T>(UnsafeCell<T>);

// SAFETY: sunrpc alone accesses the value.
unsafe impl<T> Sync for StaticCell<T> {}

impl<T> StaticCell<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

/// The procedure whose calls have a reply.
pub(super) const WITH_REPLY: usize = 0;
/// The procedure whose calls have none.
pub(super) const ONE_WAY: usize = 1;
/// The procedure whose calls can never be sent.
pub(super) const IMPOSSIBLE: usize = 2;

/// The procedure whose calls can be prepared, but not sent.
pub(super) const UNSENDABLE: usize = 3;

/// The longest reply, but for replies to [`IMPOSSIBLE`].
const IMPOSSIBLE_REPLY: usize = 4096;
/// The longest reply, but for replies to these two procedures.
const UNSENDABLE_REPLY: usize = 1024;

static PROCEDURES: StaticCell<[cbindings::rpc_procinfo; 4]> = StaticCell::new([
    procedure(Some(decode), 1),
    procedure(None, 1),
    procedure(Some(decode), IMPOSSIBLE_REPLY as u32),
    procedure(Some(decode), (UNSENDABLE_REPLY / 4) as u32),
]);
static COUNTS: StaticCell<[c_uint; 4]> = StaticCell::new([0; 4]);
static VERSION: StaticCell<cbindings::rpc_version> = StaticCell::new(cbindings::rpc_version {
    number: 1,
    nrprocs: 4,
    procs: PROCEDURES.0.get().cast(),
    counts: COUNTS.0.get().cast(),
});
static VERSIONS: StaticCell<[*const cbindings::rpc_version; 2]> =
    StaticCell::new([null(), VERSION.0.get()]);
static STATS: StaticCell<cbindings::rpc_stat> = StaticCell::new(
    // SAFETY: It consists of numbers and a pointer that may be null.
    unsafe { core::mem::zeroed() },
);
static PROGRAM: StaticCell<cbindings::rpc_program> = StaticCell::new(cbindings::rpc_program {
    name: c"selftest".to_bytes_with_nul().as_ptr().cast(),
    number: 0x2000_7e57,
    nrvers: 2,
    version: VERSIONS.0.get().cast(),
    stats: STATS.0.get(),
    pipe_dir_name: null(),
});

type Decode = unsafe extern "C" fn(
    *mut cbindings::rpc_rqst,
    *mut cbindings::xdr_stream,
    *mut c_void,
) -> c_int;

const fn procedure(decode: Option<Decode>, reply_words: u32) -> cbindings::rpc_procinfo {
    cbindings::rpc_procinfo {
        p_proc: 1,
        p_encode: Some(encode),
        p_decode: decode,
        p_arglen: 1,
        p_replen: reply_words,
        p_timer: 0,
        p_statidx: 0,
        p_name: null(),
    }
}

/// No arguments.
extern "C" fn encode(_: *mut cbindings::rpc_rqst, _: *mut cbindings::xdr_stream, _: *const c_void) {
    if READABLE.load(Relaxed) {
        ENCODED_READABLE.store(true, Relaxed);
    }
}

/// No results.
extern "C" fn decode(
    _: *mut cbindings::rpc_rqst,
    _: *mut cbindings::xdr_stream,
    _: *mut c_void,
) -> c_int {
    0
}

/// A tenth of a second, for what has a time-out at all, and ten seconds in all.
pub(super) static TIMEOUT: cbindings::rpc_timeout = cbindings::rpc_timeout {
    to_initval: HZ / 10,
    to_maxval: 10 * HZ,
    to_increment: HZ / 10,
    to_retries: 100,
    to_exponential: 0,
};

/// Two seconds in all.
pub(super) static SHORT_TIMEOUT: cbindings::rpc_timeout = rpc_timeout(2 * HZ);

/// A client over an [`Echo`].
pub(super) struct Caller(NonNull<cbindings::rpc_clnt>);

impl Caller {
    pub(super) fn new() -> Result<Self> {
        Self::with(&TIMEOUT, cbindings::rpc_auth_flavors_RPC_AUTH_NULL)
    }

    pub(super) fn with(
        timeout: &'static cbindings::rpc_timeout,
        authflavor: cbindings::rpc_authflavor_t,
    ) -> Result<Self> {
        Self::over(Echo::IDENT, null_mut(), timeout, authflavor)
    }

    /// Returns a client of the reverse direction of `connection`, over the transport class `ident`.
    pub(super) fn reverse(ident: i32, connection: *mut cbindings::svc_xprt) -> Result<Self> {
        let authflavor = cbindings::rpc_auth_flavors_RPC_AUTH_NULL;
        Self::over(ident, connection, &SHORT_TIMEOUT, authflavor)
    }

    fn over(
        protocol: i32,
        bc_xprt: *mut cbindings::svc_xprt,
        timeout: &'static cbindings::rpc_timeout,
        authflavor: cbindings::rpc_authflavor_t,
    ) -> Result<Self> {
        let mut address = cbindings::sockaddr_in {
            sin_family: cbindings::AF_INET as u16,
            sin_port: 1_u16.to_be(),
            sin_addr: cbindings::in_addr {
                s_addr: 0x7f00_0001_u32.to_be(),
            },
            ..Default::default()
        };
        let mut arguments = cbindings::rpc_create_args {
            net: &raw mut cbindings::init_net,
            protocol,
            bc_xprt,
            address: (&raw mut address).cast(),
            addrsize: size_of::<cbindings::sockaddr_in>(),
            program: PROGRAM.0.get(),
            stats: STATS.0.get(),
            version: 1,
            timeout,
            authflavor,
            flags: (cbindings::RPC_CLNT_CREATE_NOPING
                | cbindings::RPC_CLNT_CREATE_QUIET
                | cbindings::RPC_CLNT_CREATE_HARDRTRY) as usize,
            ..Default::default()
        };
        // SAFETY: The arguments point to statics, and to an address that sunrpc copies.
        let client = from_err_ptr(unsafe { cbindings::rpc_create(&raw mut arguments) })?;
        Ok(Self(NonNull::new(client).ok_or(ENOMEM)?))
    }

    /// Returns the transport.
    pub(super) fn xprt(&self) -> *mut cbindings::rpc_xprt {
        // SAFETY: The client is live. Nobody gives it another transport, so it has a reference to
        // this one.
        unsafe { (*self.0.as_ptr()).cl_xprt }
    }

    /// Calls `f` with the transport.
    pub(super) fn with_transport<R>(&self, f: impl FnOnce(&Xprt<Echo>) -> R) -> R {
        // SAFETY: The client has a reference to it, and it is an `Xprt<Echo>` by its class.
        f(unsafe { Xprt::from_raw(self.xprt()) })
    }

    pub(super) fn call(&self, procedure: usize) -> Result {
        self.call_with(procedure, 0)
    }

    /// Calls `procedure` in a task with these `flags`.
    pub(super) fn call_with(&self, procedure: usize, flags: c_int) -> Result {
        let message = cbindings::rpc_message {
            rpc_proc: PROCEDURES
                .0
                .get()
                .cast::<cbindings::rpc_procinfo>()
                .wrapping_add(procedure),
            ..Default::default()
        };
        // SAFETY: The client is live, and so is the message until this returns.
        to_result(unsafe { cbindings::rpc_call_sync(self.0.as_ptr(), &raw const message, flags) })
    }

    /// Calls `procedure` in another task with these `flags`. The result comes later.
    pub(super) fn start(
        self: &Arc<Self>,
        procedure: usize,
        flags: c_int,
    ) -> Result<Arc<StartedCall>> {
        let started = Arc::pin_init(
            pin_init!(StartedCall {
                ended <- Completion::new(),
                status: AtomicI32::new(0),
            }),
            GFP_KERNEL,
        )?;
        let (caller, call) = (self.clone(), started.clone());
        workqueue::system_long().try_spawn(GFP_KERNEL, move || {
            let result = caller.call_with(procedure, flags);
            drop(caller);
            let status = result.map_or_else(Error::to_errno, |()| 0);
            call.status.store(status, Relaxed);
            call.ended.complete_all();
        })?;
        Ok(started)
    }
}

// SAFETY: Any task may call with an `rpc_clnt`.
unsafe impl Send for Caller {}
// SAFETY: Any task may call with an `rpc_clnt`, also at the same time as others.
unsafe impl Sync for Caller {}

/// A call that another task makes.
#[pin_data]
pub(super) struct StartedCall {
    #[pin]
    ended: Completion,
    status: AtomicI32,
}

impl StartedCall {
    /// Waits for the end of the call, and returns its status.
    pub(super) fn status(&self) -> c_int {
        self.ended.wait_for_completion();
        self.status.load(Relaxed)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: It is live, and nobody else uses it.
        unsafe { cbindings::rpc_shutdown_client(self.0.as_ptr()) };
        // sunrpc destroys the transport in a work item.
        for _ in 0..500 {
            if ALIVE.load(Relaxed) == 0 {
                return;
            }
            fsleep(Delta::from_millis(10));
        }
    }
}

/// Returns the error of an attempt to connect that has no answer.
pub(super) fn ehostunreach() -> Error {
    Error::from_errno(-(kernel::bindings::EHOSTUNREACH as c_int))
}
