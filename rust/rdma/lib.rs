// SPDX-License-Identifier: GPL-2.0

//! Safe in-kernel verbs and RDMA CM for one user: reliable connections whose
//! upper layer owns every buffer by value.
//!
//! # Who owns what
//!
//! ```text
//! cm::Id  <-  ProtectionDomain  <-  regions, Receive and Send buffers
//!    ^                ^
//!    +------- QueuePair (with its completion queue and Send queue)
//! ```
//!
//! An arrow points at what is kept alive. The [`cm::Id`] goes last; the RDMA CM
//! holds back the removal of a device until every id bound to it is destroyed, so
//! nothing of ours can outlive its device, and no second registration with the
//! core is needed. An upper layer that sees [`cm::Event::DeviceRemoval`] tears its
//! connection down; the device waits for it.
//!
//! # What the device may touch
//!
//! * A Receive buffer is moved into [`QueuePair::post_receives`] and comes back in
//!   [`Handler::received`] or [`Handler::receive_failed`].
//! * A Send buffer is moved into [`QueuePair::post_send`]; the queue pair takes it
//!   back when a completion covers it.
//! * Memory that a Send takes along, and that Reads and Writes are of, is owned by what was posted
//!   ([`transfer`]) until a completion covers that, or the queue pair is drained; if the device lost a Read,
//!   until the queue pair is freed.
//! * Registered memory is an [`mr::Registered`] list. The only ways out are a
//!   remote invalidation, a local one that completed, be it a request of its own or
//!   part of a Read, and dropping it, which deregisters. All three end with the
//!   memory unmapped and its owners ([`memory::Piece`]) released, in that order.
//!
//! So no buffer under DMA is reachable by safe code, whatever the order in which
//! an upper layer drops its values.
//!
//! # Contexts
//!
//! [`Handler`] methods run in the completion queue's worker (process context,
//! never two at a time for one queue pair) or, for CM events, under the id's mutex
//! in the CM's worker or in the task that removes the device. What a device lost is
//! told in the task that shuts the queue pair down. They must not sleep for long, and
//! must not drop the last reference to the id, the protection domain or the queue pair.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod cm;
pub mod device;
pub mod error;
pub mod listener;
pub mod mr;
pub mod qp;
pub mod receive;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod send;
pub mod transfer;

mod chain;
mod cq;
mod dma;
mod in_flight;
mod invalidation;
mod pd;
mod posted_transfer;
mod scatter;
mod sink;

pub use cq::WcStatus;
pub use pd::ProtectionDomain;
pub use qp::QueuePair;
pub use shared::{
    addr,
    memory, //
};

/// Whether one more line about connections may go to the kernel log. Peers can cause as many as they
/// like.
pub fn may_log() -> bool {
    use kernel::str::CStrExt;
    // SAFETY: May be called anywhere; the string is static.
    unsafe { raw::__printk_ratelimit(c"rpcrdma".as_char_ptr()) != 0 }
}

/// What an upper layer does when its connection has news.
///
/// The implementor is the *context* of one connection, shared by its id and its
/// completion queue, and so must own neither of them.
pub trait Handler: Sized + Send + Sync + 'static {
    /// What comes back when a chain of local invalidations has completed.
    type InvalidateContext: Send;

    /// The connection manager has news. CM worker, or whoever removes the device; the id's mutex is held.
    fn cm_event(&self, event: cm::Event<'_>);

    /// A message arrived, and perhaps invalidated a region. `queue` posts to the queue pair that it
    /// arrived on.
    fn received(
        &self,
        queue: &QueuePair<Self>,
        message: receive::Message<Self>,
        invalidated: Option<receive::Invalidated<'_, Self>>,
    );

    /// A Receive ended without a message: the connection is being lost.
    fn receive_failed(&self, buffer: receive::Buffer<Self>, failure: WcStatus);

    /// Another request failed: the connection is lost.
    fn request_failed(&self, failure: WcStatus);

    /// An RDMA Write failed that goes with the Send of a message whose first word, as it is on the wire,
    /// is `message`: the connection is lost.
    fn write_failed(&self, message: [u8; 4], failure: WcStatus) {
        let _ = message;
        self.request_failed(failure);
    }

    /// There are Send buffers, or room for Reads and Writes, again, after somebody found too few.
    fn send_resumed(&self);

    /// Every region of the chain is invalid, unmapped and free for reuse.
    fn invalidated(
        &self,
        queue: &QueuePair<Self>,
        regions: mr::Idle<Self>,
        context: Self::InvalidateContext,
    );

    /// The chain did not complete; its regions may still be valid. The connection is lost. Also called by
    /// [`QueuePair::drain`], for chains whose completion the device lost; must not drain the queue pair.
    fn invalidate_failed(&self, regions: mr::Registered<Self>, context: Self::InvalidateContext);
}
