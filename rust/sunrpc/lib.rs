// SPDX-License-Identifier: GPL-2.0

//! Safe `rpc_xprt`: what a transport of the sunrpc client has to provide and may use.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`xdr.h`](srctree/include/linux/sunrpc/xdr.h),
//! [`bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h).
//!
//! This crate knows no RDMA. A transport implements [`Transport`], declares one static [`Class`]
//! and registers it. From then on sunrpc makes transports of it, each an [`Xprt<T>`] with a `T` in
//! it, and calls the methods of [`Transport`].
//!
//! # Who calls whom, in which context, under which lock
//!
//! | method | called from | sleeps | held |
//! |---|---|---|---|
//! | [`Transport::new`] | mount, or whoever makes a transport | yes | a module reference |
//! | [`Transport::connect`] | `xprtiod` work item | yes | `XPRT_LOCKED`, for the connect |
//! | [`Transport::prepare`] | the request's own task | not for memory | nothing; the request is on no queue to be sent from |
//! | [`Transport::send`] | an RPC task, perhaps not the request's own | not for memory | `XPRT_LOCKED`; the request is pinned |
//! | [`Transport::flush`] | as `send`, or when `XPRT_LOCKED` is given up | no | `XPRT_LOCKED`, perhaps `transport_lock` |
//! | [`Transport::close`] | `xprtiod`, a sender, the connect work, destruction | yes | `XPRT_LOCKED`, or nobody else is left |
//! | [`Transport::release`], [`Transport::unanswered`] | the request's own task | yes | nothing |
//! | [`Transport::callback_max_payload`] | whoever asks | no | an RCU read-side section |
//! | completion and CM handlers, through [`XprtLink::with`] | the transport's own work | no | an RCU read-side section |
//!
//! `XPRT_LOCKED` is a bit lock that sunrpc takes for us. It excludes connect, send and close from
//! each other, so a transport needs no lock of its own between them.
//!
//! # Locks
//!
//! All spin locks here are taken in process context with interrupts on, as sunrpc itself does;
//! completions must therefore not run in softirq context. They nest in no other way than this:
//!
//! * `reserve_lock`, then the lock of the `backlog` queue (in sunrpc): slots.
//! * `queue_lock`, then the lock of the `pending` queue (in sunrpc): replies.
//! * `transport_lock`, then the locks of `sending` and `pending` (in sunrpc): window and state.
//! * `bc_pa_lock`: callbacks. The lock of the callback pool is a leaf.
//!
//! No method of [`Transport`] but `flush` is called with one of them held.
//!
//! # Life of a transport
//!
//! sunrpc counts references to an `rpc_xprt` and calls `destroy` after the last one is gone: the
//! connect work is cancelled, [`Transport::close`] ends every DMA and every completion,
//! [`XprtLink`]s are cut and their readers awaited, then `T`, slots and callbacks are dropped. A
//! completion handler must never drop the last reference, as that waits for `XPRT_LOCKED`, whose
//! holder may be waiting for that very handler; nothing in this crate's interface hands one out.

#![deny(unsafe_op_in_unsafe_fn)]

mod abandoned;
mod addr;
mod backchannel;
mod class;
mod connect;
mod errno;
mod link;
mod ops;
mod pending_reply;
mod pieces;
mod rqst;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod slot;
mod stats;
mod svc_backchannel;
mod svc_call;
mod svc_class;
mod svc_link;
mod svc_ops;
mod svc_rqst;
mod svc_xprt;
pub mod sysctl;
mod transport;
mod xdr_buf;
mod xprt;

pub use raw::addr::{
    Net,
    SockAddr, //
};
pub use raw::memory;

pub use backchannel::{
    CallbackError,
    CallbackRqst, //
};
pub use class::{
    Class,
    ClassRegistration, //
};
pub use link::XprtLink;
pub use pending_reply::PendingReply;
pub use pieces::Pieces;
pub use rqst::{
    ReplyPart,
    Rqst, //
};
pub use stats::Stats;
pub use svc_backchannel::{
    AnsweredCallback,
    SvcBackchannelClass, //
    SvcCallback,
};
pub use svc_call::SvcCall;
pub use svc_class::{
    SvcClass,
    SvcRegistration, //
};
pub use svc_link::SvcLink;
pub use svc_rqst::{
    SavedReplyPages,
    SvcArgs,
    SvcPieces,
    SvcResult, //
};
pub use svc_xprt::{
    SvcConnection,
    SvcListener,
    SvcXprt, //
};
pub use transport::{
    SendError,
    Transport, //
};
pub use xprt::Xprt;
