// SPDX-License-Identifier: GPL-2.0

//! Memory regions: registrations, and access to them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A region has two lists of pages. `ib_map_mr_sg` fills the one that is not in use: a consumer
//! maps while the old registration is still valid, with its invalidation ahead in the chain. A
//! registration, in its turn in the send queue, takes that list into use, if it is still that of
//! when the registration was posted. The peer names the key that the registration carried.
//!
//! A region of a process ([`Region::of_process`]) is registered when it is created, with pages that
//! are pinned as long as the `ib_mr` is there, and is invalidated before these are released. Its
//! pages may be such that the process itself cannot write ([`Access::Write`] has the check).
//!
//! Access copies octets under the lock of the registration, so an invalidation waits for that, and
//! no longer. An atomic operation changes a number with one instruction of the processor, again if
//! it has changed in between: it is atomic to those of other regions with the same memory, and to
//! what this machine does to that.

mod verbs;

pub(crate) use verbs::{
    map,
    IbMr,
    Operations, //
};

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::{
    borrowed::Piece,
    lock::IrqLock,
    new_irq_lock, //
};
use kernel::{
    alloc::{
        Flags,
        KVVec, //
    },
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The key of all memory of this machine, for consumers' own use. Its index is 0, which no region
/// has, so an STag from the wire never names it.
pub(crate) const LOCAL_DMA_LKEY: u32 = 0x5d;

/// A protection domain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProtectionDomain(pub(crate) usize);

/// The access that a registration or a queue pair grants to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessFlags {
    /// Read access.
    pub remote_read: bool,
    /// Write access.
    pub remote_write: bool,
}

/// The access of this end to registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads it, to send it.
    Read,
    /// It writes what a peer sent to it. The registration must have the right to write.
    Write,
}

/// A registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// The low eight bits of the STag.
    pub key: u8,
    /// The address of the first octet, as the peer names it (Tagged Offset).
    pub base: u64,
    /// The length in octets.
    pub length: u64,
    /// The access granted to the peer.
    pub access: AccessFlags,
    /// This end may write it: on its own behalf, and so for a peer.
    pub local_write: bool,
    /// A peer may invalidate it.
    pub remote_invalidate: bool,
    /// The peer may carry out atomic operations. There is no such right of a queue pair: iw_cm,
    /// which sets the others for most consumers, does not know it.
    pub remote_atomic: bool,
    /// The number of its mapping: the [last one](Region::mapping) when it was posted.
    pub(crate) mapping: u64,
}

#[derive(Default)]
struct Pages {
    // INVARIANT: Addresses of `size` octets each, of memory that is mapped as long as the consumer
    // keeps it registered.
    list: KVVec<u64>,
    size: u64,
}

/// The pages that were mapped last, as long as no registration has taken them.
struct Mapped {
    pages: Pages,
    // Counts mappings.
    mapping: u64,
}

impl Mapped {
    /// Begins a mapping of other pages, of `size` octets each.
    fn begin(&mut self, size: u64) -> &mut Pages {
        self.mapping = self.mapping.wrapping_add(1);
        self.pages.list.clear();
        self.pages.size = size;
        &mut self.pages
    }
}

struct Current {
    registration: Option<Registration>,
    pages: Pages,
    // The number of the mapping of `pages`.
    mapping: u64,
}

/// A memory region.
#[pin_data]
pub struct Region {
    pd: ProtectionDomain,
    index: AtomicU32,
    #[pin]
    mapped: IrqLock<Mapped>,
    #[pin]
    current: Mutex<Current>,
}

impl Region {
    /// Creates a region for that many pages. Sleeps.
    pub(crate) fn new(pd: ProtectionDomain, pages: usize) -> Result<Arc<Self>> {
        Self::allocate(pd, pages, GFP_KERNEL)
    }

