// SPDX-License-Identifier: GPL-2.0

//! The network device below an RDMA device: its addresses, and notification of their changes. When
//! it is removed, [`device`](crate::device) removes the RDMA device; [`port`](crate::port) reads
//! whether it is up.
//!
//! C headers: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h),
//! [`include/linux/inetdevice.h`](srctree/include/linux/inetdevice.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use crate::registry::{
    self,
    Place, //
};
use core::{
    mem::offset_of,
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr, //
    },
    ptr::NonNull, //
};
use ext::net::Net;
use kernel::{
    bindings::list_head,
    error::to_result,
    ffi,
    prelude::*,
    str::CStr,
    sync::rcu, //
};

/// A network device in a namespace. It may move to another one, where nobody who has this uses it.
///
/// # Invariants
///
/// The value owns a reference to the device.
pub struct NetDevice {
    netdev: NonNull<cbindings::net_device>,
    /// The address of its namespace when this was made, which is only compared.
    net: usize,
}

// SAFETY: Any task may hold or drop a reference.
unsafe impl Send for NetDevice {}
// SAFETY: Fields that `&NetDevice` reads may change, but are read in one piece.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// Returns that of an RDMA device. `ENODEV` if it has none any more.
    ///
    /// # Safety
    ///
    /// The device is allocated.
    pub(crate) unsafe fn of(device: *mut cbindings::ib_device) -> Result<Self> {
        // SAFETY: The caller promises that the device is allocated.
        let netdev = unsafe { cbindings::ib_device_get_netdev(device, 1) };
        // SAFETY: The function has taken a reference.
        unsafe { Self::from_raw(netdev) }.ok_or(ENODEV)
    }

    /// Takes over a reference. [`None`] if there is none.
    ///
    /// # Safety
    ///
    /// `netdev` is null, or the caller has a reference, which becomes that of the value.
    unsafe fn from_raw(netdev: *mut cbindings::net_device) -> Option<Self> {
        let netdev = NonNull::new(netdev)?;
        // SAFETY: The caller promises a reference, which keeps the device.
        let net = unsafe { cbindings::dev_net(netdev.as_ptr()) }.addr();
        // INVARIANT: The caller promises a reference.
        Some(Self { netdev, net })
    }

    /// Returns the interface index.
    pub fn index(&self) -> u32 {
        // SAFETY: By the type invariants the reference keeps the device. An index is never
        // negative.
        u32::try_from(unsafe { (*self.as_ptr()).ifindex }).unwrap_or(0)
    }

    /// Returns the index of the device whose routes its packets use (a VRF), if it is part of one.
    pub fn routing_master(&self) -> Option<u32> {
        // SAFETY: By the type invariants the reference keeps the device. C accesses it under RCU.
        // An index is never negative.
        let index = u32::try_from(unsafe { cbindings::l3mdev_master_ifindex(self.as_ptr()) });
        index.ok().filter(|&index| index != 0)
    }

    /// Returns the VLANs on it, in its namespace. Allocates atomically: `ENOMEM`.
    pub fn vlans(&self) -> Result<KVec<Self>> {
        let mut search = Search {
            below: self.as_ptr(),
            found: KVec::new(),
            error: None,
        };
        let mut private = cbindings::netdev_nested_priv {
            flags: 0,
            data: (&raw mut search).cast(),
        };
        let _rcu = rcu::read_lock();
        // SAFETY: By the type invariants the reference keeps the device. C calls the function
        // during the call only, with `private`.
        unsafe {
            cbindings::netdev_walk_all_upper_dev_rcu(self.as_ptr(), Some(is_above), &mut private)
        };
        match search.error {
            Some(error) => Err(error),
            None => Ok(search.found),
        }
    }

    /// Returns whether there is a device of a link type of this module on it. Sleeps.
    pub fn has_device(&self, link_type: &'static CStr) -> bool {
        registry::has(Place::new(self.as_ptr(), link_type))
    }

    /// Returns its namespace. `ENODEV` if that is going away, or if it has moved to another one.
    pub fn net(&self) -> Result<Net> {
        // SAFETY: By the type invariants the reference keeps the device.
        let net = unsafe { net_of(self.as_ptr()) }?;
        match net.as_raw().addr() == self.net {
            true => Ok(net),
            false => Err(ENODEV),
        }
    }

    /// Returns whether it was in this namespace when this was made.
    pub(crate) fn is_in(&self, net: *const cbindings::net) -> bool {
        self.net == net.addr()
    }

    pub(crate) fn as_ptr(&self) -> *mut cbindings::net_device {
        self.netdev.as_ptr()
    }

    /// Returns its IPv6 or its IPv4 addresses, also those that are tentative. Allocates atomically:
    /// `ENOMEM`.
    pub fn addresses(&self, v6: bool) -> Result<KVec<IpAddr>> {
        let mut found = KVec::new();
        match v6 {
            false => self.each_v4(|ip| Ok(found.push(ip.into(), GFP_ATOMIC)?))?,
            true => self.each_v6(|ip| Ok(found.push(ip.into(), GFP_ATOMIC)?))?,
        }
        Ok(found)
    }

    fn each_v4(&self, mut each: impl FnMut(Ipv4Addr) -> Result) -> Result {
        let _rcu = rcu::read_lock();
        // SAFETY: The reference of `self` keeps the device. Structures that are found under RCU,
        // and those that they link to, stay as long as `_rcu`.
        unsafe {
            let Some(device) = NonNull::new(cbindings::__in_dev_get_rcu(self.as_ptr())) else {
                return Ok(());
            };
            let mut next = (&raw const (*device.as_ptr()).ifa_list).read_volatile();
            while !next.is_null() {
                each(Ipv4Addr::from(u32::from_be((*next).ifa_local)))?;
                next = (&raw const (*next).ifa_next).read_volatile();
            }
        }
        Ok(())
    }

    fn each_v6(&self, mut each: impl FnMut(Ipv6Addr) -> Result) -> Result {
        let _rcu = rcu::read_lock();
        // SAFETY: The reference of `self` keeps the device, and `_rcu` the structure that is found
        // under RCU. The list changes with the device's lock held, which is taken, and each entry
        // in it is an `inet6_ifaddr`.
        unsafe {
            let Some(device) = NonNull::new(cbindings::__in6_dev_get(self.as_ptr())) else {
                return Ok(());
            };
            let device = device.as_ptr();
            cbindings::read_lock_bh(&raw mut (*device).lock);
            let head: *const list_head = &raw const (*device).addr_list;
            let mut next = (*head).next.cast_const();
            let mut all = Ok(());
            while next != head && all.is_ok() {
                let entry = next
                    .byte_sub(offset_of!(cbindings::inet6_ifaddr, if_list))
                    .cast::<cbindings::inet6_ifaddr>();
                all = each(Ipv6Addr::from((*entry).addr.in6_u.u6_addr8));
                next = (*next).next.cast_const();
            }
            cbindings::read_unlock_bh(&raw mut (*device).lock);
            all
        }
    }
}

