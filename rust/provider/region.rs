// SPDX-License-Identifier: GPL-2.0

//! Memory regions: registrations, and access to them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A region has two lists of pages, or of elements if it may have gaps. `ib_map_mr_sg` fills the
//! one that is not in use: a consumer maps while the old registration is still valid, with its
//! invalidation ahead in the chain. A registration, in its turn in the send queue, takes that list
//! into use, if it is still that of when the registration was posted. The peer names the key that
//! the registration carried.
//!
//! A region of a process ([`Region::of_process`]) is registered when it is created, with pages that
//! are pinned as long as the `ib_mr` is there, and is invalidated before these are released. Its
//! pages may be such that the process itself cannot write ([`Access::Write`] has the check).
//!
//! Access copies octets under the lock of the registration, so an invalidation waits for that, and
//! no longer. Octets can also be [lent](Region::lend) for as long as somebody else takes to copy
//! them, who has locks of its own: an invalidation waits for those to whom they are lent, and they
//! for nobody who invalidates.
//!
//! An atomic operation changes a number with one instruction of the processor, again if it has
//! changed in between: it is atomic to those of other regions with the same memory, and to what
//! this machine does to that.

mod lent;
mod memory;
mod verbs;

pub use lent::Lent;
pub(crate) use memory::Kind;
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
    new_condvar,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        Mutex, //
    }, //
};
use memory::Memory;

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

/// The memory that was mapped last, as long as no registration has taken it.
struct Mapped {
    memory: Memory,
    // Counts mappings.
    mapping: u64,
}

impl Mapped {
    /// Begins a mapping of other memory, in pages of `size` octets, a power of two, if it is of
    /// pages.
    fn begin(&mut self, size: u64) -> &mut Memory {
        self.mapping = self.mapping.wrapping_add(1);
        self.memory.clear(size);
        &mut self.memory
    }
}

struct Current {
    registration: Option<Registration>,
    memory: Memory,
    // The number of the mapping of `memory`.
    mapping: u64,
    // The number of [`Lent`], of this registration or of one that is being invalidated.
    lent: usize,
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
    // Nothing is lent any more.
    #[pin]
    returned: CondVar,
}

impl Region {
    /// Creates a region for that many pages or elements. Sleeps.
    pub(crate) fn new(pd: ProtectionDomain, kind: Kind, count: usize) -> Result<Arc<Self>> {
        Self::allocate(pd, kind, count, GFP_KERNEL)
    }

    /// Creates a region with memory that is allocated with these flags. Sleeps.
    fn allocate(pd: ProtectionDomain, kind: Kind, count: usize, flags: Flags) -> Result<Arc<Self>> {
        let mapped = Mapped {
            memory: Memory::new(kind, count, flags)?,
            mapping: 0,
        };
        let current = Current {
            registration: None,
            memory: Memory::new(kind, count, flags)?,
            mapping: 0,
            lent: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                pd,
                index: AtomicU32::new(0),
                mapped <- new_irq_lock!(mapped),
                current <- new_mutex!(current, "iwarp_region"),
                returned <- new_condvar!("iwarp_region_returned"),
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
        let region = Self::allocate(pd, Kind::Pages, 0, GFP_KERNEL_ACCOUNT)?;
        let mut current = region.current.lock();
        // SAFETY: The caller promises it.
        current.memory = unsafe { Memory::of_pages(pages, u64::try_from(PAGE_SIZE)?) };
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

    /// Returns what it can be mapped with. May be called in any context.
    pub(crate) fn kind(&self) -> Kind {
        self.mapped.with(|mapped| mapped.memory.kind())
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
            // older memory, which may belong to somebody else by now.
            if mapped.mapping != current.mapping {
                core::mem::swap(&mut mapped.memory, &mut current.memory);
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
            let memory = mapped.begin(4096);
            // SAFETY: Tests access only memory that they have until they invalidate the region.
            let mut pushed = addresses.iter().map(|at| unsafe { memory.push_page(*at) });
            pushed.try_for_each(|pushed| pushed)
        })
    }

    /// Maps elements with these addresses and lengths from `offset` on, as [`map`] does. Returns
    /// how many there was room for, or an error code; the address of the first octet, and the
    /// length.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn map_elements(
        &self,
        elements: &[(u64, u32)],
        mut offset: u32,
    ) -> Result<(i32, u64, u64)> {
        let mut list = KVec::new();
        for (at, length) in elements {
            let entry = kernel::bindings::scatterlist {
                dma_address: *at,
                dma_length: *length,
                ..Default::default()
            };
            list.push(entry, GFP_KERNEL)?;
        }
        // `sg_next` looks at the entry behind the last one, too.
        list.push(Default::default(), GFP_KERNEL)?;
        let mut mr = cbindings::ib_mr::default();
        let (entries, count) = (list.as_mut_ptr(), i32::try_from(elements.len())?);
        let mapped = self.mapped.with(|mapped| {
            let memory = mapped.begin(0);
            // SAFETY: The list has so many entries. Tests access only memory that they have until
            // they invalidate the region.
            unsafe { verbs::map_elements(&mut mr, memory, entries, count, &mut offset) }
        });
        Ok((mapped, mr.iova, mr.length))
    }

    /// Invalidates the region. When this returns, nobody accesses its memory. Returns the
    /// registration. Sleeps.
    pub fn invalidate(&self) -> Option<Registration> {
        let mut current = self.current.lock();
        let registration = current.registration.take();
        self.wait_for_lent(&mut current);
        registration
    }

    /// Invalidates the registration with this key. Returns false, and changes nothing, if it has
    /// another key. Sleeps.
    pub fn invalidate_key(&self, key: u8) -> bool {
        let mut current = self.current.lock();
        let is_other = current.registration.is_some_and(|found| found.key != key);
        if !is_other {
            current.registration = None;
            self.wait_for_lent(&mut current);
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
        if end > registration.length {
            return Err(ENOENT);
        }
        let mut at = from;
        while at < end {
            let (address, here) = current.memory.run(registration.base, at)?;
            let here = here.min(end - at);
            let address = core::ptr::with_exposed_provenance_mut(usize::try_from(address)?);
            let address = NonNull::new(address).ok_or(ENOENT)?;
            // SAFETY: By the invariant of `Memory` it is there as long as it is registered, which
            // it is until the lock is released; the consumer keeps it so (`ib_verbs.h`: memory
            // belongs to the device until the region is invalid). `here` octets from `address` are
            // in one page or element.
            f(unsafe { Piece::new(address, u32::try_from(here)?) })?;
            at += here;
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
