// SPDX-License-Identifier: GPL-2.0

//! The context of a connection: the methods of the upper layer that handle events and completions.

use crate::prelude::*;
use crate::{
    cm::{
        Event,
        EventId, //
    },
    qp::{
        Completing,
        Invalidated,
        QueuePair, //
    },
    receive::{
        Buffer,
        Message, //
    },
    send::PostedSend,
    sq::SendPolicy, //
};
use core::marker::PhantomData;
use ext::memory::Page;

/// The upper layer's state of a connection, which receives the events of its id.
///
/// The id and the completion queue of the connection share it, so it must own neither of them. The
/// associated types are values that posted work requests carry for the upper layer.
///
/// # Examples
///
/// ```
/// use kernel::sync::atomic::{
///     AtomicFlag,
///     Relaxed, //
/// };
/// use rdma::{
///     cm::{
///         Event,
///         EventId, //
///     },
///     Context, //
/// };
///
/// struct Connection {
///     open: AtomicFlag,
/// }
///
/// impl Context for Connection {
///     type InvalidateContext = ();
///     type MessageContext = ();
///     type SendTag = u32;
///
///     fn cm_event(&self, event: Event<'_>, _id: &EventId<'_>) {
///         match event {
///             Event::Established { .. } => self.open.store(true, Relaxed),
///             // A removed device waits until the id is dropped, by a task of the upper layer.
///             Event::Disconnected | Event::DeviceRemoval => self.open.store(false, Relaxed),
///             _ => (),
///         }
///     }
/// }
/// ```
pub trait Context: Sized + Send + Sync + 'static {
    /// The value that comes back when a chain of local invalidations has completed.
    type InvalidateContext: Send;

    /// Data of the upper layer beside a [`Message`], in its Receive buffer, so that it needs no
    /// memory of its own. The default value is that of a message that was just received.
    type MessageContext: Default + Send;

    /// The upper layer's name for a Send that follows RDMA Writes, reported if those fail.
    type SendTag: Copy + Send + Unpin;

    /// Handles an event of the connection manager. Called in a CM worker, or in the task that
    /// removes the device, with the id's mutex held.
    fn cm_event(&self, event: Event<'_>, id: &EventId<'_>);

    /// Handles an event of the queue pair that the device reports. May be called in an interrupt.
    fn queue_event(&self, event: &QueueEvent<'_>) {
        let _ = event;
    }
}

/// The methods of an upper layer that handle completions of its queue pair.
pub trait Handler: Context {
    /// The upper layer's policy of the Send queue.
    type SendPolicy: SendPolicy<Self>;

    /// Handles a message that arrived on `queue`, and that may have invalidated a region.
    fn received(
        &self,
        queue: &mut Completing<'_, Self>,
        message: Message<Self>,
        invalidated: Option<Invalidated<'_, Self>>,
    );

    /// Handles a Receive that ended without a message: the connection is being lost.
    fn receive_failed(
        &self,
        queue: &mut Completing<'_, Self>,
        buffer: Buffer<Self>,
        failure: WcStatus,
    );

    /// Handles the failure of any other request: the connection is lost.
    fn request_failed(&self, failure: WcStatus);

    /// Handles the failure of an RDMA Write that precedes the Send with this tag: the connection is
    /// lost.
    fn write_failed(&self, tag: Self::SendTag, failure: WcStatus) {
        let _ = tag;
        self.request_failed(failure);
    }

    /// Observes a reply that is posted next. Called with the queue's lock held; must not sleep.
    fn reply_posted(&self, send: PostedSend<'_, Self>) {
        let _ = send;
    }

    /// Handles a completion that returned Send buffers or SQ credits to `queue`, for which
    /// [`SendPolicy::wakes_waiter`] reported a waiter.
    fn send_space_freed(&self, queue: &QueuePair<Self>);

    /// Handles the completion of a chain of invalidations: every region is invalid, unmapped and
    /// free for reuse.
    fn invalidated(
        &self,
        queue: &mut Completing<'_, Self>,
        regions: mr::Idle<Self>,
        context: Self::InvalidateContext,
    );

    /// Handles the failure of a chain of invalidations: its regions may still be valid, and the
    /// connection is lost. Also called by [`QueuePair::drain`], for chains whose completion the
    /// device lost; must not drain the queue pair.
    fn invalidate_failed(&self, regions: mr::Registered<Self>, context: Self::InvalidateContext);
}

/// An upper layer that posts RDMA Reads.
pub trait ReadHandler: Handler {
    /// The value that comes back when the Reads of a [`Transfer`](crate::transfer::Transfer) have
    /// completed.
    type ReadDone: Send;

    /// Handles the completion of all RDMA Reads of a transfer. Their memory is not mapped any more.
    /// `pages` are those that were moved into the transfer
    /// ([`Transfer::set_pages`](crate::transfer::Transfer::set_pages)).
    fn read_done(&self, queue: &QueuePair<Self>, done: Self::ReadDone, pages: KVec<Page>);

    /// Handles the failure of an RDMA Read. The connection is lost. Pages that were moved into the
    /// transfer have been freed, or are, when no region that covers them can be valid any more.
    fn read_failed(&self, queue: &QueuePair<Self>, done: Self::ReadDone, failure: WcStatus);

    /// Handles a failure to post the next batch of a transfer, although no posted request has
    /// failed. The connection is lost.
    fn batch_not_posted(&self);
}

/// An event of a queue pair, during its callback.
pub struct QueueEvent<'a> {
    number: cbindings::ib_event_type,
    device: &'a CStr,
    _callback: PhantomData<&'a cbindings::ib_event>,
}

impl<'a> QueueEvent<'a> {
    /// Wraps the event of a callback.
    ///
    /// # Safety
    ///
    /// `raw` is the event of a callback that lasts for `'a`.
    pub(crate) unsafe fn new(raw: &'a cbindings::ib_event) -> Self {
        Self {
            number: raw.event,
            // SAFETY: The core passes a device that is live during the callback, and whose name
            // ends with a NUL.
            device: unsafe { CStr::from_char_ptr((&raw const (*raw.device).name).cast()) },
            _callback: PhantomData,
        }
    }

    /// Returns the number of the event, an `IB_EVENT_*`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether the event ends the connection.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.number,
            cbindings::ib_event_type_IB_EVENT_QP_FATAL
                | cbindings::ib_event_type_IB_EVENT_QP_REQ_ERR
                | cbindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR
                | cbindings::ib_event_type_IB_EVENT_PATH_MIG_ERR
                | cbindings::ib_event_type_IB_EVENT_DEVICE_FATAL
        )
    }

    /// Returns the name of the device that reports the event.
    pub fn device_name(&self) -> &'a CStr {
        self.device
    }
}