/// Returns the namespace of a network device. `ENODEV` if that is going away.
///
/// # Safety
///
/// The network device is live.
pub(crate) unsafe fn net_of(netdev: *mut cbindings::net_device) -> Result<Net> {
    // A reference to the device does not keep it in its namespace: it can move meanwhile, and then
    // the namespace may be freed. A namespace that an RCU reader finds is not freed before the
    // reader is done.
    let rcu = rcu::read_lock();
    // SAFETY: The caller promises a live device; `rcu` keeps the namespace that is read.
    let net = unsafe { cbindings::maybe_get_net(cbindings::dev_net(netdev)) };
    drop(rcu);
    let net = NonNull::new(net).ok_or(ENODEV)?;
    // SAFETY: The reference that was just taken keeps the namespace, and is dropped below.
    let counted = unsafe { Net::from_raw(net) };
    // SAFETY: The reference of `maybe_get_net` is dropped once; `counted` has its own.
    unsafe { cbindings::put_net(net.as_ptr()) };
    Ok(counted)
}

/// The state of a search for VLANs.
struct Search {
    below: *mut cbindings::net_device,
    found: KVec<NetDevice>,
    error: Option<Error>,
}

/// Adds a network device that is a VLAN on the one of a search.
///
/// # Safety
///
/// For `netdev_walk_all_upper_dev_rcu` only: the device is live, RCU's read lock is held, and
/// `private` points to a [`Search`].
unsafe extern "C" fn is_above(
    upper: *mut cbindings::net_device,
    private: *mut cbindings::netdev_nested_priv,
) -> ffi::c_int {
    // SAFETY: The caller promises a [`Search`], which nobody else uses during the call.
    let search = unsafe { &mut *(*private).data.cast::<Search>() };
    // SAFETY: Both devices are live. Each has a namespace, and that of a VLAN has a real device.
    let is_one = unsafe {
        cbindings::is_vlan_dev(upper)
            && cbindings::vlan_dev_real_dev(upper) == search.below
            && core::ptr::eq(cbindings::dev_net(upper), cbindings::dev_net(search.below))
    };
    if !is_one {
        return 0;
    }
    // SAFETY: The caller promises that the device is live.
    unsafe { cbindings::dev_hold(upper) };
    // SAFETY: The reference was just taken.
    let found = unsafe { NetDevice::from_raw(upper) };
    let pushed = found.ok_or(ENODEV).and_then(|found| {
        let pushed = search.found.push(found, GFP_ATOMIC);
        pushed.map_err(Error::from)
    });
    match pushed {
        Ok(()) => 0,
        Err(error) => {
            search.error = Some(error);
            // The search ends.
            1
        }
    }
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is dropped once.
        unsafe { cbindings::dev_put(self.as_ptr()) };
    }
}

