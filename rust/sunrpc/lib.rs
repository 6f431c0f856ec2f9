// SPDX-License-Identifier: GPL-2.0

//! Safe `rpc_xprt` and `svc_xprt`: the methods that a transport of sunrpc has to provide, and those
//! that it may call.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`xdr.h`](srctree/include/linux/sunrpc/xdr.h),
//! [`bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h).
//!
//! This crate knows no RDMA. A transport implements [`Transport`] and [`HasSlot`], declares one
//! static [`Class`] and registers it. From then on sunrpc makes transports of it, each an
//! [`Xprt<T>`] with a `T` in it, and calls the methods of [`Transport`]. The module `svc_transport`
//! says the same of the server.
//!
//! # Context and locks of each method
//!
//! The methods of [`Transport`], and the handlers of the transport itself:
//!
//! ```text
//! method                called from                            sleeps      held
//! --------------------  -------------------------------------  ----------  -----------------------
//! new                   a task that creates a transport        yes         a module reference
//! connect               a work item of this crate's queue      yes         XPRT_LOCKED
//! prepare               the request's own task                 for memory  nothing; not queued yet
//! send                  an RPC task, perhaps of another call   no          XPRT_LOCKED; pinned
//! on_credit_shortage    as send                                no          XPRT_LOCKED
//! flush                 as send, or the unlocking of it        no          XPRT_LOCKED (*)
//! close                 xprtiod, a sender, the connect work,   yes         XPRT_LOCKED, or no
//!                       destruction                                        other user
//! grow                  a work item                            yes         nothing
//! prepare_for_swap      swapon                                 yes         nothing
//! release, give_up      a call's task                          yes         perhaps XPRT_LOCKED
//! callback_max_payload  any task                               no          rcu_read_lock
//! WeakXprt::with        the transport's own handlers           no          rcu_read_lock
//! ```
//!
//! (*) Perhaps also `transport_lock`.
//!
//! `XPRT_LOCKED` is a bit lock that sunrpc takes for the transport. It excludes connect, send and
//! close from each other, so a transport needs no lock of its own between them.
//!
//! # Locks
//!
//! This crate takes all spin locks in process context with interrupts on, as sunrpc itself does;
//! completions must therefore not run in softirq context. They nest in no other way than this:
//!
//! * `reserve_lock`, then the lock of the `backlog` queue (in sunrpc): slots.
//! * `queue_lock`, then the lock of the `pending` queue (in sunrpc): replies.
//! * `transport_lock`, then the locks of `sending` and `pending` (in sunrpc): window and state.
//! * `bc_pa_lock`: callbacks. The lock of the callback pool is a leaf.
//!
//! No method of [`Transport`] but `flush` is called with one of them held, and no function but
//! those of [`Xprt::set_window`] and [`Xprt::open_window`].
//!
//! # Life of a transport
//!
//! sunrpc counts references to an `rpc_xprt` and calls `destroy` after it has dropped the last one.
//! The connect work is cancelled, [`Transport::close`] ends every DMA and every completion,
//! [`WeakXprt`]s are revoked when their readers have returned, then `T`, slots and callbacks are
//! dropped. A completion handler must never drop the last reference, as that waits for
//! `XPRT_LOCKED`, whose owner may be waiting for that very handler; no function of this crate gives
//! a handler a reference.
//!
//! # Files
//!
//! A file imports only from files that are before it in this list.
//!
//! * `errno`, `timeouts`, `spin_lock`, `task`, `addr`, `sysctl`, `shrinker`: what sunrpc and the
//!   kernel crate lack.
//! * `xdr_buf`, `inline_reply`, `rqst_buffers`, `pieces`: the bytes of a message.
//! * `weak`, `work_queue`, `class`, `stats`: what both a client's and a server's transport have.
//! * `rqst`, `slot_table`, `orphaned_calls`, `bc_rqst`, `bc_pool`: the parts of an `Xprt`.
//! * `xprt`, then `cwnd`, `pending_reply`, `backchannel`, `reserve`: the transport, and what it
//!   does by itself.
//! * `transport`: the trait; then `release`, `reply_timeout`, `reconnect`, `transmit`,
//!   `mountstats`, `create`, which call its methods.
//! * `ops`: the functions that sunrpc calls.
//! * `svc_*`: the same for the server, from `svc_xprt` by way of `svc_transport` to `svc_ops` and
//!   `svc_backchannel`.

#![deny(unsafe_op_in_unsafe_fn)]

mod addr;
mod backchannel;
mod bc_pool;
mod bc_rqst;
mod class;
mod create;
mod cwnd;
mod errno;
mod growth;
mod inline_reply;
mod mountstats;
mod ops;
mod orphaned_calls;
mod pending_reply;
mod pieces;
mod reconnect;
mod release;
mod reply_timeout;
mod reserve;
mod rqst;
mod rqst_buffers;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod shrinker;
mod slot_table;
mod spin_lock;
mod stats;
mod svc_addr;
mod svc_args;
mod svc_backchannel;
mod svc_call;
mod svc_callback;
mod svc_callback_reply;
mod svc_class;
mod svc_listener;
mod svc_ops;
mod svc_recv;
mod svc_reply_pages;
mod svc_result;
mod svc_transport;
mod svc_work;
mod svc_xprt;
pub mod sysctl;
mod task;
mod timeouts;
mod transmit;
mod transport;
mod weak;
mod work_queue;
mod xdr_buf;
mod xprt;

pub use shared::addr::{
    AddrText,
    Net,
    SockAddr, //
};
pub use shared::memory;

pub use bc_rqst::{
    CallbackError,
    CallbackRqst, //
};
pub use class::{
    Class,
    ClassRegistration,
    SvcBackchannelClass, //
};
pub use pending_reply::PendingReply;
pub use pieces::Pieces;
pub use rqst::{
    HasSlot,
    ReplyPart,
    Rqst, //
};
pub use stats::Stats;
pub use svc_args::SvcArgs;
pub use svc_call::{
    HasSvcCall,
    SvcCall, //
};
pub use svc_callback::SvcCallback;
pub use svc_callback_reply::SvcCallbackReply;
pub use svc_class::{
    SvcClass,
    SvcRegistration, //
};
pub use svc_reply_pages::SavedReplyPages;
pub use svc_result::SvcResult;
pub use svc_transport::{
    SvcConnection,
    SvcListener, //
};
pub use svc_xprt::{
    SvcXprt, //
    WeakSvcXprt,
};
pub use timeouts::ATTEMPT_MS;
pub use transport::{
    SendError,
    Transport, //
};
pub use weak::Weak;
pub use xprt::{
    WeakXprt, //
    Xprt,
};
