// SPDX-License-Identifier: GPL-2.0

//! What a device can do, as far as a connection's shape depends on it.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::error::not_supported;
use core::ptr::NonNull;
use kernel::error::Result;

/// A count among a device's attributes. Those are `int` or `u32`, as the kernel has it; where they have a sign, a negative one is
/// none.
fn count(attribute: impl TryInto<u32>) -> u32 {
    attribute.try_into().unwrap_or(0)
}

/// Limits of a device, already reduced to what its users count in.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Work requests that fit one queue of a queue pair.
    pub queue_depth: u32,
    /// Pages that one fast registration can cover.
    pub registration_pages: u32,
    /// RDMA Reads that the device answers at the same time on one connection.
    pub responder_resources: u8,
    /// RDMA Reads that the device works on at the same time on one connection.
    pub initiator_depth: u8,
    /// Scatter elements that one RDMA Write takes.
    pub write_elements: usize,
    /// Scatter elements that one RDMA Read takes.
    pub read_elements: usize,
    /// Pages of a region for what RDMA Reads bring. [`None`] where the key for local access will do.
    pub sink_pages: Option<u32>,
    /// Whether a region that the peer invalidated is out of its reach. On iWARP an invalidation that
    /// comes before the registration is legal, whatever the key, and leaves that to happen.
    pub remote_invalidation: bool,
    /// Whether a Send waits for a Receive of the peer (RNR). On iWARP one that finds none ends the connection.
    pub waits_for_receives: bool,
}

impl Limits {
    /// More elements in a request only make all requests of a queue larger.
    const MAX_ELEMENTS: usize = 30;

    /// Memory that most Reads fit in; larger regions would only take more memory themselves.
    const SINK_PAGES: u32 = 256;

    /// Reads the limits of `device`, which speaks iWARP or does not. `EOPNOTSUPP` if it cannot do
    /// fast registration.
    ///
    /// # Safety
    ///
    /// `device` is live during the call.
    pub(crate) unsafe fn of(device: NonNull<raw::ib_device>, is_iwarp: bool) -> Result<Self> {
        // SAFETY: The caller vouches for `device`; its attributes are fixed once it is registered.
        let attrs = unsafe { &(*device.as_ptr()).attrs };
        // CAST: bindgen gives an enum of 64 bits the type of the kernel's `unsigned long`.
        let fast_registration = raw::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        if attrs.device_cap_flags & fast_registration == 0 || attrs.max_fast_reg_page_list_len == 0
        {
            return Err(not_supported());
        }
        let byte = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        let elements = |n: u32| usize::try_from(n).unwrap_or(1).clamp(1, Self::MAX_ELEMENTS);
        // There the answer to an RDMA Read is written by the peer, which names one place and needs a
        // key for it.
        let (sink_pages, max_read) = match is_iwarp {
            true => (
                Some(attrs.max_fast_reg_page_list_len.min(Self::SINK_PAGES)),
                1,
            ),
            false => (None, count(attrs.max_send_sge).min(count(attrs.max_sge_rd))),
        };
        Ok(Self {
            queue_depth: count(attrs.max_qp_wr),
            registration_pages: attrs.max_fast_reg_page_list_len,
            responder_resources: byte(count(attrs.max_qp_rd_atom)),
            initiator_depth: byte(count(attrs.max_qp_init_rd_atom)),
            write_elements: elements(count(attrs.max_send_sge)),
            read_elements: elements(max_read),
            sink_pages,
            remote_invalidation: !is_iwarp,
            waits_for_receives: !is_iwarp,
        })
    }

    /// Work requests that one RDMA Read takes at most: itself, and the registration of its sink.
    pub fn requests_per_read(&self) -> u32 {
        match self.sink_pages {
            Some(_) => 2,
            None => 1,
        }
    }
}
