// SPDX-License-Identifier: GPL-2.0

//! Sending: octets that TCP copies, and pages that it holds references to.
//!
//! C headers: [`include/linux/socket.h`](srctree/include/linux/socket.h), `struct msghdr`;
//! [`include/linux/net.h`](srctree/include/linux/net.h), `MSG_SPLICE_PAGES`
//!
//! TCP holds references to [pages](Pages) until the peer has acknowledged their octets, or a
//! receiver on the same machine has read them. Meanwhile nobody may write to those octets.

use crate::prelude::*;
use crate::{
    Events,
    TcpConn, //
};
use core::{
    marker::PhantomData,
    sync::atomic::fence, //
};
use ext::{
    alloc_scope::NoIo,
    borrowed::Piece, //
};
use kernel::page::{
    Page,
    PAGE_SIZE, //
};

/// The greatest number of pieces of one call.
pub const MAX_PIECES: usize = 256;

/// The relation of sent octets to those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing follows for now: TCP sends its octets.
    Push,
    /// More follows at once: TCP may wait for it to fill a segment.
    More,
    /// Octets follow that begin a segment of their own. This has an effect only if the call took
    /// all.
    EndOfRecord,
}

/// Octets to send: a Rust slice, or memory of a consumer.
#[derive(Clone, Copy)]
pub struct SendBuf<'a> {
    address: *const u8,
    len: usize,
    _memory: PhantomData<&'a [u8]>,
}

impl<'a> From<&'a [u8]> for SendBuf<'a> {
    #[inline]
    fn from(octets: &'a [u8]) -> Self {
        Self {
            address: octets.as_ptr(),
            len: octets.len(),
            _memory: PhantomData,
        }
    }
}

impl<'a> From<Piece<'a>> for SendBuf<'a> {
    #[inline]
    fn from(piece: Piece<'a>) -> Self {
        Self {
            address: piece.address().as_ptr(),
            // CAST: A `usize` has at least 32 bits here.
            len: piece.len() as usize,
            _memory: PhantomData,
        }
    }
}

impl SendBuf<'_> {
    /// Returns the number of octets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the CRC32C, continued from `sum`, which begins as `!0` and is inverted in the end.
    ///
    /// Others may write to a consumer's octets meanwhile. Then the sum is meaningless, and the peer
    /// will say so.
    pub fn crc32c(&self, sum: u32) -> u32 {
        // SAFETY: Slice or piece, the octets are readable as long as `self`; C does not assume that
        // they do not change.
        unsafe { cbindings::crc32c(sum, self.address.cast(), self.len) }
    }
}

/// The list of pieces of one call, allocated once.
///
/// # Invariants
///
/// It is empty except during a call of [`Self::send`], [`Self::splice`] or [`Self::with`].
pub(crate) struct SendVec {
    list: KVec<cbindings::kvec>,
}

// SAFETY: By the type invariants there are no pointers in it when it passes to another task.
unsafe impl Send for SendVec {}
// SAFETY: `&SendVec` gives access to nothing.
unsafe impl Sync for SendVec {}

impl SendVec {
    /// Allocates the list. Sleeps for memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(MAX_PIECES, GFP_KERNEL)?,
        })
    }

    /// Hands octets to TCP. Returns the number that it took. Sleeps, but does not wait for the
    /// peer.
    pub(crate) fn send<'a>(
        &mut self,
        socket: &Socket,
        pieces: impl IntoIterator<Item = SendBuf<'a>>,
        then: Then,
    ) -> Result<usize> {
        let total = self.fill(pieces);
        // SAFETY: Without `MSG_SPLICE_PAGES` there are no requirements: TCP copies.
        let result = total.and_then(|total| unsafe { self.sendmsg(socket, total, then, 0) });
        self.list.clear();
        result
    }

    /// Gives TCP references to the pages of the octets, if the route's device can gather; else TCP
    /// copies. Returns the number of octets that it took. Sleeps, but does not wait for the peer.
    ///
    /// # Safety
    ///
    /// Nobody writes to the octets while somebody else has a reference to their pages, which are
    /// not of the slab allocator.
    pub(crate) unsafe fn splice(
        &mut self,
        socket: &Socket,
        octets: SendBuf<'_>,
        then: Then,
    ) -> Result<usize> {
        let total = self.fill([octets]);
        // SAFETY: The caller promises the requirements of `MSG_SPLICE_PAGES`.
        let result = total.and_then(|total| unsafe {
            self.sendmsg(socket, total, then, cbindings::MSG_SPLICE_PAGES)
        });
        self.list.clear();
        result
    }

    /// Calls `f` with the list of these octets, and their number.
    pub(crate) fn with<'a, R>(
        &mut self,
        pieces: impl IntoIterator<Item = SendBuf<'a>>,
        f: impl FnOnce(&mut [cbindings::kvec], usize) -> Result<R>,
    ) -> Result<R> {
        let total = self.fill(pieces);
        let result = total.and_then(|total| f(&mut self.list, total));
        self.list.clear();
        result
    }

    fn fill<'a>(&mut self, pieces: impl IntoIterator<Item = SendBuf<'a>>) -> Result<usize> {
        let mut total: usize = 0;
        for octets in pieces {
            let vector = cbindings::kvec {
                iov_base: octets.address.cast_mut().cast::<c_void>(),
                iov_len: octets.len,
            };
            self.list.push_within_capacity(vector).map_err(|_| EINVAL)?;
            total = total.checked_add(octets.len).ok_or(EINVAL)?;
        }
        i32::try_from(total)?;
        Ok(total)
    }

    /// # Safety
    ///
    /// `how` is 0, or it is `MSG_SPLICE_PAGES` and the octets are as for [`Self::splice`].
    unsafe fn sendmsg(
        &mut self,
        socket: &Socket,
        total: usize,
        then: Then,
        how: u32,
    ) -> Result<usize> {
        if total == 0 {
            return Ok(0);
        }
        let then = match then {
            Then::Push => 0,
            Then::More => cbindings::MSG_MORE,
            Then::EndOfRecord => cbindings::MSG_EOR,
        };
        let mut message = cbindings::msghdr {
            msg_flags: cbindings::MSG_DONTWAIT | cbindings::MSG_NOSIGNAL | then | how,
            ..Default::default()
        };
        // SAFETY: `socket` owns the socket. The list has `list.len()` vectors, `total` octets
        // together, all of them readable: they came from `SendBuf` whose lifetime is longer than
        // this call. TCP reads only, and keeps no pointer: it copies them, or has references to
        // their pages, which the caller allows then.
        let taken = unsafe {
            cbindings::kernel_sendmsg(
                socket.as_raw(),
                &mut message,
                self.list.as_mut_ptr(),
                self.list.len(),
                total,
            )
        };
        usize::try_from(taken).map_err(|_| Error::from_errno(taken))
    }
}

