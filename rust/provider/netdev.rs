// SPDX-License-Identifier: GPL-2.0

//! The network device below an RDMA device.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::ptr::NonNull;
use iwraw::addr::Net;
use kernel::prelude::*;

/// A network device.
///
/// # Invariants
///
/// The value owns a reference to it.
pub struct NetDevice(NonNull<iwraw::net_device>);

// SAFETY: Any task may hold a reference.
unsafe impl Send for NetDevice {}
// SAFETY: What `&NetDevice` reads may change, but is read whole.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// That of an RDMA device. `ENODEV` if it has none any more.
    ///
    /// # Safety
    ///
    /// The device is allocated.
    pub(crate) unsafe fn of(device: *mut iwraw::ib_device) -> Result<Self> {
        // SAFETY: The caller vouches for the device.
        let netdev = unsafe { iwraw::ib_device_get_netdev(device, 1) };
        // INVARIANT: The reference just taken.
        Ok(Self(NonNull::new(netdev).ok_or(ENODEV)?))
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        // SAFETY: The reference keeps it. A number is never negative.
        u32::try_from(unsafe { (*self.0.as_ptr()).ifindex }).unwrap_or(0)
    }

    /// The namespace that it is in. `ENODEV` if that is going away.
    pub fn net(&self) -> Result<Net> {
        // SAFETY: A device that has a reference is in a namespace, which goes after it.
        let net = unsafe { iwraw::maybe_get_net(iwraw::dev_net(self.0.as_ptr())) };
        let net = NonNull::new(net).ok_or(ENODEV)?;
        // SAFETY: The reference was just taken, and is given back below.
        let counted = unsafe { Net::from_raw(net) };
        // SAFETY: As above; `counted` has its own.
        unsafe { iwraw::put_net(net.as_ptr()) };
        Ok(counted)
    }

    /// Whether this namespace is the one that it is in.
    pub(crate) fn is_in(&self, net: *const iwraw::net) -> bool {
        // SAFETY: The reference keeps it.
        core::ptr::eq(unsafe { iwraw::dev_net(self.0.as_ptr()) }, net)
    }

    pub(crate) fn as_ptr(&self) -> *mut iwraw::net_device {
        self.0.as_ptr()
    }
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the type invariants, and given back once.
        unsafe { iwraw::dev_put(self.0.as_ptr()) };
    }
}
