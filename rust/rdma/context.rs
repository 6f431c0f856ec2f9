// SPDX-License-Identifier: GPL-2.0

//! The context of a connection, as far as the objects below its queue pair know it.

use crate::cm::event::{
    Event,
    EventId, //
};
use core::{
    ffi::CStr,
    marker::PhantomData, //
};
use kernel::str::CStrExt;

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
    fn cm_event(&self, event: Event<'_>, id: &EventId<'_>);

    /// The device has news of the queue pair. Perhaps in an interrupt.
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
    /// # Safety
    ///
    /// `raw` is the event of a callback that lasts for `'a`.
    pub(crate) unsafe fn new(raw: &'a raw::ib_event) -> Self {
        Self {
            number: raw.event,
            // SAFETY: The device is there during the callback, and its name ends with a NUL.
            device: unsafe { CStr::from_char_ptr((&raw const (*raw.device).name).cast()) },
            _callback: PhantomData,
        }
    }

    /// The number of the event, an `IB_EVENT_*`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is the end of the connection.
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

    /// The device that reports it.
    pub fn device_name(&self) -> &'a CStr {
        self.device
    }
}
