// SPDX-License-Identifier: GPL-2.0

//! The downcalls of iw_cm: connect, listen, accept, reject.
//!
//! C headers: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! Accept and reject get the id that iw_cm made for the connection. All that it has of the request
//! is the number that the driver assigned.
//!
//! A queue pair is named by its number. For an id that has none, rdma_cm takes the number from user
//! space, where everybody may open its device and read the numbers of all queue pairs. Those here
//! belong to consumers in the kernel, so only the consumer that created one may connect it.

use crate::cm::CmId;
use crate::cm::ConnParams;
use crate::cm::Endpoints;
use crate::device;
use crate::driver::Driver;
use crate::errno;
use crate::netdev::NetDevice;
use crate::qp;
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::errno::eafnosupport;
use iwraw::noio::NoIo;
use kernel::ffi;
use kernel::prelude::*;

/// Runs a function for iw_cm. As the work of a connection waits for these functions, they allocate
/// in the same scope.
fn in_noio(f: impl FnOnce() -> Result) -> ffi::c_int {
    let _noio = NoIo::new();
    errno(f)
}

/// The connection operations of a driver.
pub(crate) struct Operations<D>(PhantomData<D>);

/// Returns the private data of a call.
///
/// # Safety
///
/// `data` has `length` octets as long as `'a`, or is null.
unsafe fn octets<'a>(data: *const ffi::c_void, length: usize) -> &'a [u8] {
    match data.is_null() || length == 0 {
        true => &[],
        // SAFETY: The caller promises that `data` has `length` octets.
        false => unsafe { core::slice::from_raw_parts(data.cast(), length) },
    }
}

/// # Safety
///
/// iw_cm passes valid parameters, which stay as long as `'a`.
unsafe fn parameters<'a>(parameters: *const iwraw::iw_cm_conn_param) -> ConnParams<'a> {
    // SAFETY: The caller promises that the parameters are valid.
    let param = unsafe { &*parameters };
    ConnParams {
        ird: param.ird,
        ord: param.ord,
        // SAFETY: The caller promises that the parameters are valid, and with them the private
        // data.
        private_data: unsafe { octets(param.private_data, param.private_data_len.into()) },
    }
}

/// Says whether the consumer of a connection created this queue pair.
///
/// # Safety
///
/// iw_cm, of which rdma_cm is the only user, passes the live id of a connection: its context is
/// rdma_cm's private id, which begins with the public one.
pub(crate) unsafe fn is_owned_by_consumer_of(
    id: *const iwraw::iw_cm_id,
    qp: NonNull<iwraw::ib_qp>,
) -> bool {
    // SAFETY: The caller promises it. The consumer that creates and destroys the queue pair is the
    // one that calls now.
    unsafe {
        let consumer = (*id).context.cast::<iwraw::rdma_cm_id>();
        (&raw const (*consumer).qp).read_volatile() == qp.as_ptr()
    }
}

/// Returns the pointer that iw_cm keeps for the driver: the number of a request.
///
/// # Safety
///
/// iw_cm passes a live id.
unsafe fn provider_data(id: *mut iwraw::iw_cm_id) -> *mut ffi::c_void {
    // SAFETY: The caller promises a live id.
    unsafe { (*id).provider_data }
}

