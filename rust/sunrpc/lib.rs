// SPDX-License-Identifier: GPL-2.0

//! Safe `rpc_xprt` and `svc_xprt`: the methods that a transport of sunrpc has to provide, and those
//! that it may call.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`xdr.h`](srctree/include/linux/sunrpc/xdr.h),
//! [`bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h).
//!
//! This crate knows no RDMA. A transport of the client implements [`Transport`] and [`HasSlot`],
//! declares one static [`Class`] and registers it. From then on sunrpc makes transports of it, each
//! an [`Xprt<T>`] with a `T` in it, and calls the methods of [`Transport`]. A transport of the
//! server implements [`SvcListener`] and [`SvcConnection`], and has an [`SvcClass`].
//!
//! # Files
//!
//! ```text
//! clnt/  the client: rpc_xprt, rpc_rqst, rpc_xprt_ops
//! svc/   the server: svc_xprt, svc_rqst, svc_xprt_ops
//! bc/    the reverse direction, where the server calls and the client replies
//!
//! xdr_buf                       the bytes of a message
//! addr, task, weak, workqueue   what clnt, svc and bc share
//! shrinker, sysctl              what the kernel crate lacks
//! prelude                       names that many files use
//! ```

// Kbuild passes this to rustc. rustdoc drops it when it extracts examples.
#![cfg_attr(doctest, no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

mod addr;
mod bc;
mod clnt;
mod prelude;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod shrinker;
mod svc;
pub mod sysctl;
mod task;
mod weak;
mod workqueue;
mod xdr_buf;

pub use ext::memory;
pub use ext::{
    addr::{
        AddrText,
        SockAddr, //
    },
    net::Net, //
};

pub use bc::{
    clnt::{
        CallbackError,
        CallbackRqst, //
    },
    svc::{
        SvcCallback,
        SvcCallbackReply, //
    }, //
};
pub use clnt::{
    class::{
        Class,
        ClassRegistration,
        SvcBackchannelClass, //
    },
    reply::PendingReply,
    rqst::{
        HasSlot,
        ReplyPart,
        Rqst, //
    },
    timeouts::ATTEMPT_MS,
    transport::{
        DisconnectReason,
        SendError,
        Stats,
        Transport, //
    },
    xprt::{
        WeakXprt,
        Xprt, //
    }, //
};
pub use svc::{
    listener::{
        SvcClass,
        SvcRegistration, //
    },
    recv::SvcArgs,
    reply::{
        SavedReplyPages,
        SvcResult, //
    },
    transport::{
        HasSvcCall,
        SvcCall,
        SvcConnection,
        SvcListener, //
    },
    xprt::{
        SvcXprt,
        WeakSvcXprt, //
    }, //
};
pub use weak::Weak;
pub use xdr_buf::Pieces;
