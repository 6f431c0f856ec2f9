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

use crate::{
    device,
    driver::Driver,
    errno_ptr,
    random,
    user::{
        quota::QuotaShare,
        region::PinnedMemory,
        Call, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::{
    borrowed::Piece,
    errno::eopnotsupp,
    lock::IrqLock,
    new_irq_lock, //
};
use kernel::{
    alloc::{
        Flags,
        KVVec, //
    },
    ffi,
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

/// An `ib_mr` with the data of this crate.
#[repr(C)]
pub(crate) struct IbMr {
    ib: cbindings::ib_mr,
    // `None` for the region of `get_dma_mr`.
    pub(crate) region: Option<Arc<Region>>,
    // The list that `ib_sg_to_pages` fills.
    filling: *mut Pages,
    // That of a process. The region is invalidated before this is dropped.
    _pinned: Option<PinnedMemory>,
    _share: Option<QuotaShare>,
}

impl IbMr {
    /// Returns the region of `mr`.
    ///
    /// # Safety
    ///
    /// `mr` is of a device of this crate, and not deregistered.
    pub(crate) unsafe fn region_of(mr: *mut cbindings::ib_mr) -> Option<Arc<Region>> {
        // SAFETY: The caller promises that `mr` is an [`IbMr`].
        unsafe { (*mr.cast::<Self>()).region.clone() }
    }

    /// Allocates an `ib_mr` with this key.
    fn into_raw(region: Option<Arc<Region>>, key: u32) -> Result<*mut cbindings::ib_mr> {
        let mut ib_mr = KBox::new(
            Self {
                ib: cbindings::ib_mr::default(),
                region,
                filling: null_mut(),
                _pinned: None,
                _share: None,
            },
            GFP_KERNEL,
        )?;
        ib_mr.ib.lkey = key;
        ib_mr.ib.rkey = key;
        Ok(KBox::into_raw(ib_mr).cast())
    }
}

/// `map_mr_sg`. It never fails for the region's state. Called in any context.
///
/// # Safety
///
/// For the core only: `mr` came from [`IbMr::into_raw`], the list is mapped.
pub(crate) unsafe extern "C" fn map(
    mr: *mut cbindings::ib_mr,
    list: *mut kernel::bindings::scatterlist,
    entries: ffi::c_int,
    offset: *mut ffi::c_uint,
) -> ffi::c_int {
    let ib_mr = mr.cast::<IbMr>();
    // SAFETY: The core passes a live region.
    let Some(region) = (unsafe { IbMr::region_of(mr) }) else {
        return EINVAL.to_errno();
    };
    // SAFETY: The core passes a live region, and `ib_map_mr_sg` has written the field.
    let size = unsafe { (*mr).page_size };
    // Many consumers map pages of 4 KiB, whatever those of the machine.
    if !size.is_power_of_two() || size < 4096 {
        return EINVAL.to_errno();
    }
    region.mapped.with(|mapped| {
        let pages = mapped.begin(size.into());
        // SAFETY: One task maps a region at a time, as it is the consumer's. `add_page` sees the
        // list under this lock.
        unsafe {
            (*ib_mr).filling = pages;
            let mapped = cbindings::ib_sg_to_pages(mr, list, entries, offset, Some(add_page));
            (*ib_mr).filling = null_mut();
            mapped
        }
    })
}

/// Takes a page from `ib_sg_to_pages`.
///
/// # Safety
///
/// Called by `ib_sg_to_pages`, which `map` calls.
unsafe extern "C" fn add_page(mr: *mut cbindings::ib_mr, address: u64) -> ffi::c_int {
    // SAFETY: `map` has set the pointer, and holds the lock of the list.
    let pages = unsafe { &mut *(*mr.cast::<IbMr>()).filling };
    // INVARIANT: DMA addresses are memory addresses on a device without DMA of its own.
    match pages.list.push_within_capacity(address) {
        Ok(()) => 0,
        Err(_) => ENOMEM.to_errno(),
    }
}

/// The memory region operations of a device of `D`.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `alloc_mr`.
    ///
    /// # Safety
    ///
    /// For the core only: `pd` is a protection domain of a device of `D`.
    pub(crate) unsafe extern "C" fn alloc(
        pd: *mut cbindings::ib_pd,
        kind: cbindings::ib_mr_type,
        max_pages: u32,
    ) -> *mut cbindings::ib_mr {
        errno_ptr(|| {
            if kind != cbindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(eopnotsupp());
            }
            if max_pages == 0 || max_pages > D::LIMITS.max_pages {
                return Err(EINVAL);
            }
            // SAFETY: The core passes a protection domain of a registered device.
            let data = unsafe { device::data_of::<D>((*pd).device) };
            let region = Region::new(ProtectionDomain(pd.addr()), usize::try_from(max_pages)?)?;
            let index = data.regions.insert(|index| {
                region.set_index(index);
                region.clone()
            })?;
            IbMr::into_raw(Some(region), index << 8).inspect_err(|_| {
                data.regions.remove(index);
            })
        })
    }

    /// `get_dma_mr`.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn dma(
        _: *mut cbindings::ib_pd,
        access: ffi::c_int,
    ) -> *mut cbindings::ib_mr {
        errno_ptr(|| {
            // CAST: A set of flags. Peers must not access all memory of the machine.
            if access as u32 & !cbindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE != 0 {
                return Err(eopnotsupp());
            }
            IbMr::into_raw(None, LOCAL_DMA_LKEY)
        })
    }

    /// `reg_user_mr`.
    ///
    /// The core finds `pd` by a handle in the file that the process opened, whose context is its
    /// only one, and the handle of the region is in that file, too: no other context can name
    /// either. The core keeps the domain as long as its regions, and they go with the context.
    /// Requests and peers use the region on queue pairs of this domain only ([`Region::access`]).
    // Argues for T27.
    ///
    /// # Safety
    ///
    /// For the core only: `pd` is a protection domain of a process that calls, of a device of `D`.
    pub(crate) unsafe extern "C" fn of_process(
        pd: *mut cbindings::ib_pd,
        start: u64,
        length: u64,
        base: u64,
        access: ffi::c_int,
        hints: *mut cbindings::ib_dmah,
        udata: *mut cbindings::ib_udata,
    ) -> *mut cbindings::ib_mr {
        errno_ptr(|| {
            if !hints.is_null() {
                return Err(eopnotsupp());
            }
            // CAST: A set of flags.
            let flag = |flag: u32| access as u32 & flag != 0;
            let local_write = flag(cbindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
            // The list of pages has no place for another offset in the first one.
            let same_offset = (start ^ base) % u64::try_from(PAGE_SIZE)? == 0;
            if length == 0 || !same_offset || base.checked_add(length - 1).is_none() {
                return Err(EINVAL);
            }
            // SAFETY: The core passes data of the call.
            let call = unsafe { Call::new(udata) }.ok_or(eopnotsupp())?;
            // SAFETY: The core passes a protection domain of a registered device.
            let data = unsafe { device::data_of::<D>((*pd).device) };
            let share = data.quotas.regions.take()?;
            // SAFETY: The core deregisters all regions before the device goes.
            let pinned = unsafe { PinnedMemory::new((*pd).device, start, length, access)? };
            // CAST: Random octets.
            let key = random() as u8;
            let registration = Registration {
                key,
                base,
                length,
                access: AccessFlags {
                    remote_read: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_READ),
                    // The core refuses one without the other.
                    remote_write: local_write
                        && flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE),
                },
                local_write,
                // Verbs allow that for fast registrations and windows only.
                remote_invalidate: false,
                // A process could write the number all the time, and keep this module trying.
                remote_atomic: false,
                mapping: 0,
            };
            let pages = pinned.pages()?;
            // SAFETY: The pages are pinned until `pinned` is dropped, which `dereg` does after it
            // has invalidated the region; so do the error paths here.
            let region =
                unsafe { Region::of_process(ProtectionDomain(pd.addr()), pages, registration)? };
            let index = data.regions.insert_from(GFP_KERNEL_ACCOUNT, |index| {
                region.set_index(index);
                region.clone()
            });
            let stag = index.map(|index| index << 8 | u32::from(key));
            let answered = stag.and_then(|stag| {
                call.respond(&uabi::response::memory_region(stag))?;
                Ok(stag)
            });
            let undo = || {
                data.regions.remove(region.retire());
                region.invalidate();
            };
            let stag = answered.inspect_err(|_| undo())?;
            let room = KBox::<IbMr>::new_uninit(GFP_KERNEL_ACCOUNT);
            let room = room.inspect_err(|_| undo())?;
            let mut ib_mr = room.write(IbMr {
                ib: cbindings::ib_mr::default(),
                region: Some(region.clone()),
                filling: null_mut(),
                _pinned: Some(pinned),
                _share: Some(share),
            });
            ib_mr.ib.lkey = stag;
            ib_mr.ib.rkey = stag;
            ib_mr.ib.iova = base;
            ib_mr.ib.length = length;
            Ok(KBox::into_raw(ib_mr).cast())
        })
    }

    /// `dereg_mr`.
    ///
    /// # Safety
    ///
    /// For the core only: `mr` was made by [`Self::alloc`], [`Self::dma`] or [`Self::of_process`].
    pub(crate) unsafe extern "C" fn dereg(
        mr: *mut cbindings::ib_mr,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core passes a live region of a registered device.
        let data = unsafe { device::data_of::<D>((*mr).device) };
        // SAFETY: The pointer came from `into_raw`, and the core deregisters a region once.
        let ib_mr = unsafe { KBox::from_raw(mr.cast::<IbMr>()) };
        if let Some(region) = &ib_mr.region {
            data.regions.remove(region.retire());
            region.invalidate();
        }
        0
    }
}
