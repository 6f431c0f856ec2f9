// SPDX-License-Identifier: GPL-2.0

//! The hand-over of entries in rings that a process maps.
//!
//! A process tells of requests that it posts only if the entry before the first one was taken
//! already. So a consumer of a ring follows these rules, or requests wait for ever:
//!
//! 1. It takes entries in the order of the ring, and clears their flags in that order.
//! 2. It clears the flags of an entry, with a full barrier, before it looks at those of the next
//!    one. If that is not valid then, the process sees the cleared one, and tells.
//! 3. If it stops for another reason, the process does not tell: it looks again when the reason is
//!    gone.
//! 4. An entry is copied once. The process may change it meanwhile, and behind that.
//!
//! A process can set flags behind the consumer for ever, so each caller limits what it takes.
//!
//! # Order of memory
//!
//! The library stores and loads flags and the control word with the order of C's `atomic_store` and
//! `atomic_load`, which is sequentially consistent; a process that does otherwise harms itself. Two
//! things rest on that:
//!
//! * An entry is passed on by its flags: they are stored last, with release, and loaded first, with
//!   acquire. That holds for requests, for completions, and for slots that are given back.
//! * Two ends that each store one word and then look at the other's cannot both miss the other's
//!   store. For that each has a full barrier between its two: here a sequentially consistent fence.
//!   Release and acquire would not do, on x86 neither: a store may pass a later load.

use super::{
    mapping::Mapping,
    shared::Shared,
    Call, //
};
use core::sync::atomic::{
    fence,
    Ordering, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use uabi::{
    cqe::{
        Arm,
        Cqe,
        Store, //
    },
    response::MappedRing,
    ring::{
        is_valid,
        Queue,
        Ring,
        Slots, //
    }, //
};

/// Allocates the memory of a ring, which is charged to the process that calls. Sleeps.
pub(crate) fn memory(queue: Queue, slots: Slots) -> Result<Arc<Shared>> {
    Shared::new(queue.mmap_len(slots))
}

/// A ring of requests that a process may map until this is dropped.
pub(crate) struct UserRing {
    mapping: Mapping,
    slots: Slots,
}

impl UserRing {
    /// Creates a ring for the process that calls. Sleeps.
    ///
    /// # Safety
    ///
    /// The first value is dropped before the context of the process is freed.
    pub(crate) unsafe fn new(
        call: Call,
        queue: Queue,
        slots: Slots,
    ) -> Result<(Self, RequestRing)> {
        let memory = memory(queue, slots)?;
        // SAFETY: The caller promises it.
        let mapping = unsafe { Mapping::new(call, memory.clone())? };
        Ok((
            Self { mapping, slots },
            RequestRing::new(memory, queue, slots),
        ))
    }

    /// Returns what the process is told of it.
    pub(crate) fn mapped(&self) -> Result<MappedRing> {
        Ok(MappedRing {
            slots: self.slots,
            offset: self.mapping.offset()?,
        })
    }
}

/// A ring of requests, which this end takes.
pub(crate) struct RequestRing {
    memory: Arc<Shared>,
    place: Ring,
}

impl RequestRing {
    pub(crate) fn new(memory: Arc<Shared>, queue: Queue, slots: Slots) -> Self {
        Self {
            memory,
            place: Ring::new(queue, slots),
        }
    }

    /// Returns whether there is a request. May be called in any context.
    pub(crate) fn has_request(&self) -> bool {
        self.has_request_behind(0)
    }

    /// Returns whether there is a request behind this many others, if those are there. May be
    /// called in any context.
    pub(crate) fn has_request_behind(&self, others: u32) -> bool {
        let flags = self.place.flags_offset_ahead(others);
        // Acquire: the entry is loaded after its flags.
        is_valid(self.memory.load_16(flags, Ordering::Acquire))
    }

    /// Takes a copy of the next request, if there is one. May be called in any context.
    pub(crate) fn take<const WORDS: usize>(&mut self) -> Option<[u64; WORDS]> {
        if !self.has_request() {
            return None;
        }
        let mut copy = [0; WORDS];
        for (at, word) in (self.place.offset()..)
            .step_by(size_of::<u64>())
            .zip(&mut copy)
        {
            *word = self.memory.load_64(at, Ordering::Relaxed);
        }
        // The process may write the slot as soon as it sees this.
        let flags = self.place.flags_offset();
        // Release: the copy is made by then.
        self.memory.store_16(flags, 0, Ordering::Release);
        // Rule 2. The process stores flags that are valid, and then loads these.
        fence(Ordering::SeqCst);
        self.place.advance();
        Some(copy)
    }
}

/// A ring of completions, which this end writes.
pub(crate) struct CompletionRing {
    memory: Arc<Shared>,
    place: Ring,
}

impl CompletionRing {
    pub(crate) fn new(memory: Arc<Shared>, slots: Slots) -> Self {
        Self {
            memory,
            place: Ring::new(Queue::Completion, slots),
        }
    }

    /// Writes a completion. Returns false if the process did not take what is in the slot. May be
    /// called in any context.
    pub(crate) fn push(&mut self, completion: &Cqe) -> bool {
        let at = self.place.offset();
        let head = at.saturating_add(Cqe::FLAGS_WORD);
        // Acquire: the process has copied what was here before it cleared the flags.
        if !Cqe::is_free(self.memory.load_64(head, Ordering::Acquire)) {
            return false;
        }
        let stores = completion.encode();
        let store = |store: Store, order| {
            let offset = at.saturating_add(store.offset);
            self.memory.store_64(offset, store.word, order);
        };
        for word in stores.first {
            store(word, Ordering::Relaxed);
        }
        // Release: whoever finds the flags finds the other words.
        store(stores.last, Ordering::Release);
        self.place.advance();
        true
    }

    /// Returns whether the process is to be told of a completion that was just written. It asked
    /// for it once. May be called in any context.
    pub(crate) fn is_due(&self, completion: &Cqe, solicited: bool) -> bool {
        // A process that asks sees the completion, or is told: it stores the control word, and then
        // loads the flags that were just stored here.
        fence(Ordering::SeqCst);
        let control = self.place.control_offset();
        let asked = Arm::of(self.memory.load_32(control, Ordering::Relaxed));
        if !asked.is_due(solicited, completion.status) {
            return false;
        }
        // Nothing is passed on by this word. A process that asks again meanwhile is told once for
        // both, and finds this completion, which was stored before.
        self.memory.swap_32(control, Arm::NONE, Ordering::SeqCst);
        true
    }
}
