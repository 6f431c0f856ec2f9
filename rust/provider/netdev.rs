// SPDX-License-Identifier: GPL-2.0

//! The network device below an RDMA device.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::ptr::NonNull;
use iwraw::addr::Net;
use kernel::ffi;
use kernel::prelude::*;
use kernel::sync::rcu;

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

    /// The number of the device by whose routes its packets go (a VRF), if it is part of one.
    pub fn routing_master(&self) -> Option<u32> {
        // SAFETY: The reference keeps it. C looks at it under RCU. A number is never negative.
        let index = u32::try_from(unsafe { iwraw::l3mdev_master_ifindex(self.0.as_ptr()) });
        index.ok().filter(|&index| index != 0)
    }

    /// The VLANs on it, in its namespace. Allocates atomically: `ENOMEM`.
    pub fn vlans(&self) -> Result<KVec<Self>> {
        let mut search = Search {
            below: self.0.as_ptr(),
            found: KVec::new(),
            error: None,
        };
        let mut private = iwraw::netdev_nested_priv {
            flags: 0,
            data: (&raw mut search).cast(),
        };
        let _rcu = rcu::read_lock();
        // SAFETY: The reference keeps the device. C calls the function during the call only, with `private`.
        unsafe {
            iwraw::netdev_walk_all_upper_dev_rcu(self.0.as_ptr(), Some(is_above), &mut private)
        };
        match search.error {
            Some(error) => Err(error),
            None => Ok(search.found),
        }
    }

    /// Whether there is an RDMA device of the driver `id` on it. Any context.
    pub fn has_device(&self, id: u32) -> bool {
        // SAFETY: The reference keeps it.
        unsafe { has_rdma_device(self.0.as_ptr(), id) }
    }

    /// The namespace that it is in. `ENODEV` if that is going away.
    pub fn net(&self) -> Result<Net> {
        // SAFETY: The reference keeps it.
        unsafe { net_of(self.0.as_ptr()) }
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

/// The namespace that a network device is in. `ENODEV` if that is going away.
///
/// # Safety
///
/// The network device is live.
pub(crate) unsafe fn net_of(netdev: *mut iwraw::net_device) -> Result<Net> {
    // A reference to the device does not keep it where it is: it can move while a request is on its way here, and then what it was in may
    // go. What RCU readers find does not go before they are done.
    let rcu = rcu::read_lock();
    // SAFETY: The caller promises a live device; `rcu` keeps the namespace that is read.
    let net = unsafe { iwraw::maybe_get_net(iwraw::dev_net(netdev)) };
    drop(rcu);
    let net = NonNull::new(net).ok_or(ENODEV)?;
    // SAFETY: The reference was just taken, and is given back below.
    let counted = unsafe { Net::from_raw(net) };
    // SAFETY: As above; `counted` has its own.
    unsafe { iwraw::put_net(net.as_ptr()) };
    Ok(counted)
}

/// A search for VLANs.
struct Search {
    below: *mut iwraw::net_device,
    found: KVec<NetDevice>,
    error: Option<Error>,
}

/// Looks at a network device above the one of a search.
///
/// # Safety
///
/// For `netdev_walk_all_upper_dev_rcu` only: the device is live, RCU's read lock is held, and `private` leads to a [`Search`].
unsafe extern "C" fn is_above(
    upper: *mut iwraw::net_device,
    private: *mut iwraw::netdev_nested_priv,
) -> ffi::c_int {
    // SAFETY: The caller promises where it is, and that nobody else uses it.
    let search = unsafe { &mut *(*private).data.cast::<Search>() };
    // SAFETY: Both devices are live. A device has a namespace, and that of a VLAN tells what it is on.
    let is_one = unsafe {
        iwraw::is_vlan_dev(upper)
            && iwraw::vlan_dev_real_dev(upper) == search.below
            && core::ptr::eq(iwraw::dev_net(upper), iwraw::dev_net(search.below))
    };
    if !is_one {
        return 0;
    }
    // SAFETY: The device is live.
    unsafe { iwraw::dev_hold(upper) };
    // INVARIANT: The reference just taken.
    let found = NonNull::new(upper).map(NetDevice);
    let pushed = found.ok_or(ENODEV).and_then(|found| {
        let pushed = search.found.push(found, GFP_ATOMIC);
        pushed.map_err(Error::from)
    });
    match pushed {
        Ok(()) => 0,
        Err(error) => {
            search.error = Some(error);
            // Nothing more is looked at.
            1
        }
    }
}

/// Whether there is an RDMA device of the driver `id` on it. Any context.
///
/// # Safety
///
/// The network device is live.
pub(crate) unsafe fn has_rdma_device(netdev: *mut iwraw::net_device, id: u32) -> bool {
    // SAFETY: The caller promises it.
    let device = unsafe { iwraw::ib_device_get_by_netdev(netdev, id) };
    if device.is_null() {
        return false;
    }
    // SAFETY: The reference was just taken.
    unsafe { iwraw::ib_device_put(device) };
    true
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the type invariants, and given back once.
        unsafe { iwraw::dev_put(self.0.as_ptr()) };
    }
}
