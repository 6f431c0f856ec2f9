// SPDX-License-Identifier: GPL-2.0

//! Transports of the sunrpc client.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h).
//!
//! # Context and locks of each method
//!
//! The methods of [`Transport`], and the handlers of the transport itself:
//!
//! ```text
//! method                  called from                           sleeps      held
//! ----------------------  ------------------------------------  ----------  ---------------------
//! new                     a task that creates a transport       yes         a module reference
//! connect                 a work item of this crate's queue     yes         XPRT_LOCKED
//! prepare                 the request's own task                for memory  nothing; not queued
//! send                    an RPC task, perhaps of another call  no          XPRT_LOCKED; pinned
//! on_credit_shortage      as send                               no          XPRT_LOCKED
//! flush                   as send, or before the unlock         no          XPRT_LOCKED (*)
//! close                   xprtiod, a sender, the connect work,  yes         XPRT_LOCKED, or no
//!                         destruction                                       other user
//! grow                    a work item                           yes         nothing
//! prepare_for_swap        swapon                                yes         nothing
//! release                 a call's task                         yes         perhaps XPRT_LOCKED
//! conditional_disconnect  a call's task                         yes         perhaps XPRT_LOCKED
//! callback_max_payload    any task                              no          rcu_read_lock
//! WeakXprt::with          the transport's own handlers          no          rcu_read_lock
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
//! ```text
//! transport    the trait that a transport implements, and its line in /proc/self/mountstats
//! class        its registration
//! ops          the functions that sunrpc calls
//! xprt         an rpc_xprt
//! rqst, slots  an rpc_rqst in its slot
//! credits      the congestion window
//! connect      connecting, closing, growth
//! transmit     from a call to Transport::send
//! reply        from a reply to the end of its call
//! timeouts     calls without a reply
//! ```
//!
//! [`Transport`]: crate::Transport
//! [`Transport::close`]: crate::Transport::close
//! [`WeakXprt`]: crate::WeakXprt
//! [`Xprt::open_window`]: crate::Xprt::open_window
//! [`Xprt::set_window`]: crate::Xprt::set_window

pub(crate) mod class;
pub(crate) mod connect;
pub(crate) mod credits;
pub(crate) mod ops;
pub(crate) mod reply;
pub(crate) mod rqst;
pub(crate) mod slots;
pub(crate) mod timeouts;
pub(crate) mod transmit;
pub(crate) mod transport;
pub(crate) mod xprt;
