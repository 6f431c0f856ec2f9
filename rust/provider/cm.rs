// SPDX-License-Identifier: GPL-2.0

//! Connection management: ids of iw_cm and their events; and the downcalls of iw_cm: connect,
//! listen, accept, reject.
//!
//! C headers: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! The driver keeps the order of events; iw_cm hits a `BUG_ON` where it is wrong.
//!
//! Accept and reject get the id that iw_cm made for the connection. All that it has of the request
//! is the number that the driver assigned.
//!
//! A queue pair is named by its number. For an id that has none, rdma_cm takes the number from user
//! space, where everybody may open its device and read the numbers of all queue pairs. So only the
//! consumer in the kernel, or the process, that created a queue pair may connect it.

use crate::{
    device,
    driver::Driver,
    errno,
    netdev::NetDevice,
    qp, //
};
use core::{
    marker::PhantomData,
    net::SocketAddr,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};
use ext::{
    addr::SockAddr,
    alloc_scope::NoIo,
    errno::{
        eafnosupport,
        econnrefused,
        econnreset, //
    }, //
};
use kernel::{
    error::to_result,
    ffi,
    prelude::*, //
};

/// The function that frees an id is code of iw_cm, and may still run when the last reference is
/// gone. So iw_cm must not be unloaded before this module, which therefore uses a symbol of it.
#[used]
static IW_CM: unsafe extern "C" fn(ffi::c_int) -> *const ffi::c_char = cbindings::iwcm_reject_msg;

/// An id of iw_cm.
///
/// # Invariants
///
/// The value owns a reference to the id.
pub struct CmId(NonNull<cbindings::iw_cm_id>);

// SAFETY: Any task may hold or drop a reference; iw_cm has its own locks.
unsafe impl Send for CmId {}
// SAFETY: Any task may use an id; iw_cm has its own locks.
unsafe impl Sync for CmId {}

/// The parameters of an event: numbers of Reads, and private data.
#[derive(Clone, Copy)]
pub struct EventParams<'a> {
    /// Read Requests that are accepted (IRD).
    pub ird: u8,
    /// Read Requests that may be outstanding (ORD).
    pub ord: u8,
    /// Private data, at most 255 octets.
    pub private_data: &'a [u8],
}

/// The reason why a connect failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The peer's upper layer refused.
    Refused,
    /// The peer went away, or broke a rule.
    Reset,
    /// The peer did not answer.
    TimedOut,
}

/// The parameters of a connect or an accept of a consumer.
#[derive(Clone, Copy)]
pub struct ConnParams<'a> {
    /// Read Requests that it accepts (IRD).
    pub ird: u32,
    /// Read Requests that it wants to have outstanding (ORD).
    pub ord: u32,
    /// Private data for the peer's upper layer.
    pub private_data: &'a [u8],
}

/// The two endpoints of a connection.
#[derive(Clone, Copy)]
pub struct Endpoints {
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the peer.
    pub peer: SocketAddr,
}

impl CmId {
    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// The id is live.
    pub(crate) unsafe fn new(id: NonNull<cbindings::iw_cm_id>) -> Self {
        // SAFETY: The caller promises that the id is live.
        if let Some(add_ref) = unsafe { (*id.as_ptr()).add_ref } {
            // SAFETY: The caller promises that the id is live, and iw_cm set its function.
            unsafe { add_ref(id.as_ptr()) };
        }
        // INVARIANT: The reference was just taken.
        Self(id)
    }

    /// Returns the address to listen at, or the endpoints of the connection. The second is `None`
    /// for a listener.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let id = self.0.as_ptr();
        // SAFETY: By the type invariants the reference keeps the id; both fields are storage for an
        // address of any family.
        unsafe {
            (
                ext::addr::read((&raw const (*id).m_local_addr).cast()),
                ext::addr::read((&raw const (*id).m_remote_addr).cast()),
            )
        }
    }

    fn event(&self, event: &mut cbindings::iw_cm_event) -> Result {
        // SAFETY: By the type invariants the reference keeps the id; iw_cm copies the event.
        unsafe {
            let handler = (*self.0.as_ptr()).event_handler.ok_or(EINVAL)?;
            to_result(handler(self.0.as_ptr(), event))
        }
    }

    /// Reports CONNECT_REQUEST to a listener's id. `handle` comes back when the consumer accepts or
    /// rejects, if ever. May fail.
    pub fn connect_request(
        &self,
        endpoints: Endpoints,
        params: EventParams<'_>,
        handle: u32,
    ) -> Result {
        let mut event = filled(
            cbindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST,
            params,
        )?;
        event.provider_data = core::ptr::without_provenance_mut(usize::try_from(handle)?);
        set_addresses(&mut event, endpoints);
        self.event(&mut event)
    }

    /// Reports CONNECT_REPLY of a connect that succeeded. May fail if there are private data.
    pub fn connected(&self, endpoints: Endpoints, params: EventParams<'_>) -> Result {
        let mut event = filled(
            cbindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY,
            params,
        )?;
        set_addresses(&mut event, endpoints);
        self.event(&mut event)
    }

    /// Reports CONNECT_REPLY of a connect that failed. May fail if there are private data.
    pub fn refused(&self, error: ConnectError, private_data: &[u8]) -> Result {
        let params = EventParams {
            ird: 0,
            ord: 0,
            private_data,
        };
        let mut event = filled(
            cbindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY,
            params,
        )?;
        event.status = match error {
            ConnectError::Refused => econnrefused(),
            ConnectError::Reset => econnreset(),
            ConnectError::TimedOut => ETIMEDOUT,
        }
        .to_errno();
        self.event(&mut event)
    }

    /// Reports ESTABLISHED of a connection that was accepted.
    pub fn established(&self, ird: u8, ord: u8) -> Result {
        let params = EventParams {
            ird,
            ord,
            private_data: &[],
        };
        self.event(&mut filled(
            cbindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED,
            params,
        )?)
    }

    /// Reports CLOSE.
    pub fn closed(&self) -> Result {
        self.event(&mut cbindings::iw_cm_event {
            event: cbindings::iw_cm_event_type_IW_CM_EVENT_CLOSE,
            ..Default::default()
        })
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is dropped once.
        unsafe {
            if let Some(rem_ref) = (*self.0.as_ptr()).rem_ref {
                rem_ref(self.0.as_ptr());
            }
        }
    }
}

