// SPDX-License-Identifier: GPL-2.0

//! Connection management: ids of iw_cm and the events that they take.
//!
//! C header: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h)
//!
//! The order of events is the driver's to keep; iw_cm stops the machine where it is wrong.

use core::net::SocketAddr;
use core::ptr::null_mut;
use core::ptr::NonNull;
use iwraw::addr::RawAddr;
use iwraw::errno::econnrefused;
use iwraw::errno::econnreset;
use kernel::error::to_result;
use kernel::ffi;
use kernel::prelude::*;

/// What frees an id is code of iw_cm, which may still run when the last reference is gone. So iw_cm must not go before this
/// module, which needs a symbol of it.
#[used]
static IW_CM: unsafe extern "C" fn(ffi::c_int) -> *const ffi::c_char = iwraw::iwcm_reject_msg;

/// An id of iw_cm.
///
/// # Invariants
///
/// The value owns a reference to it.
pub struct CmId(NonNull<iwraw::iw_cm_id>);

// SAFETY: Any task may hold a reference; iw_cm has its own locks.
unsafe impl Send for CmId {}
// SAFETY: As above.
unsafe impl Sync for CmId {}

/// Numbers of Reads in an event, and private data.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// Reads that are taken.
    pub ird: u8,
    /// Reads that may be outstanding.
    pub ord: u8,
    /// At most 255 octets.
    pub private_data: &'a [u8],
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer's upper layer refused.
    Refused,
    /// The peer went away, or broke a rule.
    Reset,
    /// The peer did not answer.
    Timeout,
}

/// What a consumer asks for when it connects or accepts.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    /// Reads that it takes.
    pub ird: u32,
    /// Reads that it wants to have outstanding.
    pub ord: u32,
    /// What it says to the peer's upper layer.
    pub private_data: &'a [u8],
}

/// The two ends of a connection.
#[derive(Clone, Copy)]
pub struct Addresses {
    /// This end.
    pub local: SocketAddr,
    /// The peer.
    pub peer: SocketAddr,
}

impl CmId {
    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// The id is live.
    pub(crate) unsafe fn new(id: NonNull<iwraw::iw_cm_id>) -> Self {
        // SAFETY: The caller vouches for the id.
        if let Some(add_ref) = unsafe { (*id.as_ptr()).add_ref } {
            // SAFETY: As above.
            unsafe { add_ref(id.as_ptr()) };
        }
        // INVARIANT: Just taken.
        Self(id)
    }

    /// Where the consumer wants to listen, or the ends of the connection that it wants. The second is `None` for a listener.
    pub(crate) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let id = self.0.as_ptr();
        // SAFETY: The reference keeps the id; both are storage for an address of any family.
        unsafe {
            (
                iwraw::addr::read((&raw const (*id).m_local_addr).cast()),
                iwraw::addr::read((&raw const (*id).m_remote_addr).cast()),
            )
        }
    }

    fn event(&self, event: &mut iwraw::iw_cm_event) -> Result {
        // SAFETY: The reference keeps the id; iw_cm copies the event.
        unsafe {
            let handler = (*self.0.as_ptr()).event_handler.ok_or(EINVAL)?;
            to_result(handler(self.0.as_ptr(), event))
        }
    }

    /// CONNECT_REQUEST, of a listener's id. `handle` comes back when the consumer accepts or rejects, if ever. May fail.
    pub fn connect_request(&self, ends: Addresses, told: Told<'_>, handle: u32) -> Result {
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST, told)?;
        event.provider_data = core::ptr::without_provenance_mut(usize::try_from(handle)?);
        set_addresses(&mut event, ends);
        self.event(&mut event)
    }

    /// CONNECT_REPLY of a connect that succeeded. May fail if there are private data.
    pub fn connected(&self, ends: Addresses, told: Told<'_>) -> Result {
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY, told)?;
        set_addresses(&mut event, ends);
        self.event(&mut event)
    }

    /// CONNECT_REPLY of a connect that failed. May fail if there are private data.
    pub fn refused(&self, refusal: Refusal, private_data: &[u8]) -> Result {
        let told = Told {
            ird: 0,
            ord: 0,
            private_data,
        };
        let mut event = filled(iwraw::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY, told)?;
        event.status = match refusal {
            Refusal::Refused => econnrefused(),
            Refusal::Reset => econnreset(),
            Refusal::Timeout => ETIMEDOUT,
        }
        .to_errno();
        self.event(&mut event)
    }

    /// ESTABLISHED, of a connection that was accepted.
    pub fn established(&self, ird: u8, ord: u8) -> Result {
        let told = Told {
            ird,
            ord,
            private_data: &[],
        };
        self.event(&mut filled(
            iwraw::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED,
            told,
        )?)
    }

    /// CLOSE.
    pub fn closed(&self) -> Result {
        self.event(&mut iwraw::iw_cm_event {
            event: iwraw::iw_cm_event_type_IW_CM_EVENT_CLOSE,
            ..Default::default()
        })
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the type invariants, and given back once.
        unsafe {
            if let Some(rem_ref) = (*self.0.as_ptr()).rem_ref {
                rem_ref(self.0.as_ptr());
            }
        }
    }
}

/// An event that says `told`. iw_cm copies the private data of those events that have some.
fn filled(kind: iwraw::iw_cm_event_type, told: Told<'_>) -> Result<iwraw::iw_cm_event> {
    let length = u8::try_from(told.private_data.len())?;
    Ok(iwraw::iw_cm_event {
        event: kind,
        private_data: match length {
            0 => null_mut(),
            _ => told.private_data.as_ptr().cast_mut().cast::<ffi::c_void>(),
        },
        private_data_len: length,
        ird: told.ird,
        ord: told.ord,
        ..Default::default()
    })
}

fn set_addresses(event: &mut iwraw::iw_cm_event, ends: Addresses) {
    event.local_addr = RawAddr::from(ends.local).storage();
    event.remote_addr = RawAddr::from(ends.peer).storage();
}
