// SPDX-License-Identifier: GPL-2.0

//! The completions that wait in a completion queue: of a consumer in the kernel in a ring of its
//! own, of a process in the ring that it maps.

use super::sources::{
    SourceId,
    Sources, //
};
use crate::{
    fifo::wrapped,
    user::rings::CompletionRing,
    wr::Status, //
};
use kernel::{
    alloc::KVVec,
    prelude::*, //
};

/// A completion queue entry.
pub(crate) struct Cqe {
    pub(crate) id: u64,
    // The queue pair, as `ib_wc` names it.
    pub(crate) qp: usize,
    // Its number, as a process knows it.
    pub(crate) qp_number: u32,
    pub(crate) status: Status,
    pub(crate) opcode: cbindings::ib_wc_opcode,
    pub(crate) length: u32,
    pub(crate) invalidated: Option<u32>,
    // In the order of the wire.
    pub(crate) immediate: Option<[u8; 4]>,
    // The queue where the request keeps its place, unless a process posted it.
    pub(crate) source: Option<SourceId>,
}

impl Cqe {
    /// Returns the completion as a process sees it.
    fn of_process(&self) -> uabi::cqe::Cqe {
        use uabi::cqe::Opcode;
        uabi::cqe::Cqe {
            id: self.id,
            opcode: match self.opcode {
                cbindings::ib_wc_opcode_IB_WC_RDMA_WRITE => Opcode::Write,
                cbindings::ib_wc_opcode_IB_WC_RDMA_READ => Opcode::Read,
                // The library knows no Immediate Data: a Receive that it took has no octets.
                cbindings::ib_wc_opcode_IB_WC_RECV
                | cbindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => Opcode::Receive,
                _ => Opcode::Send,
            },
            status: self.status.of_process(),
            length: self.length,
            invalidated: self.invalidated,
            qp: self.qp_number,
        }
    }
}

/// The completions that the consumer is notified of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    /// None.
    No,
    /// If the peer asks for it (RFC 5040, section 5.3), or the request failed.
    // Argues for P5.3-6.
    Solicited,
    /// The next one.
    NextCompletion,
}

/// The ring of a consumer in the kernel.
pub(super) struct CqRing {
    // INVARIANT: `first` is an index of `entries` or 0, and `len` is at most their number.
    entries: KVVec<Option<Cqe>>,
    first: usize,
    len: usize,
    armed: Armed,
    pub(super) sources: Sources,
}

impl CqRing {
    /// Creates an empty ring. Sleeps.
    pub(super) fn new(capacity: usize) -> Result<Self> {
        Ok(Self {
            entries: Self::slots(capacity)?,
            first: 0,
            len: 0,
            armed: Armed::No,
            sources: Sources::new(),
        })
    }

    /// Allocates empty slots. Sleeps.
    pub(super) fn slots(capacity: usize) -> Result<KVVec<Option<Cqe>>> {
        let mut entries = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            entries.push(None, GFP_KERNEL)?;
        }
        Ok(entries)
    }

    /// Returns how many entries there is room for.
    pub(super) fn room(&self) -> usize {
        self.entries.len()
    }

    /// Arms the queue, unless it is for more already. Returns how many completions are there.
    pub(super) fn arm(&mut self, wanted: Armed) -> usize {
        if self.armed != Armed::NextCompletion {
            self.armed = wanted;
        }
        self.len
    }

    /// Returns whether the consumer would be notified of a completion that asks for it.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn is_armed(&self) -> bool {
        self.armed != Armed::No
    }

    /// Moves to `entries`, if those are more. Returns the others.
    pub(super) fn grow(&mut self, entries: KVVec<Option<Cqe>>) -> KVVec<Option<Cqe>> {
        if entries.len() <= self.entries.len() {
            return entries;
        }
        let mut before = core::mem::replace(&mut self.entries, entries);
        let (mut at, mut left) = (core::mem::replace(&mut self.first, 0), self.len);
        for slot in &mut self.entries {
            if left == 0 {
                break;
            }
            *slot = before.get_mut(at).and_then(Option::take);
            at = wrapped(at + 1, before.len());
            left -= 1;
        }
        before
    }

    /// Removes the entries of a queue pair.
    pub(super) fn purge(&mut self, qp: usize) {
        for _ in 0..self.len {
            let entry = self.entries.get_mut(self.first).and_then(Option::take);
            self.first = wrapped(self.first + 1, self.entries.len());
            self.len -= 1;
            match entry {
                Some(entry) if entry.qp == qp => self.sources.polled(entry.source),
                Some(entry) => _ = self.push(entry),
                None => (),
            }
        }
    }

    /// Adds an entry. Returns false if there is no room.
    fn push(&mut self, entry: Cqe) -> bool {
        let capacity = self.entries.len();
        if self.len == capacity {
            return false;
        }
        let at = wrapped(self.first + self.len, capacity);
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = Some(entry);
            self.len += 1;
        }
        true
    }

    /// Removes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<Cqe> {
        while self.len > 0 {
            let entry = self.entries.get_mut(self.first).and_then(Option::take);
            self.first = wrapped(self.first + 1, self.entries.len());
            self.len -= 1;
            if let Some(entry) = entry {
                self.sources.polled(entry.source);
                return Some(entry);
            }
        }
        None
    }
}

/// The entries of a completion queue.
pub(super) enum Entries {
    /// Those of a consumer in the kernel.
    Private(CqRing),
    /// Those of a process.
    Mapped(CompletionRing),
}

/// The entries of a completion queue, and their count of losses: under its lock.
pub(super) struct State {
    pub(super) entries: Entries,
    // The number of completions that were lost.
    pub(super) overruns: u64,
}

impl State {
    /// Adds a completion. Returns false if there is no room. Says whether to notify.
    pub(super) fn push(&mut self, entry: Cqe, solicited: bool) -> (bool, bool) {
        let ring = match &mut self.entries {
            Entries::Private(ring) => ring,
            Entries::Mapped(ring) => {
                let completion = entry.of_process();
                let pushed = ring.push(&completion);
                return (pushed, pushed && ring.is_due(&completion, solicited));
            }
        };
        let failed = entry.status != Status::Success;
        let pushed = ring.push(entry);
        let notify = match ring.armed {
            Armed::NextCompletion => true,
            Armed::Solicited => solicited || failed,
            Armed::No => false,
        };
        if notify {
            ring.armed = Armed::No;
        }
        (pushed, notify)
    }

    /// Returns the entries of a consumer in the kernel.
    pub(super) fn private(&mut self) -> Option<&mut CqRing> {
        match &mut self.entries {
            Entries::Private(ring) => Some(ring),
            Entries::Mapped(_) => None,
        }
    }
}