/// Creates an event with these parameters. iw_cm copies the private data of those events that have
/// some.
fn filled(
    kind: cbindings::iw_cm_event_type,
    params: EventParams<'_>,
) -> Result<cbindings::iw_cm_event> {
    let length = u8::try_from(params.private_data.len())?;
    Ok(cbindings::iw_cm_event {
        event: kind,
        private_data: match length {
            0 => null_mut(),
            _ => params
                .private_data
                .as_ptr()
                .cast_mut()
                .cast::<ffi::c_void>(),
        },
        private_data_len: length,
        ird: params.ird,
        ord: params.ord,
        ..Default::default()
    })
}

fn set_addresses(event: &mut cbindings::iw_cm_event, endpoints: Endpoints) {
    event.local_addr = SockAddr::from(endpoints.local).storage();
    event.remote_addr = SockAddr::from(endpoints.peer).storage();
}

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
unsafe fn parameters<'a>(parameters: *const cbindings::iw_cm_conn_param) -> ConnParams<'a> {
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

/// Returns whether the consumer of a connection created this queue pair.
///
/// # Safety
///
/// iw_cm, of which rdma_cm is the only user, passes the live id of a connection: its context is
/// rdma_cm's private id, which begins with the public one.
pub(crate) unsafe fn is_owned_by_consumer_of(
    id: *const cbindings::iw_cm_id,
    qp: NonNull<cbindings::ib_qp>,
) -> bool {
    // SAFETY: The caller promises it. The consumer that creates and destroys the queue pair is the
    // one that calls now.
    unsafe {
        let consumer = (*id).context.cast::<cbindings::rdma_cm_id>();
        (&raw const (*consumer).qp).read_volatile() == qp.as_ptr()
    }
}

/// Returns the pointer that iw_cm keeps for the driver: the number of a request.
///
/// # Safety
///
/// iw_cm passes a live id.
unsafe fn provider_data(id: *mut cbindings::iw_cm_id) -> *mut ffi::c_void {
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
        id: *mut cbindings::iw_cm_id,
        param: *mut cbindings::iw_cm_conn_param,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device, and has a reference to the
            // queue pair.
            unsafe {
                let device = (*id).device;
                let is_meant = |qp| is_owned_by_consumer_of(id, qp);
                let qp = qp::Operations::<D>::find(device, (*param).qpn, is_meant)?;
                let netdev = NetDevice::of(device)?;
                // The id keeps the device, but its network device can move meanwhile.
                let consumer = (*id).context.cast::<cbindings::rdma_cm_id>();
                if !netdev.is_in((*consumer).route.addr.dev_addr.net) {
                    return Err(ENODEV);
                }
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
        id: *mut cbindings::iw_cm_id,
        param: *mut cbindings::iw_cm_conn_param,
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
        id: *mut cbindings::iw_cm_id,
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
        id: *mut cbindings::iw_cm_id,
        backlog: ffi::c_int,
    ) -> ffi::c_int {
        in_noio(|| {
            // SAFETY: iw_cm passes a live id of a registered device; its context is rdma_cm's
            // private id, which begins with the public one.
            unsafe {
                (*id).provider_data = null_mut();
                let device = (*id).device;
                let netdev = NetDevice::of(device)?;
                let consumer = (*id).context.cast::<cbindings::rdma_cm_id>();
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
    pub(crate) unsafe extern "C" fn stop_listening(id: *mut cbindings::iw_cm_id) -> ffi::c_int {
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
