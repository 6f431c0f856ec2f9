// SPDX-License-Identifier: GPL-2.0

//! Who works when something happens on a socket: it changes hands during the life of a connection.

use kernel::prelude::*;
use kernel::sync::Arc;
use provider::lock::IrqLock;
use provider::new_irq_lock;
use provider::work::Work;
use provider::work::Worker;

/// Something with a worker that can be kicked, whatever it is.
pub(crate) trait Kick: Send + Sync {
    /// Kicks it. Any context.
    fn kick(&self);
}

impl<W: Work> Kick for Arc<W> {
    fn kick(&self) {
        Worker::kick(self);
    }
}

/// Kicks whoever a socket belongs to.
///
/// It keeps that, which keeps the socket, which keeps this: whoever ends a connection [lets go](Self::point_at).
#[pin_data]
pub(crate) struct Waker {
    #[pin]
    target: IrqLock<Option<KBox<dyn Kick>>>,
}

impl Waker {
    /// One that kicks nobody.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                target <- new_irq_lock!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Kicks `target` from now on, and once at once, lest something that happened before is missed. Sleeps.
    pub(crate) fn point_at<W: Work>(&self, target: &Arc<W>) -> Result {
        let boxed: KBox<dyn Kick> = KBox::new(target.clone(), GFP_KERNEL)?;
        self.replace(Some(boxed));
        Worker::kick(target);
        Ok(())
    }

    /// Kicks nobody any more.
    pub(crate) fn let_go(&self) {
        self.replace(None);
    }

    fn replace(&self, target: Option<KBox<dyn Kick>>) {
        // What it was goes outside of the lock.
        drop(
            self.target
                .with(|current| core::mem::replace(current, target)),
        );
    }
}

impl socket::Events for Waker {
    fn event(&self, _: socket::Event) {
        self.target.with(|target| {
            if let Some(target) = target {
                target.kick();
            }
        });
    }
}
