// SPDX-License-Identifier: GPL-2.0

//! The limits of a device, as far as the sizes of a connection depend on them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::errno::eopnotsupp;
use crate::prelude::*;
use kernel::page::PAGE_SIZE;

/// Converts an attribute of a device to a count. Attributes are `int` or `u32`, depending on the
/// kernel; a negative one counts as zero.
fn count(attribute: impl TryInto<u32>) -> u32 {
    attribute.try_into().unwrap_or(0)
}

/// The limits of a device, in the units of its users.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The most work requests in one queue of a queue pair.
    pub queue_depth: u32,
    /// The most pages that one fast registration can cover.
    pub registration_pages: u32,
    /// The most RDMA Reads that the device answers at the same time on one connection.
    pub responder_resources: u8,
    /// The most RDMA Reads that the device executes at the same time on one connection.
    pub initiator_depth: u8,
    /// The most scatter elements of one RDMA Write.
    pub write_elements: usize,
    /// The most scatter elements of one RDMA Read.
    pub read_elements: usize,
    /// The pages of a memory region for the destination of RDMA Reads. [`None`] where the key for
    /// local access suffices.
    pub read_mr_pages: Option<u32>,
    /// Whether a region that the peer invalidated is out of its reach. On iWARP an invalidation is
    /// legal before the registration, whatever the key, and the registration still takes effect
    /// then.
    pub remote_invalidation: bool,
    /// Whether a Send waits for a Receive of the peer (RNR). On iWARP a Send that finds none ends
    /// the connection.
    pub waits_for_receives: bool,
}

impl Limits {
    /// The limit of elements in a request. More would only make all requests of a queue larger.
    const MAX_ELEMENTS: usize = 30;

    /// The limit of pages in a region for Reads: 1 MiB, enough for most Reads. Larger regions would
    /// only take more memory themselves.
    // CAST: Pages have at least 4 KiB, so it is 256 at most.
    const READ_MR_PAGES: u32 = ((1 << 20) / PAGE_SIZE) as u32;

    /// Returns the limits of `device`. `EOPNOTSUPP` if it does not support fast registration.
    ///
    /// # Safety
    ///
    /// `device` is live during the call.
    pub(crate) unsafe fn of(device: NonNull<cbindings::ib_device>, is_iwarp: bool) -> Result<Self> {
        // SAFETY: The caller promises that `device` is live; its attributes do not change after it
        // was registered.
        let attrs = unsafe { &(*device.as_ptr()).attrs };
        // CAST: bindgen gives an enum of 64 bits the type of the kernel's `unsigned long`.
        let fast_registration = cbindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
        if attrs.device_cap_flags & fast_registration == 0 || attrs.max_fast_reg_page_list_len == 0
        {
            return Err(eopnotsupp());
        }
        let byte = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        let elements = |n: u32| usize::try_from(n).unwrap_or(1).clamp(1, Self::MAX_ELEMENTS);
        // On iWARP the peer writes the response to an RDMA Read, to a single place and by a remote
        // key.
        let (read_mr_pages, max_read) = if is_iwarp {
            (
                Some(attrs.max_fast_reg_page_list_len.min(Self::READ_MR_PAGES)),
                1,
            )
        } else {
            (None, count(attrs.max_send_sge).min(count(attrs.max_sge_rd)))
        };
        Ok(Self {
            queue_depth: count(attrs.max_qp_wr),
            registration_pages: attrs.max_fast_reg_page_list_len,
            responder_resources: byte(count(attrs.max_qp_rd_atom)),
            initiator_depth: byte(count(attrs.max_qp_init_rd_atom)),
            write_elements: elements(count(attrs.max_send_sge)),
            read_elements: elements(max_read),
            read_mr_pages,
            remote_invalidation: !is_iwarp,
            waits_for_receives: !is_iwarp,
        })
    }

    /// Returns the most work requests of one RDMA Read: the Read itself, and a registration.
    pub fn requests_per_read(&self) -> u32 {
        match self.read_mr_pages {
            Some(_) => 2,
            None => 1,
        }
    }
}
