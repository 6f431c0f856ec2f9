// SPDX-License-Identifier: GPL-2.0

//! Registration of a driver: `rdma link add`, and the removal of network devices.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use crate::device;
use crate::driver::Driver;
use crate::errno;
use crate::netdev::has_rdma_device;
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering;
use kernel::error::to_result;
use kernel::ffi;
use kernel::prelude::*;

/// The module, which stays loaded while a device is in use.
static MODULE: AtomicPtr<kernel::bindings::module> = AtomicPtr::new(null_mut());

/// The structures that C links into its lists.
struct LinkBlocks {
    ops: iwraw::rdma_link_ops,
    notifier: iwraw::notifier_block,
}

/// A registered link type. When it is dropped, its devices are removed, and then it is
/// unregistered.
///
/// # Invariants
///
/// `blocks` came from [`KBox::into_raw`], and is in C's lists.
pub struct RdmaLinkType<D: Driver> {
    blocks: NonNull<LinkBlocks>,
    _driver: PhantomData<D>,
}

// SAFETY: Only the module's `init` and `exit` use it, one after the other.
unsafe impl<D: Driver> Send for RdmaLinkType<D> {}
// SAFETY: `&RdmaLinkType` gives access to nothing.
unsafe impl<D: Driver> Sync for RdmaLinkType<D> {}

impl<D: Driver> RdmaLinkType<D> {
    /// Registers the type. There is one of a driver at a time. Sleeps.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        MODULE.store(module.as_ptr(), Ordering::Relaxed);
        let blocks = KBox::new(
            LinkBlocks {
                ops: iwraw::rdma_link_ops {
                    type_: iwraw::chars(D::LINK_TYPE),
                    newlink: Some(newlink::<D>),
                    ..Default::default()
                },
                notifier: iwraw::notifier_block {
                    notifier_call: Some(netdev_event::<D>),
                    ..Default::default()
                },
            },
            GFP_KERNEL,
        )?;
        let blocks = NonNull::new(KBox::into_raw(blocks)).ok_or(ENOMEM)?;
        // SAFETY: The notifier stays where it is until it is unregistered.
        let registered =
            unsafe { iwraw::register_netdevice_notifier(&raw mut (*blocks.as_ptr()).notifier) };
        if let Err(error) = to_result(registered) {
            // SAFETY: The pointer came from `into_raw`, and nobody else has it.
            drop(unsafe { KBox::from_raw(blocks.as_ptr()) });
            return Err(error);
        }
        // SAFETY: The ops stay where they are until they are unregistered. The name is this
        // project's own, so it is not registered twice.
        unsafe { iwraw::rdma_link_register(&raw mut (*blocks.as_ptr()).ops) };
        // INVARIANT: Both were just registered.
        Ok(Self {
            blocks,
            _driver: PhantomData,
        })
    }
}

impl<D: Driver> Drop for RdmaLinkType<D> {
    fn drop(&mut self) {
        let blocks = self.blocks.as_ptr();
        // SAFETY: By the type invariants both are registered. Without the type no device is
        // created, without the notifier nobody but this task removes one, and then all existing
        // ones are removed, whoever else was about to do so.
        unsafe {
            iwraw::rdma_link_unregister(&raw mut (*blocks).ops);
            iwraw::unregister_netdevice_notifier(&raw mut (*blocks).notifier);
            iwraw::ib_unregister_driver(D::ID);
            drop(KBox::from_raw(blocks));
        }
    }
}

/// `newlink` of `struct rdma_link_ops`.
///
/// # Safety
///
/// For the core only: while the ops of `D` are registered.
unsafe extern "C" fn newlink<D: Driver>(
    name: *const ffi::c_char,
    netdev: *mut iwraw::net_device,
) -> ffi::c_int {
    errno(|| {
        for id in [iwraw::rdma_driver_id_RDMA_DRIVER_SIW, D::ID] {
            // SAFETY: The core holds a reference to the network device.
            if unsafe { has_rdma_device(netdev, id) } {
                return Err(EEXIST);
            }
        }
        // SAFETY: The core passes a name and a network device that stay during the call.
        unsafe { device::add::<D>(name, netdev, MODULE.load(Ordering::Relaxed)) }
    })
}

/// Handles an event of a network device.
///
/// # Safety
///
/// For the core only, as a notifier of network devices, for a driver `D`.
unsafe extern "C" fn netdev_event<D: Driver>(
    _: *mut iwraw::notifier_block,
    event: ffi::c_ulong,
    info: *mut ffi::c_void,
) -> ffi::c_int {
    // CAST: A small number.
    if event == iwraw::netdev_cmd_NETDEV_UNREGISTER as ffi::c_ulong {
        // SAFETY: Such a notifier gets a `struct netdev_notifier_info`, whose device is live.
        unsafe {
            let netdev = (*info.cast::<iwraw::netdev_notifier_info>()).dev;
            let device = iwraw::ib_device_get_by_netdev(netdev, D::ID);
            if !device.is_null() {
                // The network device waits until this is done.
                iwraw::ib_unregister_device_queued(device);
                iwraw::ib_device_put(device);
            }
        }
    }
    // CAST: A small number.
    iwraw::NOTIFY_OK as ffi::c_int
}
