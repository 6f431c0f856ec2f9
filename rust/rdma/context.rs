// SPDX-License-Identifier: GPL-2.0

//! The context of a connection, as far as the objects below its queue pair know it.

use crate::cm::event::Event;

/// The upper layer's state of one connection: what its id reports to.
///
/// The id and the completion queue of the connection share it, so it must own neither of them. The
/// types are of values that posted work requests carry for the upper layer.
pub trait Context: Sized + Send + Sync + 'static {
    /// What comes back when a chain of local invalidations has completed.
    type InvalidateContext: Send;

    /// What the upper layer calls a Send that follows RDMA Writes, to be told if those fail.
    type SendTag: Copy + Send + Unpin;

    /// The connection manager has news. CM worker, or whoever removes the device; the id's mutex is held.
    fn cm_event(&self, event: Event<'_>);
}
