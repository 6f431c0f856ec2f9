// SPDX-License-Identifier: GPL-2.0

//! Memory that TCP sends from without a copy.
//!
//! TCP takes references to the pages, for the time until the peer has acknowledged what is on them, or a receiver on the same
//! machine has read it. Meanwhile nobody may write to those octets.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h), `MSG_SPLICE_PAGES`

use crate::send::Octets;
use crate::send::Then;
use crate::Connection;
use crate::Events;
use core::ptr::NonNull;
use core::sync::atomic::fence;
use core::sync::atomic::Ordering;
use iwraw::noio::NoIo;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::page::Page;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// Pages, one behind the other in the kernel's address space.
///
/// # Invariants
///
/// `address` is where `pages` are mapped, all of them, with nothing else in between. `given` is at most their octets. TCP
/// never got an octet from `given` on since it last had no reference to any of the pages.
pub struct Pages {
    address: NonNull<u8>,
    pages: KVec<Page>,
    given: usize,
}

// SAFETY: It owns pages, which every task may use.
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives access to nothing.
unsafe impl Sync for Pages {}

impl Pages {
    /// So many pages. `ENOMEM` at once if they are not there. Sleeps, but not for I/O: `vmap` allocates as the task's scope says.
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
        // SAFETY: `list` has so many pages, which are there as long as the mapping: `drop` ends that first. C keeps no pointer
        // to the list. The caller may sleep.
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
        // INVARIANT: Just mapped, and nobody else knows the pages.
        Ok(Self {
            address,
            pages,
            given: 0,
        })
    }

    fn len(&self) -> usize {
        self.pages.len().saturating_mul(PAGE_SIZE)
    }

    /// How many octets TCP was not given.
    pub fn left(&self) -> usize {
        self.len().saturating_sub(self.given)
    }

    /// The octets that TCP was not given.
    pub fn room(&mut self) -> &mut [u8] {
        let left = self.left();
        // SAFETY: By the type invariants the octets are mapped, and from `given` on nobody else knows them: TCP reads only what
        // it was given. They were zero when they were allocated. `&mut self` sees to it that there
        // is no other reference.
        unsafe {
            let room = self.address.add(self.given);
            core::slice::from_raw_parts_mut(room.as_ptr(), left)
        }
    }

    /// Gives TCP the first `len` octets of the [room](Self::room), without a copy if the route's device can gather. Returns
    /// how many it took: those are no room any more. Errors, and what to do if it did not take all, as for [`Connection::send`].
    pub fn splice<E: Events>(
        &mut self,
        connection: &mut Connection<E>,
        len: usize,
    ) -> Result<usize> {
        // An error may come after TCP took references, so nothing is room before TCP has let go.
        let given = self.given.saturating_add(len);
        let octets = Octets::from(&*self.room().get_mut(..len).ok_or(EINVAL)?);
        // SAFETY: Nobody writes to these octets while TCP has a reference to their pages: `given` is set before anybody else may
        // call `room`, and goes back in `reclaim` only. The pages are not of the slab, and have references.
        let taken = unsafe { connection.splice(octets, Then::Push) };
        // INVARIANT: What TCP was offered and did not take it has no reference to.
        self.given = match taken {
            Ok(taken) => self.given.saturating_add(taken.min(len)),
            Err(error) if error == EAGAIN => self.given,
            Err(_) => given,
        };
        taken
    }

    /// Makes all of it room again. False if TCP still has references to some of it.
    pub fn reclaim(&mut self) -> bool {
        if self.given == 0 {
            return true;
        }
        let used = self.given.div_ceil(PAGE_SIZE);
        let free = self.pages.iter().take(used).all(|page| {
            // SAFETY: The page is there as long as `self`.
            unsafe { iwraw::page_ref_count(page.as_ptr()) == 1 }
        });
        if free {
            // What others read of the pages, they read before they gave up their references.
            fence(Ordering::Acquire);
            // INVARIANT: Nobody has a reference to these pages but `self`.
            self.given = 0;
        }
        free
    }
}

impl Drop for Pages {
    /// Sleeps. What TCP has references to stays allocated until it gives them up.
    fn drop(&mut self) {
        // SAFETY: `vmap` returned the address, and there is no reference into it any more. The pages are freed after this.
        unsafe { iwraw::vunmap(self.address.as_ptr().cast()) };
    }
}
