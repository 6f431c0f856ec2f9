// SPDX-License-Identifier: GPL-2.0

//! Changes of the addresses of network devices, as the listeners of a device learn of them.
//!
//! The end of a notifier waits for a grace period of RCU. So a device has one, and a table of its
//! listeners, of which any number may stop without waiting for anything.

use crate::prelude::*;
use core::sync::atomic::AtomicBool;
use provider::{
    netdev::{
        AddrNotifier,
        OnAddrChange, //
    },
    table::Table, //
};
use socket::{
    Event,
    Events, //
};

/// A listener that is told of changes.
struct Watcher {
    changed: AtomicBool,
    events: Arc<EventTarget>,
}

/// Those of a device.
type Watchers = Table<Arc<Watcher>>;

struct TellAll(Arc<Watchers>);

impl OnAddrChange for TellAll {
    fn changed(&self) {
        // One that stops meanwhile has cleared the target of its events.
        self.0.for_each(|watcher| {
            watcher.changed.store(true, Ordering::SeqCst);
            watcher.events.event(Event::StateChanged);
        });
    }
}

/// The notifier of a device.
pub(crate) struct AddrChanges {
    watchers: Arc<Watchers>,
    _notifier: AddrNotifier<TellAll>,
}

impl AddrChanges {
    /// Registers the notifier. Its drop sleeps, as this does.
    pub(crate) fn new() -> Result<Self> {
        let watchers = Arc::pin_init(Watchers::new(), GFP_KERNEL)?;
        let notifier = AddrNotifier::new(TellAll(watchers.clone()))?;
        Ok(Self {
            watchers,
            _notifier: notifier,
        })
    }

    /// Tells a listener of changes from now on, by an event. Sleeps.
    pub(crate) fn watch(&self, events: Arc<EventTarget>) -> Result<AddrWatch> {
        let watcher = Watcher {
            changed: AtomicBool::new(false),
            events,
        };
        let watcher = Arc::new(watcher, GFP_KERNEL)?;
        let number = self.watchers.insert(|_| watcher.clone())?;
        Ok(AddrWatch {
            watchers: self.watchers.clone(),
            number,
            watcher,
        })
    }
}

/// A listener is told of changes as long as this is there.
pub(crate) struct AddrWatch {
    watchers: Arc<Watchers>,
    number: u32,
    watcher: Arc<Watcher>,
}

impl AddrWatch {
    /// Returns what its events are for.
    pub(crate) fn events(&self) -> &Arc<EventTarget> {
        &self.watcher.events
    }

    /// Returns whether addresses have changed since the last call.
    pub(crate) fn take(&self) -> bool {
        self.watcher.changed.swap(false, Ordering::SeqCst)
    }

    /// Lets the next [`take`](Self::take) return true.
    pub(crate) fn put_back(&self) {
        self.watcher.changed.store(true, Ordering::SeqCst);
    }
}

impl Drop for AddrWatch {
    fn drop(&mut self) {
        drop(self.watchers.remove(self.number));
    }
}
