// SPDX-License-Identifier: GPL-2.0

//! The verbs of memory regions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    memory::Memory,
    AccessFlags,
    Kind,
    ProtectionDomain,
    Region,
    Registration,
    LOCAL_DMA_LKEY, //
};
use crate::{
    device,
    driver::Driver,
    errno,
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
    ptr::null_mut, //
};
use ext::errno::eopnotsupp;
use kernel::{
    ffi,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// An `ib_mr` with the data of this crate.
#[repr(C)]
pub(crate) struct IbMr {
    ib: cbindings::ib_mr,
    // `None` for the region of `get_dma_mr`.
    pub(crate) region: Option<Arc<Region>>,
    // The list that `ib_sg_to_pages` fills.
    filling: *mut Memory,
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
    let kind = region.kind();
    // Many consumers map pages of 4 KiB, whatever those of the machine.
    if kind == Kind::Pages && (!size.is_power_of_two() || size < 4096) {
        return EINVAL.to_errno();
    }
    region.mapped.with(|mapped| {
        let memory = mapped.begin(size.into());
        if kind == Kind::Elements {
            // SAFETY: The core passes a live region, which one task maps at a time, as it is the
            // consumer's, and a list that is mapped.
            return unsafe { map_elements(mr, memory, list, entries, offset) };
        }
        // SAFETY: One task maps a region at a time, as it is the consumer's. `add_page` sees the
        // list under this lock.
        unsafe {
            (*ib_mr).filling = memory;
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
    let memory = unsafe { &mut *(*mr.cast::<IbMr>()).filling };
    // SAFETY: DMA addresses are memory addresses on a device without DMA of its own, and the
    // consumer keeps the list mapped as long as the region is registered.
    errno(|| unsafe { memory.push_page(address) })
}

/// Maps the elements of a list, the first of them from `offset` on. Returns how many there was room
/// for.
///
/// # Safety
///
/// `mr` is live, and nobody else maps it. The list is mapped, and has so many `entries`. `offset`
/// is null or valid.
pub(crate) unsafe fn map_elements(
    mr: *mut cbindings::ib_mr,
    memory: &mut Memory,
    mut list: *mut kernel::bindings::scatterlist,
    entries: ffi::c_int,
    offset: *mut ffi::c_uint,
) -> ffi::c_int {
    // SAFETY: The caller promises that it is null or valid.
    let mut skipped = unsafe { offset.as_ref() }.copied().unwrap_or(0);
    if entries <= 0 {
        return EINVAL.to_errno();
    }
    let mut mapped = 0;
    let (mut first, mut length) = (0, 0);
    while mapped < entries {
        // SAFETY: The caller promises so many mapped entries. The next one, which the last one does
        // not have, is not used then.
        let (start, whole, next) = unsafe {
            (
                cbindings::sg_dma_address(list),
                cbindings::sg_dma_len(list),
                cbindings::sg_next(list),
            )
        };
        let Some(here) = whole.checked_sub(skipped) else {
            return EINVAL.to_errno();
        };
        let start = start.wrapping_add(skipped.into());
        // SAFETY: DMA addresses are memory addresses on a device without DMA of its own, and the
        // consumer keeps the list mapped as long as the region is registered.
        if unsafe { memory.push_element(start, here) }.is_err() {
            break;
        }
        if mapped == 0 {
            first = start;
        }
        length += u64::from(here);
        (skipped, mapped, list) = (0, mapped + 1, next);
    }
    // SAFETY: The caller promises a live region, and that `offset` is null or valid.
    unsafe {
        (*mr).iova = first;
        (*mr).length = length;
        if let Some(offset) = offset.as_mut() {
            *offset = skipped;
        }
    }
    mapped
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
            let kind = match kind {
                cbindings::ib_mr_type_IB_MR_TYPE_MEM_REG => Kind::Pages,
                cbindings::ib_mr_type_IB_MR_TYPE_SG_GAPS => Kind::Elements,
                _ => return Err(eopnotsupp()),
            };
            if max_pages == 0 || max_pages > D::LIMITS.max_pages {
                return Err(EINVAL);
            }
            // SAFETY: The core passes a protection domain of a registered device.
            let data = unsafe { device::data_of::<D>((*pd).device) };
            let count = usize::try_from(max_pages)?;
            let region = Region::new(ProtectionDomain(pd.addr()), kind, count)?;
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