/// Contiguously mapped pages.
///
/// # Invariants
///
/// `address` is where `pages` are mapped, all of them, with nothing else in between. `lent` is at
/// most their octets. TCP never got an octet from `lent` on since it last had no reference to any
/// of the pages.
pub struct Pages {
    address: NonNull<u8>,
    pages: KVec<Page>,
    lent: usize,
}

// SAFETY: It owns pages, which every task may use.
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives access to nothing.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates as many pages as have these octets. `ENOMEM` at once if they are not there.
    /// Sleeps, but not for I/O: `vmap` allocates as the task's scope says.
    pub fn new(octets: usize) -> Result<Self> {
        let _noio = NoIo::new();
        let count = octets.div_ceil(PAGE_SIZE);
        let account = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
        let flags = GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO | account;
        let mut pages = KVec::with_capacity(count, flags)?;
        let mut list = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            let page = Page::alloc_page(flags)?;
            list.push(page.as_ptr(), flags)?;
            pages.push(page, flags)?;
        }
        // SAFETY: `list` has `count` pages, which are there as long as the mapping: `drop` ends
        // that first. C keeps no pointer to the list. The caller may sleep.
        let address = unsafe {
            cbindings::vmap(
                list.as_mut_ptr(),
                u32::try_from(count)?,
                // CAST: A `usize` has at least 32 bits here.
                cbindings::VM_MAP as usize,
                cbindings::PAGE_KERNEL(),
            )
        };
        let address = NonNull::new(address.cast()).ok_or(ENOMEM)?;
        // INVARIANT: They were just mapped, and nobody else knows the pages.
        Ok(Self {
            address,
            pages,
            lent: 0,
        })
    }

    fn len(&self) -> usize {
        self.pages.len().saturating_mul(PAGE_SIZE)
    }

    /// Returns the number of octets that were not lent to TCP.
    pub fn left(&self) -> usize {
        self.len().saturating_sub(self.lent)
    }

    /// Returns the octets that were not lent to TCP.
    pub fn free_space(&mut self) -> &mut [u8] {
        let left = self.left();
        // SAFETY: By the type invariants the octets are mapped, and from `lent` on nobody else
        // knows them: TCP reads only octets that it was given. They were zero when they were
        // allocated. `&mut self` guarantees that there is no other reference.
        unsafe {
            let room = self.address.add(self.lent);
            core::slice::from_raw_parts_mut(room.as_ptr(), left)
        }
    }

    /// Lends TCP the first `len` octets of the [free space](Self::free_space), without a copy if
    /// the route's device can gather. Returns the number that it took: those are no free space any
    /// more. Errors, and the reaction if it did not take all, are those of [`TcpConn::send`].
    pub fn splice<E: Events>(&mut self, connection: &mut TcpConn<E>, len: usize) -> Result<usize> {
        // An error may come after TCP took references, so nothing is free before TCP has dropped
        // them.
        let lent = self.lent.saturating_add(len);
        let octets = SendBuf::from(&*self.free_space().get_mut(..len).ok_or(EINVAL)?);
        // SAFETY: Nobody writes to these octets while TCP has a reference to their pages: `lent` is
        // set before anybody else may call `free_space`, and goes back in `reclaim` only. The pages
        // are not of the slab, and have references.
        let taken = unsafe { connection.splice(octets, Then::Push) };
        // INVARIANT: TCP has no reference to octets that it was offered and did not take.
        self.lent = match taken {
            Ok(taken) => self.lent.saturating_add(taken.min(len)),
            Err(error) if error == EAGAIN => self.lent,
            Err(_) => lent,
        };
        taken
    }

    /// Makes all of it free space again. Returns false if TCP still has references to some of it.
    pub fn reclaim(&mut self) -> bool {
        if self.lent == 0 {
            return true;
        }
        let used = self.lent.div_ceil(PAGE_SIZE);
        let free = self.pages.iter().take(used).all(|page| {
            // SAFETY: `self` owns the page.
            unsafe { cbindings::page_ref_count(page.as_ptr()) == 1 }
        });
        if free {
            // Others read the pages before they dropped their references.
            fence(Ordering::Acquire);
            // INVARIANT: Nobody but `self` has a reference to these pages.
            self.lent = 0;
        }
        free
    }
}

impl Drop for Pages {
    /// Unmaps the pages, and sleeps. Pages that TCP has references to stay allocated until it drops
    /// them.
    fn drop(&mut self) {
        // SAFETY: `vmap` returned the address, and there is no reference into it any more. The
        // pages are freed after this.
        unsafe { cbindings::vunmap(self.address.as_ptr().cast()) };
    }
}
