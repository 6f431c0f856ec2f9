// SPDX-License-Identifier: GPL-2.0

//! Addresses of network devices, and notification of changes.
//!
//! C headers: [`include/linux/inetdevice.h`](srctree/include/linux/inetdevice.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use crate::netdev::NetDevice;
use core::mem::offset_of;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::ptr::NonNull;
use kernel::bindings::list_head;
use kernel::error::to_result;
use kernel::ffi;
use kernel::prelude::*;
use kernel::sync::rcu;

impl NetDevice {
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
            let Some(device) = NonNull::new(iwraw::__in_dev_get_rcu(self.as_ptr())) else {
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
        // in it is a `inet6_ifaddr`.
        unsafe {
            let Some(device) = NonNull::new(iwraw::__in6_dev_get(self.as_ptr())) else {
                return Ok(());
            };
            let device = device.as_ptr();
            iwraw::read_lock_bh(&raw mut (*device).lock);
            let head: *const list_head = &raw const (*device).addr_list;
            let mut next = (*head).next.cast_const();
            let mut all = Ok(());
            while next != head && all.is_ok() {
                let entry = next
                    .byte_sub(offset_of!(iwraw::inet6_ifaddr, if_list))
                    .cast::<iwraw::inet6_ifaddr>();
                all = each(Ipv6Addr::from((*entry).addr.in6_u.u6_addr8));
                next = (*next).next.cast_const();
            }
            iwraw::read_unlock_bh(&raw mut (*device).lock);
            all
        }
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
    v4: iwraw::notifier_block,
    v6: iwraw::notifier_block,
    receiver: W,
}

/// A registered [`OnAddrChange`]. Dropping it ends the notifications, and sleeps.
///
/// # Invariants
///
/// `blocks` came from [`KBox::into_raw`], and both its notifiers are in C's lists.
pub struct AddrNotifier<W: OnAddrChange> {
    blocks: NonNull<NotifierBlocks<W>>,
}

// SAFETY: C has locks for its lists, and `W` may be sent.
unsafe impl<W: OnAddrChange> Send for AddrNotifier<W> {}
// SAFETY: `&AddrNotifier` gives access to a `&W`, which may be shared.
unsafe impl<W: OnAddrChange> Sync for AddrNotifier<W> {}

impl<W: OnAddrChange> AddrNotifier<W> {
    /// Registers the notifiers. Sleeps.
    pub fn new(receiver: W) -> Result<Self> {
        let notifier = |call| iwraw::notifier_block {
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
            let mut registered = to_result(iwraw::register_inetaddr_notifier(&raw mut (*at).v4));
            if registered.is_ok() {
                registered = to_result(iwraw::register_inet6addr_notifier(&raw mut (*at).v6));
                if registered.is_err() {
                    iwraw::unregister_inetaddr_notifier(&raw mut (*at).v4);
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

    /// Returns the receiver.
    pub fn receiver(&self) -> &W {
        // SAFETY: By the type invariants it is there as long as `self`; C changes the notifiers
        // only.
        unsafe { &(*self.blocks.as_ptr()).receiver }
    }
}

impl<W: OnAddrChange> Drop for AddrNotifier<W> {
    fn drop(&mut self) {
        let at = self.blocks.as_ptr();
        // SAFETY: By the type invariants both are registered. After unregistration C calls neither
        // of them.
        unsafe {
            iwraw::unregister_inet6addr_notifier(&raw mut (*at).v6);
            iwraw::unregister_inetaddr_notifier(&raw mut (*at).v4);
            drop(KBox::from_raw(at));
        }
    }
}

/// # Safety
///
/// For C only, as the notifier `v4` of a registered [`NotifierBlocks`] for the same `W`.
unsafe extern "C" fn v4_changed<W: OnAddrChange>(
    notifier: *mut iwraw::notifier_block,
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
    notifier: *mut iwraw::notifier_block,
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
    iwraw::NOTIFY_OK as ffi::c_int
}
