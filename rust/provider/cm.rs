// SPDX-License-Identifier: GPL-2.0

//! Connection management: ids of iw_cm and their events.
//!
//! C header: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h)
//!
//! The driver keeps the order of events; iw_cm hits a `BUG_ON` where it is wrong.

use core::net::SocketAddr;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::addr::SockAddr;
use iwraw::errno::econnrefused;
use iwraw::errno::econnreset;
use kernel::error::to_result;
use kernel::ffi;
use kernel::prelude::*;

/// The function that frees an id is code of iw_cm, and may still run when the last reference is
/// gone. So iw_cm must not be unloaded before this module, which therefore uses a symbol of it.
#[used]
static IW_CM: unsafe extern "C" fn(ffi::c_int) -> *const ffi::c_char = iwraw::iwcm_reject_msg;

/// An id of iw_cm.
///
/// # Invariants
///
/// The value owns a reference to the id.
pub struct CmId(NonNull<iwraw::iw_cm_id>);

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
    pub(crate) unsafe fn new(id: NonNull<iwraw::iw_cm_id>) -> Self {
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
                iwraw::addr::read((&raw const (*id).m_local_addr).cast()),
                iwraw::addr::read((&raw const (*id).m_remote_addr).cast()),
            )
        }
    }

    fn event(&self, event: &mut iwraw::iw_cm_event) -> Result {
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
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST, params)?;
        event.provider_data = core::ptr::without_provenance_mut(usize::try_from(handle)?);
        set_addresses(&mut event, endpoints);
        self.event(&mut event)
    }

    /// Reports CONNECT_REPLY of a connect that succeeded. May fail if there are private data.
    pub fn connected(&self, endpoints: Endpoints, params: EventParams<'_>) -> Result {
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY, params)?;
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
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY, params)?;
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
            iwraw::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED,
            params,
        )?)
    }

    /// Reports CLOSE.
    pub fn closed(&self) -> Result {
        self.event(&mut iwraw::iw_cm_event {
            event: iwraw::iw_cm_event_type_IW_CM_EVENT_CLOSE,
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
fn filled(kind: iwraw::iw_cm_event_type, params: EventParams<'_>) -> Result<iwraw::iw_cm_event> {
    let length = u8::try_from(params.private_data.len())?;
    Ok(iwraw::iw_cm_event {
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

fn set_addresses(event: &mut iwraw::iw_cm_event, endpoints: Endpoints) {
    event.local_addr = SockAddr::from(endpoints.local).storage();
    event.remote_addr = SockAddr::from(endpoints.peer).storage();
}