    /// Creates a region with memory that is allocated with these flags. Sleeps.
    fn allocate(pd: ProtectionDomain, pages: usize, flags: Flags) -> Result<Arc<Self>> {
        let list = || -> Result<Pages> {
            Ok(Pages {
                list: KVVec::with_capacity(pages, flags)?,
                size: 0,
            })
        };
        let mapped = Mapped {
            pages: list()?,
            mapping: 0,
        };
        let pages = list()?;
        let current = Current {
            registration: None,
            pages,
            mapping: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                pd,
                index: AtomicU32::new(0),
                mapped <- new_irq_lock!(mapped),
                current <- new_mutex!(current, "iwarp_region"),
            }),
            flags,
        )
    }

    /// Creates a region of a process, which is registered with this key. Sleeps.
    ///
    /// # Safety
    ///
    /// `pages` are addresses of `PAGE_SIZE` octets each, of memory that is there until the region
    /// is invalidated.
    pub(crate) unsafe fn of_process(
        pd: ProtectionDomain,
        pages: KVVec<u64>,
        registration: Registration,
    ) -> Result<Arc<Self>> {
        let region = Self::allocate(pd, 0, GFP_KERNEL_ACCOUNT)?;
        let mut current = region.current.lock();
        // INVARIANT: The caller promises it.
        current.pages = Pages {
            list: pages,
            size: u64::try_from(PAGE_SIZE)?,
        };
        current.registration = Some(registration);
        drop(current);
        Ok(region)
    }

    /// Returns the protection domain.
    #[inline]
    pub fn pd(&self) -> ProtectionDomain {
        self.pd
    }

    /// Returns the upper 24 bits of its STag, or 0 if it has none any more.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// Returns whether these are the upper 24 bits of its STag.
    ///
    /// Once another region may have them, that is false for whoever has heard of the other one: the
    /// table's lock orders [`Self::retire`] before the other one is in the table, and only then can
    /// its consumer tell somebody.
    #[inline]
    pub fn has_index(&self, index: u32) -> bool {
        index != 0 && self.index() == index
    }

    /// Takes away the upper 24 bits of its STag, before the table may give them to another region.
    /// Returns them.
    pub(crate) fn retire(&self) -> u32 {
        self.index.swap(0, Ordering::Relaxed)
    }

    /// Sets the upper 24 bits of its STag.
    pub(crate) fn set_index(&self, index: u32) {
        self.index.store(index, Ordering::Relaxed);
    }

    /// Returns the number of the last mapping. May be called in any context.
    pub(crate) fn mapping(&self) -> u64 {
        self.mapped.with(|mapped| mapped.mapping)
    }

    /// Registers the memory that was mapped last. `EINVAL` if it is registered, or if other memory
    /// was mapped since the registration was posted: the peer would get that with the address and
    /// the length of the first. Sleeps.
    pub fn register(&self, registration: Registration) -> Result {
        let mut current = self.current.lock();
        if current.registration.is_some() {
            return Err(EINVAL);
        }
        self.mapped.with(|mapped| {
            if mapped.mapping != registration.mapping {
                return Err(EINVAL);
            }
            // If nothing was mapped since, this is the same memory once more. The other list has
            // older pages, whose memory may belong to somebody else by now.
            if mapped.mapping != current.mapping {
                core::mem::swap(&mut mapped.pages, &mut current.pages);
                current.mapping = mapped.mapping;
            }
            Ok(())
        })?;
        current.registration = Some(registration);
        Ok(())
    }

    /// Maps pages of 4,096 octets at these addresses, as [`map`] does.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn map_pages(&self, addresses: &[u64]) -> Result {
        self.mapped.with(|mapped| {
            let pages = mapped.begin(4096);
            for address in addresses {
                let pushed = pages.list.push_within_capacity(*address);
                pushed.map_err(|_| ENOMEM)?;
            }
            Ok(())
        })
    }

    /// Invalidates the region. When this returns, nobody accesses its memory. Returns the
    /// registration. Sleeps.
    pub fn invalidate(&self) -> Option<Registration> {
        self.current.lock().registration.take()
    }

    /// Invalidates the registration with this key. Returns false, and changes nothing, if it has
    /// another key. Sleeps.
    pub fn invalidate_key(&self, key: u8) -> bool {
        let mut current = self.current.lock();
        let is_other = current.registration.is_some_and(|found| found.key != key);
        if !is_other {
            current.registration = None;
        }
        !is_other
    }

    /// Returns the registration. Sleeps.
    pub fn registration(&self) -> Option<Registration> {
        self.current.lock().registration
    }

    /// Calls `f` with each piece of `length` octets from `offset`, if they are registered with this
    /// key, and for this `access`: the lock is held, so nobody invalidates meanwhile. `ENOENT` if
    /// they are not, which may have changed since a check. Sleeps.
    ///
    /// `f` writes the pieces only if the access is [`Access::Write`].
    pub fn access(
        &self,
        key: u8,
        offset: u64,
        length: u32,
        access: Access,
        f: impl FnMut(Piece<'_>) -> Result,
    ) -> Result {
        Self::pieces(&self.current.lock(), key, offset, length, access, f)
    }

    /// Calls `f` with each piece, as [`access`](Self::access) does, under the lock of `current`.
    fn pieces(
        current: &Current,
        key: u8,
        offset: u64,
        length: u32,
        access: Access,
        mut f: impl FnMut(Piece<'_>) -> Result,
    ) -> Result {
        let registration = current.registration.filter(|found| found.key == key);
        let registration = registration.ok_or(ENOENT)?;
        if access == Access::Write && !registration.local_write {
            return Err(ENOENT);
        }
        let from = offset.checked_sub(registration.base).ok_or(ENOENT)?;
        let end = from.checked_add(length.into()).ok_or(ENOENT)?;
        let size = current.pages.size;
        if end > registration.length || size == 0 {
            return Err(ENOENT);
        }
        // The first octet is somewhere in the first page.
        let mut at = from
            .checked_add(registration.base & (size - 1))
            .ok_or(ENOENT)?;
        let mut left = u64::from(length);
        while left > 0 {
            let page = usize::try_from(at / size)?;
            let page = *current.pages.list.get(page).ok_or(ENOENT)?;
            let inside = at % size;
            let here = left.min(size - inside);
            let address = page.checked_add(inside).ok_or(ENOENT)?;
            let address = core::ptr::with_exposed_provenance_mut(usize::try_from(address)?);
            let address = NonNull::new(address).ok_or(ENOENT)?;
            // SAFETY: By the invariant of `Pages` the memory is there as long as it is registered,
            // which it is until the lock is released; the consumer keeps it so (`ib_verbs.h`:
            // memory belongs to the device until the region is invalid). `here` octets from
            // `inside` are in one page.
            f(unsafe { Piece::new(address, u32::try_from(here)?) })?;
            at += here;
            left -= here;
        }
        Ok(())
    }
}

impl Region {
    /// Replaces the 64 bits at `offset`, a number of this machine, with what `f` makes of them, if
    /// they are registered with this key for atomic operations: atomically, so `f` may be called
    /// more than once. Returns the number before. `ENOENT` if they are not registered, `EINVAL` if
    /// they are not aligned. Sleeps.
    pub fn update(&self, key: u8, offset: u64, f: impl Fn(u64) -> u64) -> Result<u64> {
        let mut original = Err(EINVAL);
        let current = self.current.lock();
        if !current
            .registration
            .is_some_and(|found| found.remote_atomic)
        {
            return Err(ENOENT);
        }
        let write = Access::Write;
        Self::pieces(&current, key, offset, Self::UPDATE_LEN, write, |piece| {
            let address = piece.address().cast::<u64>();
            if piece.len() != Self::UPDATE_LEN || !address.is_aligned() {
                return Err(EINVAL);
            }
            let mut expected = 0;
            loop {
                let value = f(expected);
                // SAFETY: By the invariants of `Piece` the eight octets stay readable and writable
                // during the call, and there is no Rust reference to them. They are aligned.
                let found = unsafe { cbindings::cmpxchg64(address.as_ptr(), expected, value) };
                if found == expected {
                    original = Ok(found);
                    return Ok(());
                }
                expected = found;
            }
        })?;
        original
    }

    /// The octets of a number.
    const UPDATE_LEN: u32 = u64::BITS / 8;
}
