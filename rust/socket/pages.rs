// SPDX-License-Identifier: GPL-2.0

//! Pages that TCP sends from without a copy.
//!
//! TCP holds references to the pages until the peer has acknowledged their octets, or a receiver on
//! the same machine has read them. Meanwhile nobody may write to those octets.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h), `MSG_SPLICE_PAGES`

use crate::send::SendBuf;
use crate::send::Then;
use crate::Events;
use crate::TcpConn;
use core::ptr::NonNull;
use core::sync::atomic::fence;
use core::sync::atomic::Ordering;
use iwraw::noio::NoIo;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::page::Page;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

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
    /// Allocates so many pages. `ENOMEM` at once if they are not there. Sleeps, but not for I/O:
    /// `vmap` allocates as the task's scope says.
    pub fn new(count: usize) -> Result<Self> {
        let _noio = NoIo::new();
        let flags = GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO;
        let mut pages = KVec::with_capacity(count, flags)?;
        let mut list = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            let page = Page::alloc_page(flags)?;
            list.push(page.as_ptr(), flags)?;
            pages.push(page, flags)?;
        }
        // SAFETY: `list` has so many pages, which are there as long as the mapping: `drop` ends
        // that first. C keeps no pointer to the list. The caller may sleep.
        let address = unsafe {
            iwraw::vmap(
                list.as_mut_ptr(),
                u32::try_from(count)?,
                // CAST: A `usize` has at least 32 bits here.
                iwraw::VM_MAP as usize,
                iwraw::PAGE_KERNEL(),
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
            unsafe { iwraw::page_ref_count(page.as_ptr()) == 1 }
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
        unsafe { iwraw::vunmap(self.address.as_ptr().cast()) };
    }
}
