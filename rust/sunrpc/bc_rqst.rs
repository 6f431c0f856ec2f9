// SPDX-License-Identifier: GPL-2.0

//! A call in the reverse direction, and its reply.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h); RFC 8167.

use crate::{
    memory::Buffer,
    task::task_id,
    xdr_buf::XdrBuf, //
};
use kernel::{
    alloc::Flags,
    ffi::c_uint,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use shared::trace::TaskId;

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
    rqst: Opaque<raw::rpc_rqst>,
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
    pub(crate) unsafe fn from_raw<'a>(rqst: *mut raw::rpc_rqst) -> &'a Self {
        // CAST: `rqst` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*rqst.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut raw::rpc_rqst {
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

    /// The cookie of the connection that the call came over.
    pub(crate) fn connect_cookie(&self) -> u32 {
        self.connect_cookie
    }

    /// Length of the reply in bytes.
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
        xprt: *mut raw::rpc_xprt,
        connect_cookie: u32,
        xid: u32,
        call: &[u8],
    ) -> Result {
        self.call.copy_in(0, call)?;
        self.connect_cookie = connect_cookie;
        let mut rqst = raw::rpc_rqst {
            rq_xprt: xprt,
            rq_xid: xid,
            rq_rcv_buf: xdr_buf(&self.call, call.len()),
            rq_snd_buf: xdr_buf(&self.reply, Self::MAX_LEN),
            rq_bc_pa_state: 1 << raw::RPC_BC_PA_IN_USE,
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
