// SPDX-License-Identifier: GPL-2.0

//! Attributes of a device and its port, and its counters. The state of the port is that of the
//! network device when it is queried.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device,
    driver::Driver,
    errno,
    netdev::NetDevice,
    user::{
        quota::{
            of_a_user,
            QuotaShare,
            MAX_DOMAINS,
            MAX_OBJECTS, //
        },
        Call, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{
        self,
        null_mut, //
    }, //
};
use ext::errno::eopnotsupp;
use kernel::{
    error::to_result,
    ffi,
    str::{
        CStr,
        CStrExt, //
    }, //
};

/// A number for unlimited resources.
const MANY: u32 = 1 << 20;

/// An `ib_pd` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbPd {
    ib: cbindings::ib_pd,
    // That of a process.
    share: MaybeUninit<Option<QuotaShare>>,
}

/// The vendor: an identifier that is administered locally, as is siw's 0x626d74. It is another one,
/// as what programs and people know of that device's faults is not true of this one.
const VENDOR_ID: u32 = 0x0072_7769;

/// The key of the default partition.
const DEFAULT_KEY: u16 = 0xffff;

/// The query operations.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `query_device`.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn query_device(
        device: *mut cbindings::ib_device,
        attributes: *mut cbindings::ib_device_attr,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            let limits = D::LIMITS;
            // SAFETY: The core passes a live device.
            let own = ptr::eq(attributes, unsafe { &raw const (*device).attrs });
            // SAFETY: The core passes room for the attributes, and a live device.
            let (attributes, guid) = unsafe { (&mut *attributes, (*device).node_guid) };
            attributes.sys_image_guid = guid;
            attributes.vendor_id = VENDOR_ID;
            attributes.vendor_part_id = 1;
            // SAFETY: The core passes a live device, and the module that it names is loaded.
            attributes.fw_ver = unsafe { version((*device).ops.owner) };
            // The core keeps those of the device, for consumers in the kernel. Others are for a
            // process: its library has no fast registrations, and loses what a Send invalidates. A
            // process may have as many objects as its user.
            let most = |all| number(if own { all } else { of_a_user(all) });
            if own {
                // CAST: A set of flags.
                attributes.device_cap_flags =
                    cbindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
            }
            attributes.kernel_cap_flags = u64::from(
                cbindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY
                    | cbindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG
                    | cbindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG,
            );
            attributes.max_mr_size = u64::MAX;
            // Lists of pages may have any of these, whatever those of the machine.
            attributes.page_size_cap = u64::MAX << 12;
            attributes.max_fast_reg_page_list_len = limits.max_pages;
            attributes.max_mr = most(MAX_OBJECTS);
            attributes.max_pd = most(MAX_DOMAINS);
            attributes.max_qp = number(if own { 1 << 22 } else { of_a_user(MAX_OBJECTS) });
            attributes.max_qp_wr = number(limits.max_wr);
            attributes.max_send_sge = number(limits.max_send_sge);
            attributes.max_recv_sge = number(limits.max_receive_sge);
            attributes.max_sge_rd = number(1);
            attributes.max_srq = most(MAX_OBJECTS);
            attributes.max_srq_wr = number(limits.max_wr);
            attributes.max_srq_sge = number(limits.max_receive_sge);
            attributes.max_cq = most(MAX_OBJECTS);
            attributes.max_cqe = number(limits.max_cqe);
            attributes.max_qp_rd_atom = number(limits.max_read_depth);
            attributes.max_qp_init_rd_atom = number(limits.max_read_depth);
            attributes.max_res_rd_atom = number(MANY);
            Ok(())
        })
    }

    /// `query_port`. Sleeps.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn query_port(
        device: *mut cbindings::ib_device,
        port: u32,
        attributes: *mut cbindings::ib_port_attr,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes room for the attributes.
            let attributes = unsafe { &mut *attributes };
            // SAFETY: The core passes a live device, which has a network device.
            to_result(unsafe {
                cbindings::ib_get_eth_speed(
                    device,
                    port,
                    &raw mut attributes.active_speed,
                    &raw mut attributes.active_width,
                )
            })?;
            // SAFETY: The core passes a live device.
            let netdev = unsafe { NetDevice::of(device)? };
            // SAFETY: The reference of `netdev` keeps the network device.
            let (state, mtu, max_mtu) = unsafe {
                (
                    cbindings::ib_get_curr_port_state(netdev.as_ptr()),
                    cbindings::netdev_mtu(netdev.as_ptr()),
                    (*netdev.as_ptr()).max_mtu,
                )
            };
            attributes.gid_tbl_len = 1;
            attributes.pkey_tbl_len = 1;
            attributes.max_msg_sz = u32::MAX;
            // SAFETY: The function only compares.
            unsafe {
                attributes.active_mtu = cbindings::ib_mtu_int_to_enum(i32::try_from(mtu)?);
                attributes.max_mtu =
                    cbindings::ib_mtu_int_to_enum(i32::try_from(max_mtu).unwrap_or(i32::MAX));
            }
            attributes.state = state;
            // CAST: A small number.
            attributes.phys_state = match state {
                cbindings::ib_port_state_IB_PORT_ACTIVE => {
                    cbindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8
                }
                _ => cbindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
            };
            attributes.port_cap_flags = cbindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
            Ok(())
        })
    }

    /// `get_port_immutable`. It does not query the port: that would wait for the task that removes
    /// the device.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn immutable(
        _: *mut cbindings::ib_device,
        _: u32,
        immutable: *mut cbindings::ib_port_immutable,
    ) -> ffi::c_int {
        // SAFETY: The core passes room for the attributes.
        let immutable = unsafe { &mut *immutable };
        immutable.gid_tbl_len = 1;
        immutable.pkey_tbl_len = 1;
        immutable.core_cap_flags = cbindings::RDMA_CORE_PORT_IWARP;
        0
    }

    /// `query_gid`.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn gid(
        device: *mut cbindings::ib_device,
        _: u32,
        _: ffi::c_int,
        gid: *mut cbindings::ib_gid,
    ) -> ffi::c_int {
        // SAFETY: The core passes a device that is added, and room for the GID.
        unsafe {
            let mut raw = [0; 16];
            raw[..6].copy_from_slice(&device::data_of::<D>(device).hw_addr);
            (*gid).raw = raw;
        }
        0
    }

    /// `query_pkey`. There are no partitions in iWARP, but rdma_cm resolves a loopback address only
    /// if a device has a P_Key.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn key(
        _: *mut cbindings::ib_device,
        _: u32,
        _: u16,
        key: *mut u16,
    ) -> ffi::c_int {
        // SAFETY: The core passes room for the key.
        unsafe { key.write(DEFAULT_KEY) };
        0
    }

    /// `alloc_pd`.
    ///
    /// # Safety
    ///
    /// For the core only: `pd` is a zeroed [`IbPd`], whose device is set, and `udata` is of the
    /// call of a process, or null.
    pub(crate) unsafe extern "C" fn alloc_pd(
        pd: *mut cbindings::ib_pd,
        udata: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes data of the call of a process, or null.
            let call = unsafe { Call::new(udata) };
            // SAFETY: The core has set the device, which is registered.
            let data = unsafe { device::data_of::<D>((*pd).device) };
            let share = call.map(|_| data.quotas.domains.take()).transpose()?;
            // SAFETY: The core passes memory of the size of an `IbPd`, which nobody uses yet, and
            // calls `dealloc_pd` before it frees that, as this succeeds.
            unsafe { (*pd.cast::<IbPd>()).share.write(share) };
            Ok(())
        })
    }

    /// `dealloc_pd`.
    ///
    /// # Safety
    ///
    /// For the core only: `pd` was made by [`Self::alloc_pd`].
    pub(crate) unsafe extern "C" fn dealloc_pd(
        pd: *mut cbindings::ib_pd,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core frees a domain that it allocated, once.
        drop(unsafe { (*pd.cast::<IbPd>()).share.assume_init_read() });
        0
    }

    /// `alloc_hw_port_stats`.
    ///
    /// # Safety
    ///
    /// For the core only.
    pub(crate) unsafe extern "C" fn alloc_stats(
        device: *mut cbindings::ib_device,
        _: u32,
    ) -> *mut cbindings::rdma_hw_stats {
        // SAFETY: The core passes a device that is added.
        let names = &unsafe { device::data_of::<D>(device) }.counters;
        let Ok(count) = ffi::c_int::try_from(names.len()) else {
            return null_mut();
        };
        // CAST: A small number of milliseconds.
        let lifespan = cbindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as ffi::c_ulong;
        // SAFETY: The device owns the names, which stay as long as it does.
        unsafe { cbindings::rdma_alloc_hw_stats_struct(names.as_ptr(), count, lifespan) }
    }

    /// `get_hw_stats`.
    ///
    /// # Safety
    ///
    /// For the core only: `stats` came from [`Self::alloc_stats`].
    pub(crate) unsafe extern "C" fn stats(
        device: *mut cbindings::ib_device,
        stats: *mut cbindings::rdma_hw_stats,
        port: u32,
        _: ffi::c_int,
    ) -> ffi::c_int {
        if port == 0 {
            return eopnotsupp().to_errno();
        }
        // SAFETY: The core passes a device that is added.
        let data = unsafe { device::data_of::<D>(device) };
        let driver = data.driver();
        // SAFETY: `alloc_stats` made `stats` with a value for each name.
        let values = unsafe { (*stats).value.as_mut_slice(D::COUNTERS.len()) };
        for (index, value) in values.iter_mut().enumerate() {
            *value = driver.counter(index);
        }
        // SAFETY: The core passes valid `stats`.
        unsafe { (*stats).num_counters }
    }
}

/// Returns the version of a module as that of firmware: up to three numbers of 16 bits.
///
/// # Safety
///
/// The module is loaded.
unsafe fn version(module: *const kernel::bindings::module) -> u64 {
    // SAFETY: The caller promises a loaded module. Its version is a string, or null.
    let text = unsafe {
        match (*module).version.is_null() {
            true => return 0,
            false => CStr::from_char_ptr((*module).version),
        }
    };
    let mut parts = text.to_bytes().split(|octet| *octet == b'.');
    (0..3).fold(0, |version, _| {
        let part = parts.next().unwrap_or_default();
        let digits = part.iter().take_while(|octet| octet.is_ascii_digit());
        let part = digits.fold(0_u16, |number, digit| {
            number
                .saturating_mul(10)
                .saturating_add((digit - b'0').into())
        });
        version << 16 | u64::from(part)
    })
}

/// Converts a limit to the type of the kernel, signed or not.
fn number<T: TryFrom<u32> + Default>(limit: u32) -> T {
    T::try_from(limit).unwrap_or_default()
}
