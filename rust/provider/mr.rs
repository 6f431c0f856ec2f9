// SPDX-License-Identifier: GPL-2.0

//! The core's calls for memory regions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device;
use crate::driver::Driver;
use crate::errno_ptr;
use crate::region::IbMr;
use crate::region::ProtectionDomain;
use crate::region::Region;
use crate::region::LOCAL_DMA_LKEY;
use core::marker::PhantomData;
use iwraw::errno::eopnotsupp;
use kernel::ffi;
use kernel::prelude::*;

/// The memory region operations of a device of `D`.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `alloc_mr`.
    ///
    /// # Safety
    ///
    /// For the core only: `pd` is a protection domain of a device of `D`.
    pub(crate) unsafe extern "C" fn alloc(
        pd: *mut iwraw::ib_pd,
        kind: iwraw::ib_mr_type,
        max_pages: u32,
    ) -> *mut iwraw::ib_mr {
        errno_ptr(|| {
            if kind != iwraw::ib_mr_type_IB_MR_TYPE_MEM_REG {
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
        _: *mut iwraw::ib_pd,
        access: ffi::c_int,
    ) -> *mut iwraw::ib_mr {
        errno_ptr(|| {
            // CAST: A set of flags. Peers must not access all memory of the machine.
            if access as u32 & !iwraw::ib_access_flags_IB_ACCESS_LOCAL_WRITE != 0 {
                return Err(eopnotsupp());
            }
            IbMr::into_raw(None, LOCAL_DMA_LKEY)
        })
    }

    /// `dereg_mr`.
    ///
    /// # Safety
    ///
    /// For the core only: `mr` was made by [`Self::alloc`] or [`Self::dma`].
    pub(crate) unsafe extern "C" fn dereg(
        mr: *mut iwraw::ib_mr,
        _: *mut iwraw::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core passes a live region of a registered device.
        let data = unsafe { device::data_of::<D>((*mr).device) };
        // SAFETY: The pointer came from `into_raw`, and the core deregisters a region once.
        let ib_mr = unsafe { KBox::from_raw(mr.cast::<IbMr>()) };
        if let Some(region) = &ib_mr.region {
            data.regions.remove(region.index());
            region.invalidate();
        }
        0
    }
}