impl<D: Driver> Operations<D> {
    /// `iw_connect`.
    ///
    /// # Safety
    ///
    /// For iw_cm only: it has a reference to the queue pair.
    pub(crate) unsafe extern "C" fn connect(
        id: *mut iwraw::iw_cm_id,
        param: *mut iwraw::iw_cm_conn_param,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device, and has a reference to the
            // queue pair.
            unsafe {
                let device = (*id).device;
                let is_meant = |qp| is_owned_by_consumer_of(id, qp);
                let qp = qp::Operations::<D>::find(device, (*param).qpn, is_meant)?;
                let netdev = NetDevice::of(device)?;
                let id = CmId::new(NonNull::new(id).ok_or(EINVAL)?);
                let (Some(local), Some(peer)) = id.addresses() else {
                    return Err(eafnosupport());
                };
                let driver = device::data_of::<D>(device).driver();
                let endpoints = Endpoints { local, peer };
                D::connect(driver, &netdev, &qp, endpoints, parameters(param), id)
            }
        })
    }

    /// `iw_accept`.
    ///
    /// # Safety
    ///
    /// As [`Self::connect`].
    pub(crate) unsafe extern "C" fn accept(
        id: *mut iwraw::iw_cm_id,
        param: *mut iwraw::iw_cm_conn_param,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device, and has a reference to the
            // queue pair.
            unsafe {
                let device = (*id).device;
                let handle = u32::try_from(provider_data(id).addr())?;
                let driver = device::data_of::<D>(device).driver();
                let is_meant = |qp| is_owned_by_consumer_of(id, qp);
                let qp = match qp::Operations::<D>::find(device, (*param).qpn, is_meant) {
                    Ok(qp) => qp,
                    Err(error) => {
                        // iw_cm rejects nothing that it failed to accept. If the peer has gone it
                        // need not be told.
                        let _ = D::reject(driver, handle, &[]);
                        return Err(error);
                    }
                };
                let id = CmId::new(NonNull::new(id).ok_or(EINVAL)?);
                D::accept(driver, handle, &qp, parameters(param), id)
            }
        })
    }

    /// `iw_reject`.
    ///
    /// # Safety
    ///
    /// For iw_cm only.
    pub(crate) unsafe extern "C" fn reject(
        id: *mut iwraw::iw_cm_id,
        data: *const ffi::c_void,
        length: u8,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device, and octets that stay during
            // the call.
            unsafe {
                let handle = u32::try_from(provider_data(id).addr())?;
                let driver = device::data_of::<D>((*id).device).driver();
                D::reject(driver, handle, octets(data, length.into()))
            }
        })
    }

    /// `iw_create_listen`.
    ///
    /// For a wildcard, rdma_cm makes every device listen, whatever its namespace, and gives up the
    /// whole listen if one fails. So a device in another namespace than the consumer's reports
    /// success without listening.
    ///
    /// # Safety
    ///
    /// For iw_cm only, of which rdma_cm is the only user.
    pub(crate) unsafe extern "C" fn listen(
        id: *mut iwraw::iw_cm_id,
        backlog: ffi::c_int,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device; its context is rdma_cm's
            // private id, which begins with the public one.
            unsafe {
                (*id).provider_data = null_mut();
                let device = (*id).device;
                let netdev = NetDevice::of(device)?;
                let consumer = (*id).context.cast::<iwraw::rdma_cm_id>();
                // rdma_cm creates the listeners of a wildcard without a port number, and then
                // assigns a request to the first device that could have the address: one on a VLAN
                // of the network device or below it, or one of the other link type. The queue pair
                // of that device is not found when the consumer accepts. With the only port of a
                // device, rdma_cm checks the device of the listener first.
                if (*consumer).port_num == 0 {
                    (*consumer).port_num = 1;
                }
                if !netdev.is_in((*consumer).route.addr.dev_addr.net) {
                    return Ok(());
                }
                let held = CmId::new(NonNull::new(id).ok_or(EINVAL)?);
                let address = held.addresses().0.ok_or(eafnosupport())?;
                let backlog = u32::try_from(backlog)?;
                let driver = device::data_of::<D>(device).driver();
                let listener = D::listen(driver, netdev, address, backlog, held)?;
                (*id).provider_data = KBox::into_raw(KBox::new(listener, GFP_KERNEL)?).cast();
            }
            Ok(())
        })
    }

    /// `iw_destroy_listen`.
    ///
    /// # Safety
    ///
    /// For iw_cm only.
    pub(crate) unsafe extern "C" fn stop_listening(id: *mut iwraw::iw_cm_id) -> ffi::c_int {
        let _noio = NoIo::new();
        // SAFETY: iw_cm passes the id of a listener, once; a pointer that is not null came from
        // `into_raw` in `listen`.
        unsafe {
            let listener = core::mem::replace(&mut (*id).provider_data, null_mut());
            if !listener.is_null() {
                drop(KBox::<D::Listener>::from_raw(listener.cast()));
            }
        }
        0
    }
}
