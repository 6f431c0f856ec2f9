// SPDX-License-Identifier: GPL-2.0

//! A pool of completed transfers, whose lists the next ones need not allocate.

use rdma::{
    transfer::{
        EmptyTransfer,
        EmptyTransfers, //
    },
    Context, //
};

/// The empty transfers of a connection.
pub(super) struct SpareTransfers<H: Context> {
    kept: EmptyTransfers<H>,
    /// The number of bytes that may be added.
    budget: usize,
}

impl<H: Context> SpareTransfers<H> {
    /// The largest number of bytes: a few long transfers, or many short ones.
    const BYTES: usize = 96 << 10;

    pub(super) fn new() -> Self {
        Self {
            kept: EmptyTransfers::new(),
            budget: Self::BYTES,
        }
    }

    pub(super) fn take(&mut self) -> Option<EmptyTransfer<H>> {
        let transfer = self.kept.pop()?;
        self.budget = self.budget.saturating_add(transfer.footprint());
        Some(transfer)
    }

    /// Takes all transfers.
    pub(super) fn take_all(&mut self) -> EmptyTransfers<H> {
        self.budget = Self::BYTES;
        core::mem::take(&mut self.kept)
    }

    /// Keeps `transfer`, or returns it if the pool is full.
    pub(super) fn keep(&mut self, transfer: EmptyTransfer<H>) -> Option<EmptyTransfer<H>> {
        let Some(budget) = self.budget.checked_sub(transfer.footprint()) else {
            return Some(transfer);
        };
        self.budget = budget;
        self.kept.push(transfer);
        None
    }
}
