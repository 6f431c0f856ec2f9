// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: the server asks, the client's callback service answers.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h); RFC 8167.
//!
//! A [`CallbackRqst`] is an `rpc_rqst` with a page for the call and a page for the reply. The
//! transport copies a call in, sunrpc queues it to the service, a thread of which executes it and
//! sends the reply through the transport like any request; then `bc_free_rqst` gives it back. It
//! has a reference to the transport from the moment it is queued until then.

use crate::{
    memory::Buffer,
    xdr_buf::XdrBuf,
    Transport,
    Xprt, //
};
use core::ptr::NonNull;
use kernel::{
    alloc::{
        flags::{
            GFP_NOWAIT,
            __GFP_NOWARN, //
        },
        Flags, //
    },
    ffi::c_uint,
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
    types::Opaque, //
};

/// Why a reverse-direction call cannot be delivered. The transport should disconnect: the peer
/// waits for a reply, and will send the call again over the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackError {
    /// It is no RPC call, or larger than [`Transport::callback_max_payload`] may promise.
    Size,
    /// The peer has too many calls outstanding, or there is no memory for another.
    Overflow,
    /// Nobody answers calls here.
    NoService,
}

/// A reverse-direction call and its reply.
///
/// # Invariants
///
/// `rqst` is a `struct rpc_rqst`. Its buffers point into `call` and `reply`.
#[repr(C)]
pub struct CallbackRqst {
    rqst: Opaque<raw::rpc_rqst>,
    call: Arc<Buffer>,
    reply: Arc<Buffer>,
    /// Of the connection that the call came over. (`rq_connect_cookie` is sunrpc's.)
    cookie: u32,
}

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl Send for CallbackRqst {}
// SAFETY: `&CallbackRqst` reads only, what its task does not write while it is sent.
unsafe impl Sync for CallbackRqst {}

impl CallbackRqst {
    /// The longest call or reply. The service's encoder takes a page for granted.
    pub(crate) const MAX_LEN: usize = PAGE_SIZE;

    fn new(flags: Flags) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                rqst: Opaque::zeroed(),
                call: Buffer::new(Self::MAX_LEN, flags)?,
                reply: Buffer::new(Self::MAX_LEN, flags)?,
                cookie: 0,
            },
            flags,
        )?)
    }

    /// # Safety
    ///
    /// `rqst` points to the `rqst` of a live `CallbackRqst` that stays in use for `'a`.
    pub(crate) unsafe fn from_raw<'a>(rqst: *mut raw::rpc_rqst) -> &'a Self {
        // CAST: `rqst` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*rqst.cast() }
    }

    /// The transaction id, in host order.
    pub fn xid(&self) -> u32 {
        // SAFETY: Set before the call was queued, and not changed since.
        u32::from_be(unsafe { (*self.rqst.get()).rq_xid })
    }

    /// Whether the call came over the connection that `xprt` has now.
    pub(crate) fn is_of_connection<T: Transport>(&self, xprt: &Xprt<T>) -> bool {
        self.cookie == xprt.connect_cookie()
    }

    /// Length of the reply in bytes.
    pub fn reply_len(&self) -> usize {
        self.reply_buf().total_len()
    }

    /// Copies the reply to the start of `dst`. [`EMSGSIZE`] if there is no room for it.
    pub fn copy_reply(&self, dst: &mut [u8]) -> Result<usize> {
        let buf = self.reply_buf();
        if buf.total_len() > dst.len() {
            return Err(EMSGSIZE);
        }
        buf.copy_out(0, dst)
    }

    fn reply_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The reply is encoded, and its buffers stay until the request is freed.
        unsafe { XdrBuf::from_raw(&raw const (*self.rqst.get()).rq_snd_buf) }
    }

    /// Makes it a call that arrived on `xprt`.
    fn fill<T: Transport>(&mut self, xprt: &Xprt<T>, xid: u32, call: &[u8]) -> Result {
        self.call.copy_in(0, call)?;
        self.cookie = xprt.connect_cookie();
        let mut rqst = raw::rpc_rqst {
            rq_xprt: xprt.as_raw(),
            rq_xid: xid,
            rq_rcv_buf: xdr_buf(&self.call, call.len()),
            rq_snd_buf: xdr_buf(&self.reply, Self::MAX_LEN),
            rq_bc_pa_state: 1 << raw::RPC_BC_PA_IN_USE,
            ..Default::default()
        };
        rqst.rq_rcv_buf.len = call.len() as c_uint;
        rqst.rq_private_buf.len = call.len() as c_uint;
        // SAFETY: Nobody else knows the request.
        unsafe { self.rqst.get().write(rqst) };
        Ok(())
    }
}

/// An `xdr_buf` that has only a head: the first `len` bytes of `buffer`.
fn xdr_buf(buffer: &Buffer, len: usize) -> raw::xdr_buf {
    raw::xdr_buf {
        head: [raw::kvec {
            iov_base: buffer.base().as_ptr().cast(),
            iov_len: len,
        }],
        buflen: len as c_uint,
        ..Default::default()
    }
}

/// The reverse-direction requests of one transport.
#[pin_data]
pub(crate) struct Callbacks {
    #[pin]
    pool: SpinLock<Pool>,
}

/// # Invariants
///
/// `idle` holds those of the `total` requests that are not in use.
struct Pool {
    idle: KVec<KBox<CallbackRqst>>,
    total: usize,
}

