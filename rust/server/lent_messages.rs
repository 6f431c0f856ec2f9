// SPDX-License-Identifier: GPL-2.0

//! The Receives of messages whose memory is lent to sunrpc.
//!
//! sunrpc reads a call from the message that it came in until it replies, and a file system may
//! take hours for that. The connection may end meanwhile, and the removal of its device waits for
//! everything that is mapped for it. So sunrpc gets only the memory of a message. The Receive stays
//! here and is freed with the connection; after that there is no message to reply to.

use kernel::{
    alloc::Flags,
    prelude::*, //
};
use rdma::{
    receive::{
        Message,
        MessageMemory,
        MessageReceive, //
    },
    Context, //
};

/// The Receives, each at the index that its message was lent with.
pub(super) struct LentMessages<H: Context> {
    lent: KVec<Option<MessageReceive<H>>>,
    /// The free indices. Its capacity suffices for all.
    free: KVec<usize>,
}

impl<H: Context> LentMessages<H> {
    /// A list without entries.
    pub(super) const EMPTY: Self = Self {
        lent: KVec::new(),
        free: KVec::new(),
    };

    /// The number of entries of the shortest list.
    const FIRST: usize = 8;

    /// Creates an empty list for `count` messages. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        let mut lent = KVec::with_capacity(count, flags)?;
        let mut free = KVec::with_capacity(count, flags)?;
        for number in 0..count {
            lent.push(None, flags)?;
            free.push(number, flags)?;
        }
        Ok(Self { lent, free })
    }

    /// Returns the number of entries of the next longer list.
    pub(super) fn next_capacity(&self) -> usize {
        self.lent.len().saturating_mul(2).max(Self::FIRST)
    }

    /// Moves all Receives with their indices to `other`, which is empty, and swaps the two, if
    /// `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        let count = self.lent.len();
        if other.lent.len() <= count {
            return;
        }
        for (to, from) in other.lent.iter_mut().zip(self.lent.iter_mut()) {
            *to = from.take();
        }
        let Self { lent, free } = other;
        free.retain(|number| lent.get(*number).is_some_and(Option::is_none));
        core::mem::swap(self, other);
    }

    /// Adds the Receive of `message`. Returns its memory and its index, or the message if no entry
    /// is free.
    pub(super) fn add(
        &mut self,
        message: Message<H>,
    ) -> Result<(MessageMemory, usize), Message<H>> {
        let number = self.free.pop();
        let Some((number, entry)) =
            number.and_then(|number| Some((number, self.lent.get_mut(number)?)))
        else {
            return Err(message);
        };
        let (memory, receive) = message.split();
        *entry = Some(receive);
        Ok((memory, number))
    }

    /// Takes the Receive at this index. [`None`] if there is none.
    pub(super) fn take(&mut self, number: usize) -> Option<MessageReceive<H>> {
        let receive = self.lent.get_mut(number)?.take()?;
        // The capacity suffices.
        let _ = self.free.push_within_capacity(number);
        Some(receive)
    }

    /// Takes all entries if no message is lent.
    pub(super) fn take_spare(&mut self) -> Option<Self> {
        let is_spare = self.free.len() == self.lent.len();
        is_spare.then(|| core::mem::replace(self, Self::EMPTY))
    }
}
