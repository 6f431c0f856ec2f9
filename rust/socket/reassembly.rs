// SPDX-License-Identifier: GPL-2.0

//! Reassembly of a frame that does not fit in the receive buffer.
//!
//! A frame may be longer than the window of its connection: nearly 64 KiB over loopback, while a
//! system or an owner may keep receive buffers small. In the receive queue it would never become
//! complete. So its octets are taken out, and the rest is when it arrives. Memory is allocated for
//! octets that did arrive, not for the length that the frame promises.

use crate::queue::ReceiveQueue;
use iwraw::memory::Piece;
use kernel::error::code::EINVAL;
use kernel::error::Result;
use kernel::prelude::*;

const CHUNK: usize = 4096;

/// The first octets of a frame.
pub(crate) struct Reassembly {
    /// All but the last are full.
    chunks: KVec<KBox<[u8; CHUNK]>>,
    filled: usize,
    /// The length of the frame, once its head is there.
    len: Option<usize>,
}

impl Reassembly {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: KVec::new(),
            filled: 0,
            len: None,
        }
    }

    /// Returns the number of octets that are here.
    #[inline]
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    #[inline]
    pub(crate) fn len(&self) -> Option<usize> {
        self.len
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = Some(len);
    }

    /// Drops the frame, and frees its memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Takes octets from `queue` until there are `wanted` or no more arrived. Sleeps for memory.
    /// After an error the octets that it could not take are still in the queue.
    pub(crate) fn fill(&mut self, queue: &mut ReceiveQueue<'_>, wanted: usize) -> Result {
        loop {
            let missing = wanted.saturating_sub(self.filled);
            let now = missing.min(queue.available());
            if now == 0 {
                break;
            }
            let (at, offset) = (self.filled / CHUNK, self.filled % CHUNK);
            if at == self.chunks.len() {
                #[cfg(RPCRDMA_SELFTEST)]
                crate::selftest::Shortage::strike()?;
                self.chunks.push(KBox::zeroed(GFP_KERNEL)?, GFP_KERNEL)?;
            }
            let chunk = self.chunks.get_mut(at).ok_or(EINVAL)?;
            let room = chunk.get_mut(offset..).ok_or(EINVAL)?;
            let len = now.min(room.len());
            queue.find_next();
            queue.copy_to_slice(0, room.get_mut(..len).ok_or(EINVAL)?)?;
            queue.take(len)?;
            self.filled = self.filled.saturating_add(len);
        }
        // The window opens again.
        queue.give_back();
        Ok(())
    }

    pub(crate) fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result {
        let mut rest = to;
        self.visit(offset, rest.len(), |run| {
            let (here, behind) = core::mem::take(&mut rest)
                .split_at_mut_checked(run.len())
                .ok_or(EINVAL)?;
            here.copy_from_slice(run);
            rest = behind;
            Ok(())
        })
    }

    pub(crate) fn copy_to(&self, offset: usize, to: Piece<'_>) -> Result {
        let mut done = 0;
        self.visit(offset, usize::try_from(to.len())?, |run| {
            let here = to.slice(done, u32::try_from(run.len())?).ok_or(EINVAL)?;
            // SAFETY: By its type invariants a piece is writable as long as it is there, and this
            // one is as long as `run`. The helper is compiled apart, so others may write there
            // meanwhile; nobody creates a reference to such memory, so it does not overlap `run`.
            unsafe {
                iwraw::memcpy(
                    here.address().as_ptr().cast(),
                    run.as_ptr().cast(),
                    run.len(),
                )
            };
            done = done.saturating_add(here.len());
            Ok(())
        })
    }

    pub(crate) fn crc32c(&self, mut sum: u32, offset: usize, len: usize) -> Result<u32> {
        self.visit(offset, len, |run| {
            // SAFETY: A slice is valid for reads of its length.
            sum = unsafe { iwraw::crc32c(sum, run.as_ptr().cast(), run.len()) };
            Ok(())
        })?;
        Ok(sum)
    }

    /// Calls `show` with `len` octets from `offset`, chunk by chunk. [`EINVAL`] if they are not
    /// here.
    fn visit(&self, offset: usize, len: usize, mut show: impl FnMut(&[u8]) -> Result) -> Result {
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        if end > self.filled {
            return Err(EINVAL);
        }
        let mut at = offset;
        while at < end {
            let chunk = self.chunks.get(at / CHUNK).ok_or(EINVAL)?;
            let from = at % CHUNK;
            let here = (end - at).min(CHUNK - from);
            show(chunk.get(from..from + here).ok_or(EINVAL)?)?;
            at += here;
        }
        Ok(())
    }
}
