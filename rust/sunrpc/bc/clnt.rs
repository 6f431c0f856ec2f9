// SPDX-License-Identifier: GPL-2.0

//! The client's end of the reverse direction: the server calls, the callback service replies.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h); RFC 8167.
//!
//! A [`CallbackRqst`] is an `rpc_rqst` with a page for the call and a page for the reply. The
//! transport copies a call to it, sunrpc queues it to the service, a thread of which executes it
//! and sends the reply through the transport like any request; then sunrpc calls `bc_free_rqst`.
//! The request has a reference to the transport from the moment it is queued until then. A
//! [`BcPool`] has the requests that are not in use.

use crate::prelude::*;
use crate::task::task_id;
use ext::trace::TaskId;
use kernel::{
    new_spinlock,
    sync::SpinLock, //
};

/// The reason why a reverse-direction call cannot be delivered. The peer waits for a reply, and
/// calls again over the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackError {
    /// The message is no RPC call, or is larger than `Transport::callback_max_payload` may promise.
    Size,
    /// The peer has too many calls outstanding.
    Overflow,
    /// Memory is short.
    NoMemory,
    /// The transport has no callback service, or has none any more.
    NoService,
}

/// A reverse-direction call and its reply.
///
/// # Invariants
///
/// `rqst` is a `struct rpc_rqst`. Its buffers point into `call` and `reply`.
#[repr(C)]
pub struct CallbackRqst {
    rqst: Opaque<cbindings::rpc_rqst>,
    call: Arc<Buffer>,
    reply: Arc<Buffer>,
    /// The cookie of the connection that the call came over. (sunrpc has its own use for
    /// `rq_connect_cookie`.)
    connect_cookie: u32,
}

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl Send for CallbackRqst {}
// SAFETY: `&CallbackRqst` only reads, and its task does not write what it reads while the reply is
// sent.
unsafe impl Sync for CallbackRqst {}

impl CallbackRqst {
    /// The longest call or reply. The encoder of the callback service writes up to a page.
    pub(crate) const MAX_LEN: usize = PAGE_SIZE;

    pub(crate) fn new(flags: Flags) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                rqst: Opaque::zeroed(),
                call: Buffer::new(Self::MAX_LEN, flags)?,
                reply: Buffer::new(Self::MAX_LEN, flags)?,
                connect_cookie: 0,
            },
            flags,
        )?)
    }

    /// # Safety
    ///
    /// `rqst` points to the `rqst` of a live `CallbackRqst` that stays in use for `'a`.
    pub(crate) unsafe fn from_raw<'a>(rqst: *mut cbindings::rpc_rqst) -> &'a Self {
        // CAST: `rqst` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*rqst.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::rpc_rqst {
        self.rqst.get()
    }

    /// Returns the transaction id, in host order.
    pub fn xid(&self) -> u32 {
        // SAFETY: `fill` sets it before the call is queued, and nobody changes it afterwards.
        u32::from_be(unsafe { (*self.rqst.get()).rq_xid })
    }

    /// Returns the identification of the task that replies, for traces.
    pub fn task_id(&self) -> TaskId {
        // SAFETY: The task that replies has the request as long as it sends the reply.
        unsafe { task_id((*self.rqst.get()).rq_task) }
    }

    /// Returns the cookie of the connection that the call came over.
    pub(crate) fn connect_cookie(&self) -> u32 {
        self.connect_cookie
    }

    /// Returns the length of the reply in bytes.
    pub fn reply_len(&self) -> usize {
        self.reply_buf().total_len()
    }

    /// Copies the reply to the start of `dst`. Returns [`EMSGSIZE`] if it does not fit.
    pub fn copy_reply(&self, dst: &mut [u8]) -> Result<usize> {
        let buf = self.reply_buf();
        if buf.total_len() > dst.len() {
            return Err(EMSGSIZE);
        }
        buf.copy_out(0, dst)
    }

    fn reply_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The service has encoded the reply, and `self` owns its buffer.
        unsafe { XdrBuf::from_raw(&raw const (*self.rqst.get()).rq_snd_buf) }
    }

    /// Makes it a call that came over `xprt` while that had the cookie `connect_cookie`. `xid` is
    /// in network order.
    pub(crate) fn fill(
        &mut self,
        xprt: *mut cbindings::rpc_xprt,
        connect_cookie: u32,
        xid: u32,
        call: &[u8],
    ) -> Result {
        self.call.copy_in(0, call)?;
        self.connect_cookie = connect_cookie;
        let mut rqst = cbindings::rpc_rqst {
            rq_xprt: xprt,
            rq_xid: xid,
            rq_rcv_buf: xdr_buf(&self.call, call.len()),
            rq_snd_buf: xdr_buf(&self.reply, Self::MAX_LEN),
            rq_bc_pa_state: 1 << cbindings::RPC_BC_PA_IN_USE,
            // sunrpc takes the reply for one that has a credit, so it is sent before all calls that
            // wait for one. The credits of the two directions are separate (RFC 8167, section 4).
            rq_cong: 1,
            ..Default::default()
        };
        rqst.rq_rcv_buf.len = call.len() as c_uint;
        rqst.rq_private_buf.len = call.len() as c_uint;
        // SAFETY: The request is `self`'s, and `&mut self` excludes all others.
        unsafe { self.rqst.get().write(rqst) };
        Ok(())
    }
}

