// SPDX-License-Identifier: GPL-2.0

//! The policy of a connection's Send queue.
//!
//! The queue keeps its state under its own lock ([`rdma::SendPolicy`]), so that an RPC takes one
//! lock to get a buffer and credits, and one to post.

use super::{
    send_buffers::SendBuffers,
    signalling::Signalling,
    spare_transfers::SpareTransfers,
    sq_credits::SqCredits, //
};
use rdma::{
    send::Buffer,
    transfer::EmptyTransfer,
    Context,
    NextSend, //
};

/// The policy of a connection's Send queue, and its state.
pub(crate) struct SendPolicy<H: Context> {
    pub(super) buffers: SendBuffers<H>,
    signalling: Signalling,
    pub(super) credits: SqCredits,
    pub(super) transfers: SpareTransfers<H>,
    /// Whether a caller got no buffer or no credits since the last completion, and waits for the
    /// next.
    starved: bool,
}

impl<H: Context> SendPolicy<H> {
    pub(super) fn new(buffers: SendBuffers<H>, credits: SqCredits) -> Self {
        Self {
            buffers,
            signalling: Signalling::new(),
            credits,
            transfers: SpareTransfers::new(),
            starved: false,
        }
    }

    /// Takes a free Send buffer. If there is none, the next completion that returns something wakes
    /// the caller.
    pub(super) fn take_buffer(&mut self) -> Option<Buffer<H>> {
        let buffer = self.buffers.take();
        self.starved |= buffer.is_none();
        buffer
    }

    /// Takes a free Send buffer if more are free than one completion can cover.
    pub(super) fn take_spare_buffer(&mut self) -> Option<Buffer<H>> {
        // CAST: A small number.
        self.buffers.take_spare(Signalling::INTERVAL as usize)
    }

    /// Reserves SQ credits. If too few are free, the next completion that returns something wakes
    /// the caller.
    pub(super) fn reserve(&mut self, credits: usize) -> bool {
        let reserved = self.credits.reserve(credits);
        self.starved |= !reserved;
        reserved
    }

    /// Changes a reservation of `reserved` SQ credits to `credits`. If too few are free, releases
    /// all of them, and the next completion that returns something wakes the caller.
    pub(super) fn resize(&mut self, reserved: usize, credits: usize) -> bool {
        self.credits.release(reserved);
        self.reserve(credits)
    }
}

impl<H: Context> rdma::SendPolicy<H> for SendPolicy<H> {
    #[inline]
    fn asks_for_completion(&mut self, send: &NextSend) -> bool {
        // CAST: A small number.
        let last_buffer = self.buffers.needs_completion(Signalling::INTERVAL as usize);
        self.signalling.asks_for_completion(send, last_buffer)
    }

    #[inline]
    fn put_back(&mut self, buffer: Buffer<H>) {
        self.buffers.put_back(buffer);
    }

    #[inline]
    fn release(&mut self, credits: usize) {
        self.credits.release(credits);
    }

    #[inline]
    fn keep(&mut self, transfer: EmptyTransfer<H>) -> Option<EmptyTransfer<H>> {
        self.transfers.keep(transfer)
    }

    #[inline]
    fn wakes_waiter(&mut self) -> bool {
        core::mem::take(&mut self.starved)
    }
}
