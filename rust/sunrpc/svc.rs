// SPDX-License-Identifier: GPL-2.0

//! Transports of the sunrpc server.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).
//!
//! A transport implements [`SvcListener`] and [`SvcConnection`], declares one static [`SvcClass`]
//! and registers it. sunrpc makes listeners of it when an administrator asks for one; each listener
//! makes connections. Both are an [`SvcXprt`] that contains the transport's state.
//!
//! # Context and locks of each method
//!
//! The methods of [`SvcListener`] (L) and [`SvcConnection`] (C), and the handlers of the transport
//! itself:
//!
//! ```text
//! method                       called from                             sleeps  held
//! ---------------------------  --------------------------------------  ------  ------------------
//! L::listen                    an administrator's task                 yes     the service's mutex
//! L::accept, C::start          a service thread                        yes     XPT_BUSY (listener)
//! C::next                      a service thread                        no      XPT_BUSY
//! C::receive                   a service thread, several at once       yes     nothing
//! C::result_payload, C::reply  the service thread of the call          yes     nothing
//! C::release                   the service thread of the call          yes     nothing
//! C::caller                    an RPC task                             no      rcu_read_lock
//! C::call                      an RPC task                             yes     XPRT_LOCKED (*)
//! L::detach, C::detach         a service thread or an administrator's  yes     XPT_BUSY, for good
//! C::detach, C::close          the work item of SvcXprt::close_later   yes     nothing
//! timer_expired                a work queue                            yes     nothing
//! WeakSvcXprt::with            the transport's own handlers            no      rcu_read_lock
//! ```
//!
//! (*) Of the reverse transport.
//!
//! # Life
//!
//! sunrpc counts references to an `svc_xprt`: one while it is on sunrpc's lists, one for each
//! thread that works for it, one for each call that is deferred. Upper layers have some: nfsd has
//! one for each session that is bound to it. `detach` ends the connection, and a work item releases
//! its resources of the device: a call may take hours, and the removal of the device waits. When
//! the last reference is dropped, another work item stops the timer, revokes the weak references
//! and drops the state. Handlers have no reference.
//!
//! # Files
//!
//! ```text
//! transport  the traits that a transport implements, and the functions of sunrpc's that call them
//! listener   its class, and the creation of listeners and connections
//! xprt       an svc_xprt, its timer, and its end in a work item
//! recv       from a message to a call
//! reply      from a reply to a message
//! ```
//!
//! [`SvcClass`]: crate::SvcClass
//! [`SvcConnection`]: crate::SvcConnection
//! [`SvcListener`]: crate::SvcListener
//! [`SvcXprt`]: crate::SvcXprt

pub(crate) mod listener;
pub(crate) mod recv;
pub(crate) mod reply;
pub(crate) mod transport;
pub(crate) mod xprt;