/// Returns an `xdr_buf` that has only a head: the first `len` bytes of `buffer`.
fn xdr_buf(buffer: &Buffer, len: usize) -> cbindings::xdr_buf {
    cbindings::xdr_buf {
        head: [cbindings::kvec {
            iov_base: buffer.base().as_ptr().cast(),
            iov_len: len,
        }],
        buflen: len as c_uint,
        ..Default::default()
    }
}

/// The reverse-direction requests of one transport.
#[pin_data]
pub(crate) struct BcPool {
    /// The most requests.
    limit: usize,
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

impl BcPool {
    /// Creates a pool without requests, for a peer that may have `slots` calls outstanding.
    pub(crate) fn new(slots: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // A call that came over a lost connection may still be executed when the peer has sent
            // as many over the next one.
            limit: 2 * slots as usize,
            // INVARIANT: There are none.
            pool <- new_spinlock!(Pool { idle: KVec::new(), total: 0 }, "sunrpc::BcPool"),
        })
    }

    /// Allocates `count` requests before the first call comes, and the list of idle ones. May
    /// sleep.
    pub(crate) fn reserve(&self, count: usize) -> Result {
        let limit = self.limit;
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

    /// Frees the idle requests.
    pub(crate) fn free_idle(&self) {
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

    /// Takes an idle request, or allocates one. Does not sleep.
    pub(crate) fn take(&self) -> Result<KBox<CallbackRqst>, CallbackError> {
        {
            let mut pool = self.pool.lock();
            if let Some(rqst) = pool.idle.pop() {
                return Ok(rqst);
            }
            if pool.total >= self.limit {
                return Err(CallbackError::Overflow);
            }
            // INVARIANT: Counted, and not idle.
            pool.total += 1;
        }
        CallbackRqst::new(GFP_NOWAIT | __GFP_NOWARN).map_err(|_| {
            self.pool.lock().total -= 1;
            CallbackError::NoMemory
        })
    }

    /// Puts back a request that is not in use any more.
    pub(crate) fn put(&self, rqst: KBox<CallbackRqst>) {
        let mut pool = self.pool.lock();
        if let Err(full) = pool.idle.push_within_capacity(rqst) {
            pool.total -= 1;
            drop(pool);
            drop(full);
        }
    }
}

impl<T: HasSlot> Xprt<T> {
    /// Passes a reverse-direction call to the callback service. Does not sleep; copies `call`.
    pub fn deliver_callback(&self, call: &[u8]) -> Result<(), CallbackError> {
        // The service reads XID and direction without looking at the length.
        let (Some((xid, _)), 8..=CallbackRqst::MAX_LEN) = (call.split_first_chunk(), call.len())
        else {
            return Err(CallbackError::Size);
        };
        let pool = &self.parts.bc_pool;
        let mut rqst = pool.take()?;
        let xid = u32::from_ne_bytes(*xid);
        let filled = rqst.fill(self.as_raw(), self.connect_cookie(), xid, call);
        if filled.is_err() {
            pool.put(rqst);
            return Err(CallbackError::Size);
        }
        let rqst = KBox::into_raw(rqst);
        // SAFETY: The request is complete, and nobody else has it.
        if unsafe { self.enqueue_callback(rqst.cast()) } {
            return Ok(());
        }
        // SAFETY: It was a box, and was not queued.
        pool.put(unsafe { KBox::from_raw(rqst) });
        Err(CallbackError::NoService)
    }

    /// Passes a request to the callback service, with a reference to the transport. Returns false
    /// if there is no service.
    ///
    /// `xprt_enqueue_bc_request` is not used. If there is no service, it frees the request at once,
    /// with the transport's reference, which may be the last; and to drop the last one, a
    /// completion handler would have to wait for a lock whose holder may wait for that handler.
    /// Whoever provides the service has a reference as long as `bc_serv` is set. This function
    /// therefore takes a reference only if there is a service, and drops none.
    ///
    /// # Safety
    ///
    /// `rqst` is a complete request that the caller gives up if the result is true.
    unsafe fn enqueue_callback(&self, rqst: *mut cbindings::rpc_rqst) -> bool {
        let _guard = self.bc_pa_lock();
        // SAFETY: The lock guards it.
        let Some(service) = NonNull::new(unsafe { (*self.as_raw()).bc_serv }) else {
            return false;
        };
        // SAFETY: The transport is live.
        if unsafe { cbindings::xprt_get(self.as_raw()) }.is_null() {
            return false;
        }
        // SAFETY: The service decrements it when it takes the call.
        unsafe { kernel::bindings::atomic_inc((&raw mut (*self.as_raw()).bc_slot_count).cast()) };
        // SAFETY: sunrpc removes the service from the transport, under the lock, before it frees
        // the service.
        let (queue, pool) = unsafe {
            (
                &raw mut (*service.as_ptr()).sv_cb_list,
                (*service.as_ptr()).sv_pools,
            )
        };
        // SAFETY: The request is the queue's from here on.
        unsafe { cbindings::lwq_enqueue(&raw mut (*rqst).rq_bc_list, queue) };
        // SAFETY: A service has at least one pool.
        unsafe { cbindings::svc_pool_wake_idle_thread(pool) };
        true
    }

    /// Takes a request back whose reply was sent, or that is not to have one, and drops its
    /// reference to the transport. May destroy the transport.
    ///
    /// # Safety
    ///
    /// [`Self::deliver_callback`] queued `rqst`, sunrpc has finished with it, and the caller is a
    /// task that may wait for the destruction of the transport.
    pub(crate) unsafe fn free_callback(rqst: *mut cbindings::rpc_rqst) {
        // SAFETY: The caller has the request.
        let xprt = unsafe { (*rqst).rq_xprt };
        // CAST: `rqst` is the first field of `CallbackRqst`, which is `repr(C)`.
        // SAFETY: `deliver_callback` made it of a box, and the caller gives it up.
        let rqst = unsafe { KBox::from_raw(rqst.cast::<CallbackRqst>()) };
        // SAFETY: The transport is an `Xprt<T>`, and live, as the request has a reference.
        unsafe { Self::from_raw(xprt) }.parts.bc_pool.put(rqst);
        // No reference to the transport may be in use here, as this may free it.
        // SAFETY: `enqueue_callback` took the reference for the request.
        unsafe { cbindings::xprt_put(xprt) };
    }
}