/// A receiver of notifications that an address of some network device was added or removed.
pub trait OnAddrChange: Send + Sync + 'static {
    /// An address was changed, or is about to be. Any context, with locks held: an implementation
    /// sets bits and queues work.
    fn changed(&self);
}

/// The notifier blocks that C links into its lists.
#[repr(C)]
struct NotifierBlocks<W> {
    v4: cbindings::notifier_block,
    v6: cbindings::notifier_block,
    receiver: W,
}

/// A registered [`OnAddrChange`]. Dropping it ends the notifications, and sleeps.
///
/// # Invariants
///
/// `blocks` came from [`KBox::into_raw`], and both its notifiers are in C's lists.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use kernel::sync::atomic::{
///     AtomicFlag,
///     Relaxed, //
/// };
/// use provider::netdev::{
///     AddrNotifier,
///     OnAddrChange, //
/// };
///
/// struct Changed(AtomicFlag);
///
/// impl OnAddrChange for Changed {
///     fn changed(&self) {
///         self.0.store(true, Relaxed);
///     }
/// }
///
/// // It is told until this is dropped.
/// let _notifier = AddrNotifier::new(Changed(AtomicFlag::new(false)))?;
/// # Ok::<(), Error>(())
/// ```
pub struct AddrNotifier<W: OnAddrChange> {
    blocks: NonNull<NotifierBlocks<W>>,
}

// SAFETY: C has locks for its lists, and `W` may be sent.
unsafe impl<W: OnAddrChange> Send for AddrNotifier<W> {}
// SAFETY: `&AddrNotifier` gives access to nothing, and C to a `&W`, which may be shared.
unsafe impl<W: OnAddrChange> Sync for AddrNotifier<W> {}

impl<W: OnAddrChange> AddrNotifier<W> {
    /// Registers the notifiers. Sleeps.
    pub fn new(receiver: W) -> Result<Self> {
        let notifier = |call| cbindings::notifier_block {
            notifier_call: Some(call),
            ..Default::default()
        };
        let blocks = KBox::new(
            NotifierBlocks {
                v4: notifier(v4_changed::<W>),
                v6: notifier(v6_changed::<W>),
                receiver,
            },
            GFP_KERNEL,
        )?;
        let blocks = NonNull::new(KBox::into_raw(blocks)).ok_or(ENOMEM)?;
        let at = blocks.as_ptr();
        // SAFETY: The notifiers stay where they are until they are unregistered. If registration
        // fails nobody else has the box.
        unsafe {
            let mut registered =
                to_result(cbindings::register_inetaddr_notifier(&raw mut (*at).v4));
            if registered.is_ok() {
                registered = to_result(cbindings::register_inet6addr_notifier(&raw mut (*at).v6));
                if registered.is_err() {
                    cbindings::unregister_inetaddr_notifier(&raw mut (*at).v4);
                }
            }
            if let Err(error) = registered {
                drop(KBox::from_raw(at));
                return Err(error);
            }
        }
        // INVARIANT: Both notifiers were just registered.
        Ok(Self { blocks })
    }
}

impl<W: OnAddrChange> Drop for AddrNotifier<W> {
    fn drop(&mut self) {
        let at = self.blocks.as_ptr();
        // SAFETY: By the type invariants both are registered. After unregistration C calls neither
        // of them.
        unsafe {
            cbindings::unregister_inet6addr_notifier(&raw mut (*at).v6);
            cbindings::unregister_inetaddr_notifier(&raw mut (*at).v4);
            drop(KBox::from_raw(at));
        }
    }
}

/// # Safety
///
/// For C only, as the notifier `v4` of a registered [`NotifierBlocks`] for the same `W`.
unsafe extern "C" fn v4_changed<W: OnAddrChange>(
    notifier: *mut cbindings::notifier_block,
    _: ffi::c_ulong,
    _: *mut ffi::c_void,
) -> ffi::c_int {
    // SAFETY: The caller promises that the notifier is `v4` of a live `NotifierBlocks<W>`.
    unsafe { notify::<W>(notifier.byte_sub(offset_of!(NotifierBlocks<W>, v4)).cast()) }
}

/// # Safety
///
/// For C only, as the notifier `v6` of a registered [`NotifierBlocks`] for the same `W`.
unsafe extern "C" fn v6_changed<W: OnAddrChange>(
    notifier: *mut cbindings::notifier_block,
    _: ffi::c_ulong,
    _: *mut ffi::c_void,
) -> ffi::c_int {
    // SAFETY: The caller promises that the notifier is `v6` of a live `NotifierBlocks<W>`.
    unsafe { notify::<W>(notifier.byte_sub(offset_of!(NotifierBlocks<W>, v6)).cast()) }
}

/// # Safety
///
/// `blocks` is live.
unsafe fn notify<W: OnAddrChange>(blocks: *const NotifierBlocks<W>) -> ffi::c_int {
    // SAFETY: The caller promises it, and nobody changes the receiver.
    unsafe { &(*blocks).receiver }.changed();
    // CAST: A small number.
    cbindings::NOTIFY_OK as ffi::c_int
}
