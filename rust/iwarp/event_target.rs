// SPDX-License-Identifier: GPL-2.0

//! The indirection from a socket to the work of its owner, which changes during the life of a
//! connection.

use crate::prelude::*;
use provider::{
    lock::IrqLock,
    new_irq_lock, //
};

/// Work that can be queued, whatever its type is.
pub(crate) trait QueueWork: Send + Sync {
    /// Queues it. May be called in any context.
    fn queue_work(&self);
}

impl<W: Work> QueueWork for Arc<W> {
    fn queue_work(&self) {
        Worker::queue_work(self);
    }
}

/// The target of a socket's events.
///
/// It holds a reference to the target, which holds the socket, which holds this: the owner that
/// ends a connection [clears](Self::clear) it.
#[pin_data]
pub(crate) struct EventTarget {
    #[pin]
    target: IrqLock<Option<KBox<dyn QueueWork>>>,
}

impl EventTarget {
    /// Creates an instance without a target.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                target <- new_irq_lock!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the target, and queues its work once, lest an earlier event is missed. Sleeps.
    pub(crate) fn set<W: Work>(&self, target: &Arc<W>) -> Result {
        let boxed: KBox<dyn QueueWork> = KBox::new(target.clone(), GFP_KERNEL)?;
        self.replace(Some(boxed));
        Worker::queue_work(target);
        Ok(())
    }

    /// Clears the target.
    pub(crate) fn clear(&self) {
        self.replace(None);
    }

    fn replace(&self, target: Option<KBox<dyn QueueWork>>) {
        // The previous target is dropped outside the lock.
        drop(
            self.target
                .with(|current| core::mem::replace(current, target)),
        );
    }
}

impl socket::Events for EventTarget {
    fn event(&self, _: socket::Event) {
        self.target.with(|target| {
            if let Some(target) = target {
                target.queue_work();
            }
        });
    }
}
