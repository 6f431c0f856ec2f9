// SPDX-License-Identifier: GPL-2.0

//! The context of a connection, as the objects below its queue pair know it.

use crate::cm::event::{
    Event,
    EventId, //
};
use core::{
    ffi::CStr,
    marker::PhantomData, //
};
use kernel::str::CStrExt;

/// The upper layer's state of a connection, which receives the events of its id.
///
/// The id and the completion queue of the connection share it, so it must own neither of them. The
/// associated types are values that posted work requests carry for the upper layer.
pub trait Context: Sized + Send + Sync + 'static {
    /// The value that comes back when a chain of local invalidations has completed.
    type InvalidateContext: Send;

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

/// An event of a queue pair, during its callback.
pub struct QueueEvent<'a> {
    number: raw::ib_event_type,
    device: &'a CStr,
    _callback: PhantomData<&'a raw::ib_event>,
}

impl<'a> QueueEvent<'a> {
    /// Wraps the event of a callback.
    ///
    /// # Safety
    ///
    /// `raw` is the event of a callback that lasts for `'a`.
    pub(crate) unsafe fn new(raw: &'a raw::ib_event) -> Self {
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
            raw::ib_event_type_IB_EVENT_QP_FATAL
                | raw::ib_event_type_IB_EVENT_QP_REQ_ERR
                | raw::ib_event_type_IB_EVENT_QP_ACCESS_ERR
                | raw::ib_event_type_IB_EVENT_PATH_MIG_ERR
                | raw::ib_event_type_IB_EVENT_DEVICE_FATAL
        )
    }

    /// Returns the name of the device that reports the event.
    pub fn device_name(&self) -> &'a CStr {
        self.device
    }
}