impl Callbacks {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: There are none.
            pool <- new_spinlock!(Pool { idle: KVec::new(), total: 0 }, "sunrpc::Callbacks"),
        })
    }

    /// How many there may be: a call that came over a lost connection may still be executed when
    /// the peer has sent as many over the next.
    fn limit<T: Transport>() -> usize {
        2 * T::CALLBACK_SLOTS as usize
    }

    /// Makes `count` requests ahead of the first call, and room to keep idle ones. May sleep.
    pub(crate) fn prepare<T: Transport>(&self, count: usize) -> Result {
        let limit = Self::limit::<T>();
        let mut room = KVec::with_capacity(limit, GFP_KERNEL)?;
        {
            let mut pool = self.pool.lock();
            if pool.idle.capacity() < limit {
                while let Some(rqst) = pool.idle.pop() {
                    room.push_within_capacity(rqst)?;
                }
                core::mem::swap(&mut pool.idle, &mut room);
            }
        }
        while self.pool.lock().total < count.min(limit) {
            let rqst = CallbackRqst::new(GFP_KERNEL)?;
            let mut pool = self.pool.lock();
            pool.idle.push_within_capacity(rqst)?;
            pool.total += 1;
        }
        Ok(())
    }

    /// Queues a call to the callback service. Does not sleep.
    pub(crate) fn deliver<T: Transport>(
        &self,
        xprt: &Xprt<T>,
        call: &[u8],
    ) -> Result<(), CallbackError> {
        // XID and direction, which the service takes for granted.
        let (Some((xid, _)), 8..=CallbackRqst::MAX_LEN) = (call.split_first_chunk(), call.len())
        else {
            return Err(CallbackError::Size);
        };
        let mut rqst = self.take::<T>().ok_or(CallbackError::Overflow)?;
        if rqst.fill(xprt, u32::from_ne_bytes(*xid), call).is_err() {
            self.put(rqst);
            return Err(CallbackError::Size);
        }
        // INVARIANT: From here on the request is in use.
        let raw = KBox::into_raw(rqst).cast::<raw::rpc_rqst>();
        // SAFETY: The request is complete, and ours.
        if unsafe { enqueue(xprt, raw) } {
            return Ok(());
        }
        // SAFETY: It was not queued, so it is still ours.
        unsafe { self.recycle(raw) };
        Err(CallbackError::NoService)
    }

    /// Takes a request back that was in use.
    ///
    /// # Safety
    ///
    /// `rqst` is one that `deliver` made, and nobody uses it any more.
    pub(crate) unsafe fn recycle(&self, rqst: *mut raw::rpc_rqst) {
        // CAST: `rqst` is the first field of `CallbackRqst`, which is `repr(C)`.
        // SAFETY: It was a box, and the caller gives it up.
        self.put(unsafe { KBox::from_raw(rqst.cast::<CallbackRqst>()) });
    }

    /// Frees what is idle.
    pub(crate) fn trim(&self) {
        loop {
            let rqst = {
                let mut pool = self.pool.lock();
                let rqst = pool.idle.pop();
                pool.total -= usize::from(rqst.is_some());
                rqst
            };
            if rqst.is_none() {
                break;
            }
        }
    }

    fn take<T: Transport>(&self) -> Option<KBox<CallbackRqst>> {
        {
            let mut pool = self.pool.lock();
            if let Some(rqst) = pool.idle.pop() {
                return Some(rqst);
            }
            if pool.total >= Self::limit::<T>() {
                return None;
            }
            // INVARIANT: Counted, and not idle.
            pool.total += 1;
        }
        let rqst = CallbackRqst::new(GFP_NOWAIT | __GFP_NOWARN);
        if rqst.is_err() {
            self.pool.lock().total -= 1;
        }
        rqst.ok()
    }

    fn put(&self, rqst: KBox<CallbackRqst>) {
        let mut pool = self.pool.lock();
        if let Err(full) = pool.idle.push_within_capacity(rqst) {
            pool.total -= 1;
            drop(pool);
            drop(full);
        }
    }
}

/// Gives a request to the callback service, with a reference to the transport. False if there is
/// no service.
///
/// `xprt_enqueue_bc_request` is not used. It gives a request that finds no service back at once,
/// with the transport's reference, which may be the last; and to drop the last one, a completion
/// handler would have to wait for a lock whose holder may wait for that handler. Whoever provides
/// the service has a reference as long as `bc_serv` says so. It is therefore only with a service
/// that a reference is taken here, and none is dropped.
///
/// # Safety
///
/// `rqst` is a complete request that the caller gives up if the result is true.
unsafe fn enqueue<T: Transport>(xprt: &Xprt<T>, rqst: *mut raw::rpc_rqst) -> bool {
    let _guard = xprt.bc_pa_lock();
    // SAFETY: The lock guards it.
    let Some(service) = NonNull::new(unsafe { (*xprt.as_raw()).bc_serv }) else {
        return false;
    };
    // SAFETY: The transport is live.
    if unsafe { raw::xprt_get(xprt.as_raw()) }.is_null() {
        return false;
    }
    // SAFETY: The service decrements it when it takes the call.
    unsafe { kernel::bindings::atomic_inc((&raw mut (*xprt.as_raw()).bc_slot_count).cast()) };
    // SAFETY: The service is removed from the transport, under the lock, before it goes.
    let (queue, pool) = unsafe {
        (
            &raw mut (*service.as_ptr()).sv_cb_list,
            (*service.as_ptr()).sv_pools,
        )
    };
    // SAFETY: The request is the queue's from here on.
    unsafe { raw::lwq_enqueue(&raw mut (*rqst).rq_bc_list, queue) };
    // SAFETY: A service has at least one pool.
    unsafe { raw::svc_pool_wake_idle_thread(pool) };
    true
}
