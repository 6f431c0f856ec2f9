// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::mr::Coverage;
use crate::prelude::*;
use kernel::alloc::NumaNode;

/// A protection domain, to which regions and buffers belong.
///
/// A domain is created for one connection, and may serve later ones on the same device, which then
/// need not allocate regions again. The id of the first connection keeps the device, and gets the
/// event of its removal.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_pd` on the device of `id` and is freed only in `drop`.
pub struct ProtectionDomain<H: Context> {
    ptr: NonNull<cbindings::ib_pd>,
    /// Whether a region in it could not be deregistered: its key stays valid as long as the domain
    /// lives.
    unclean: Atomic<bool>,
    /// Whether such a region had pages, which are never freed.
    leaks: Atomic<bool>,
    /// The memory that one region in it can cover.
    coverage: Coverage,
    /// The number of buffers allocated in it.
    buffers: Atomic<u32>,
    id: Arc<Id<H>>, // Dropped after `ptr` is freed: it keeps the device.
}

// SAFETY: Any task may call verbs for the domain, and free it.
unsafe impl<H: Context> Send for ProtectionDomain<H> {}
// SAFETY: `&ProtectionDomain` gives access to atomics, and to numbers and pointers that never
// change.
unsafe impl<H: Context> Sync for ProtectionDomain<H> {}

impl<H: Context> ProtectionDomain<H> {
    /// Creates a domain on the device that `id` is bound to. Sleeps.
    pub fn new(id: Arc<Id<H>>) -> Result<Arc<Self>> {
        let device = id.device()?;
        // SAFETY: `id` is bound to `device` and so keeps it.
        let coverage = unsafe { Coverage::of(device) }?;
        // Without a flag, the domain has no key for all memory.
        // Argues for SEC-01.
        // SAFETY: `id` is bound to `device` and so keeps it, and so does the value made below.
        let ptr = from_err_ptr(unsafe { cbindings::ib_alloc_pd(device.as_ptr(), 0) })?;
        // INVARIANT: The domain was just allocated on the device of `id`.
        let pd = Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            unclean: Atomic::new(false),
            leaks: Atomic::new(false),
            coverage,
            buffers: Atomic::new(0),
            id,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut cbindings::ib_pd {
        self.ptr.as_ptr()
    }

    /// Returns whether a connection of `id` may use the domain: the id is bound to the domain's
    /// device, and no peer of an earlier connection can still reach memory in the domain.
    pub fn serves(&self, id: &Id<H>) -> bool {
        !self.unclean.load(Relaxed)
            && id
                .device()
                .is_ok_and(|device| device.as_ptr() == self.device())
    }

    /// Notes that a region could not be deregistered, so that no later connection uses the domain.
    pub(crate) fn set_unclean(&self) {
        self.unclean.store(true, Relaxed);
    }

    /// Notes that such a region had pages, which are never freed. Returns true the first time: a
    /// dead device leaves a hundred of them.
    pub(crate) fn note_leak(&self) -> bool {
        !self.leaks.xchg(true, Relaxed)
    }

    /// Returns what one region in the domain can cover.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Returns a number for a new buffer, which identifies it in traces.
    pub(crate) fn next_buffer_number(&self) -> u32 {
        self.buffers.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Returns whether the domain was created for the connection of `id`, and therefore keeps that
    /// id.
    pub fn is_of(&self, id: &Id<H>) -> bool {
        self.id.as_raw() == id.as_raw()
    }

    /// Returns the context of the connection that the domain was created for. That context gets the
    /// event of the device's removal, which waits until the domain is freed.
    pub fn context(&self) -> &Arc<H> {
        self.id.context()
    }

    /// Returns the key for local access to all memory of the machine.
    #[inline]
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants; the key never changes.
        unsafe { (*self.ptr.as_ptr()).local_dma_lkey }
    }

    #[inline]
    pub(crate) fn device(&self) -> *mut cbindings::ib_device {
        // SAFETY: `ptr` is live by the type invariants; the device never changes.
        unsafe { (*self.ptr.as_ptr()).device }
    }

    /// Returns the NUMA node of the device, or of the network device that a software device belongs
    /// to.
    pub(crate) fn node(&self) -> NumaNode {
        // SAFETY: `id` keeps the device.
        let node = unsafe { cbindings::ibdev_to_node(self.device()) };
        // On most machines, which have one node, devices have none.
        NumaNode::new(node).unwrap_or(NumaNode::NO_NODE)
    }
}

impl<H: Context> Drop for ProtectionDomain<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants. Every object in the domain holds an `Arc`
        // of it, so only regions that could not be deregistered are left: for those the device
        // refuses, and keeps the domain.
        unsafe { cbindings::ib_dealloc_pd(self.ptr.as_ptr()) };
    }
}
